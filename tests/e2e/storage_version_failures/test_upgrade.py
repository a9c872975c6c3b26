"""API servers are upgraded one after the other while clients write and somebody migrates."""

import asyncio

from storage_version_checks import transitions, wrong_of, wrong_writes
from storage_version_cluster import ApiServer, Cluster
from widget_load import WIDGETS, Load

STEP_S = 40.0
# How long a server may take to hear that its report was acknowledged, and to open its gate: less
# than until its next heartbeat, a third of its lease later.
OPENS_S = 8.0
LEASE_S = 30


def late_refusals(cluster: Cluster, load: Load, *servers: ApiServer) -> list[str]:
    """Return writes that were refused though the present life of a server had reported."""
    late: list[str] = []
    for server in servers:
        reports = [
            report
            for report in cluster.history.reports
            if report.server_id == server.server_id
            and report.began > server.life_began
            and report.is_acknowledged
        ]
        opened = min(report.ended for report in reports) + OPENS_S
        late += [str(one) for one in load.of(server) if one.is_refused and one.began > opened]
    return late


async def test_a_rolling_upgrade_under_load(cluster: Cluster) -> None:
    cluster.steps.report_takes_s = 0.6
    await cluster.start(0, 0)
    # Several, so that one is under way whenever the servers begin to differ.
    migrations = cluster.migrating(*[WIDGETS] * 4)
    servers = [cluster.api_server(f"server-{number}", lease_s=LEASE_S) for number in range(2)]
    load = Load()
    for server in servers:
        server.start("v1")
        cluster.beside(load.write(server))
    await load.accepting(*servers, least=3)
    await migrations.until_done("example.dev/v1")

    victim = cluster.replicas[0]
    for server in servers:
        if server is servers[1]:
            server.kill()
            victim.kill()
            server.start("v2")
            await asyncio.gather(victim.start(), load.accepting(server, least=3))
        else:
            await server.stop()
            server.start("v2")
            await load.accepting(server, least=3)
    wanted = {WIDGETS: {server.server_id: "example.dev/v2" for server in servers}}
    await cluster.converge(lambda listed: listed.entries == wanted, STEP_S)
    await migrations.until_done("example.dev/v2")

    runs, losses = migrations.outcome()
    writes = load.written()
    assert wrong_of(cluster.history, runs) == []
    assert wrong_writes(cluster.history, WIDGETS, writes, runs) == []
    assert load.unkept() == []
    assert late_refusals(cluster, load, *servers) == []
    assert all(any(one.is_refused for one in load.of(server)) for server in servers)
    assert {write.version for write in writes} == {"example.dev/v1", "example.dev/v2"}
    assert transitions(cluster.history) >= 2
    assert losses
