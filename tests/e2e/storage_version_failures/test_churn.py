"""Many servers come, go and change while replicas are killed, cut off, and have wrong clocks."""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from markers import IS_LONG
from reporting_members import Member
from storage_version_checks import transitions, wrong_of
from storage_version_cluster import Cluster, Collector

SHIFT_S = 420.0
CHURN_S = 14.0 if IS_LONG else 7.0
LEASE_S = 2
CONVERGED_S = 40.0
NAMES = [f"resource{number}" for number in range(16)]
FLAPPING = [f"flapping{number}" for number in range(24)]
MANY = [f"many{number}" for number in range(250)]


async def members_of(
    cluster: Cluster, stack: AsyncExitStack, *names: str, resources: Sequence[str], lease_s: int
) -> list[Member]:
    """Return servers that are members already."""
    addresses = [replica.address for replica in cluster.replicas]
    members = [
        await stack.enter_async_context(
            Member(
                cluster.history,
                addresses,
                name=name,
                resources=resources,
                lease_s=lease_s,
                seed=cluster.seed,
            )
        )
        for name in names
    ]
    await asyncio.gather(*(member.beat() for member in members))
    return members


async def test_garbage_is_collected_though_the_collector_is_killed(cluster: Cluster) -> None:
    await cluster.start(*([SHIFT_S, -SHIFT_S] if cluster.is_etcd else [SHIFT_S]))
    async with AsyncExitStack() as stack:
        leaves, stays = await members_of(
            cluster, stack, "leaves", "stays", resources=MANY, lease_s=30
        )
        await asyncio.gather(leaves.report("v1"), stays.report("v2"))
        both = {leaves.server_id, stays.server_id}
        await cluster.converge(
            lambda now: all(set(one) == both for one in now.entries.values()), CONVERGED_S
        )
        left = time.monotonic()
        await leaves.depart()
        await until_collecting(cluster, left)
        for replica in cluster.replicas:
            replica.kill()
            replica.shift_s = -replica.shift_s  # somebody sets the clock
        killed = time.monotonic()
        await asyncio.gather(*(replica.start() for replica in cluster.replicas))
        await stays.beat()
        listed = await cluster.converge(
            lambda now: set(now.members) == {stays.server_id} and len(now.common) == len(MANY),
            CONVERGED_S,
        )
    assert all(entries.keys() == {stays.server_id} for entries in listed.entries.values())
    collected = [one.at for one in cluster.history.seen if one.at > left and len(one.entries) == 1]
    assert min(collected) < killed < max(collected)
    assert wrong_of(cluster.history) == []


async def until_collecting(cluster: Cluster, since: float) -> None:
    """Wait until a change of any object has been told."""
    async with asyncio.timeout(CONVERGED_S):
        while not any(one.at > since for one in cluster.history.seen):
            await cluster.history.change()


async def disturb(cluster: Cluster, until: float) -> None:
    """Kill replicas and cut them off the store, one after the other."""
    while time.monotonic() < until:
        await asyncio.sleep(cluster.dice.uniform(0.5, 1.5))
        place = cluster.dice.randrange(len(cluster.replicas))
        if cluster.networks and cluster.dice.random() < 0.5:
            network = cluster.networks[place]
            network.cut()
            await asyncio.sleep(cluster.dice.uniform(0.5, 3.0))
            network.mend()
            if cluster.dice.random() < 0.5:
                network.drop()
        else:
            replica = cluster.replicas[place]
            replica.kill()
            await asyncio.sleep(cluster.dice.uniform(0, 0.5))
            await replica.start()


async def test_nothing_acknowledged_is_lost_whatever_happens(cluster: Cluster) -> None:
    # Processes that share a file share a machine and its clock.
    await cluster.start(*([0, SHIFT_S, -SHIFT_S] if cluster.is_etcd else [0, 0]))
    migrations = cluster.migrating(*(f"example.com.{name}" for name in NAMES[:4]))
    for number in range(2):
        cluster.keep(Collector(cluster.folder, f"collector-{number}")).start(cluster.store)
    names = [f"member-{number}" for number in range(4)]
    until = time.monotonic() + CHURN_S
    async with AsyncExitStack() as stack:
        members = await members_of(cluster, stack, *names, resources=NAMES, lease_s=LEASE_S)
        flappers = await members_of(
            cluster, stack, "flap-0", "flap-1", resources=FLAPPING, lease_s=LEASE_S
        )
        await asyncio.gather(
            disturb(cluster, until),
            *(member.live(until) for member in members),
            *(flapper.flap(until) for flapper in flappers),
        )
        remaining = members[:3]
        for member in remaining:
            member.lease_s = 60  # from now on none may lose its membership
        keeping = [cluster.beside(member.keep_alive()) for member in remaining]
        await asyncio.gather(*(member.report("v2") for member in remaining))
        wanted = {member.server_id: "example.com/v2" for member in remaining}
        await cluster.converge(
            lambda now: (
                set(now.members) == set(wanted)
                and len(now.entries) == len(NAMES)
                and all(entries == wanted for entries in now.entries.values())
                and len(now.common) == len(NAMES)
            ),
            CONVERGED_S,
        )
        await migrations.until_done("example.com/v2")
        for task in keeping:
            task.cancel()

    runs, losses = migrations.outcome()
    sys.stdout.write(
        f"{len(cluster.history.reports)} reports, {len(list(cluster.history.seen))} revisions,"
        f" {transitions(cluster.history)} transitions, {len(runs)} migrations, {len(losses)} lost,"
        f" {[member.joined for member in (*members, *flappers)]} memberships\n"
    )
    assert wrong_of(cluster.history, runs) == []
    assert losses
    assert transitions(cluster.history) > len(NAMES)
    assert sum(member.joined for member in members) > len(members)
