"""API servers are killed at each step of their lives, and replicas with them; one is cut off."""

import asyncio
import time

import pytest
from proxies import TcpProxy
from storage_version_checks import wrong_of, wrong_writes
from storage_version_cluster import ApiServer, Cluster, Listed
from waiting import until
from widget_load import WIDGETS, Load

pytestmark = pytest.mark.timeout(300)
LEASE_S = 4
STEP_S = 40.0
# A lease that nobody renews is seen unchanged for its duration, by whoever holds the claim then.
COLLECTED_S = 40.0

STEPS = ("before Heartbeat", "after Heartbeat", "before Report", "after Report")


def writing(listed: Listed) -> dict[str, str]:
    """Return the version that each server writes, without its group."""
    return {
        server_id: version.rpartition("/")[2]
        for server_id, version in listed.entries.get(WIDGETS, {}).items()
    }


async def killed_at_each_step(cluster: Cluster, load: Load) -> list[ApiServer]:
    """Return servers of which each was killed at another step, while a replica was killed too."""
    servers = [cluster.api_server(f"at-{n}", lease_s=LEASE_S) for n in range(len(STEPS))]
    held = [
        cluster.steps.hold(server.server_id, step)
        for server, step in zip(servers, STEPS, strict=True)
    ]
    for server in servers:
        server.start("v1")
        cluster.beside(load.write(server))
    async with asyncio.timeout(STEP_S):
        await asyncio.gather(*(one.wait() for one in held))
    cluster.replicas[0].kill()
    for server in servers:
        server.kill()
        cluster.steps.release(server.server_id)
    assert not any(load.accepted(server) for server in servers)
    await cluster.replicas[0].start()
    return servers


async def test_servers_that_are_killed_come_back_or_are_forgotten(cluster: Cluster) -> None:
    await cluster.start(*([0] * (2 if cluster.is_etcd else 1)))
    networks = [await cluster.network_to(address) for address in cluster.services]
    stays = cluster.api_server("stays", [one.address for one in networks], LEASE_S)
    load = Load()
    stays.start("v1")
    cluster.beside(load.write(stays))
    await load.accepting(stays)
    migrations = cluster.migrating(WIDGETS)
    await migrations.until_done("example.dev/v1")

    servers = await killed_at_each_step(cluster, load)
    returning, forgotten = servers[2:], servers[:2]
    for server in returning:
        server.start("v2")
    await load.accepting(*returning)
    upgraded = {server.server_id: "v2" for server in returning}
    both = {stays.server_id: "v1", **upgraded}
    listed = await cluster.converge(
        lambda now: set(now.members) == set(both) and writing(now) == both, COLLECTED_S
    )
    assert not {server.server_id for server in forgotten} & listed.members

    await cut_off_and_back(cluster, load, stays, networks, upgraded)
    await stays.stop()
    await migrations.until_done("example.dev/v2")

    for server in returning:
        await server.stop()
    await cluster.converge(lambda now: not now.members and not now.entries, COLLECTED_S)
    runs, losses = migrations.outcome()
    writes = load.written()
    assert wrong_of(cluster.history, runs) == []
    assert wrong_writes(cluster.history, WIDGETS, writes, runs) == []
    assert load.unkept() == []
    assert losses


async def cut_off_and_back(
    cluster: Cluster,
    load: Load,
    server: ApiServer,
    networks: list[TcpProxy],
    others: dict[str, str],
) -> None:
    """Cut a server off the service until it is forgotten; the others agree, until it is back."""
    for network in networks:
        network.cut()
    listed = await cluster.converge(lambda now: writing(now) == others, COLLECTED_S)
    assert listed.common == {WIDGETS: "example.dev/v2"}
    forgotten = time.monotonic()
    await until(
        lambda: any(one.began > forgotten for one in load.of(server)), "it is asked", STEP_S
    )
    assert not any(one.is_accepted for one in load.of(server) if one.began > forgotten)
    for network in networks:
        network.mend()
    back = {server.server_id: "v1", **others}
    await cluster.converge(lambda now: writing(now) == back, STEP_S)
    await until(
        lambda: any(one.is_accepted and one.began > forgotten for one in load.of(server)),
        "writes are accepted again",
        STEP_S,
    )
