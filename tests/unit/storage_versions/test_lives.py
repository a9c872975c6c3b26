"""What an earlier life of an API server has sent must not undo what a later one was told."""

import asyncio

import pytest
from apidiscovery_service.storage_versions.members import Heartbeat, NotMember, Superseded
from apidiscovery_service.store.memory import MemoryStore
from storage_version_replicas import Replica, object_key, writes
from store_wrapper import DisturbedStore


async def test_a_report_of_an_earlier_life_that_is_late_changes_nothing() -> None:
    shared = MemoryStore()
    cut_off = DisturbedStore(shared)  # the replica that is cut off from the store
    old, new = Replica(cut_off), Replica(shared)
    beat = await new.members.heartbeat(Heartbeat("one", instance="first"))
    server_id = beat.api_server_id
    await new.says(server_id, deployments="v2")

    on_its_way, mended = asyncio.Event(), asyncio.Event()

    async def hold(operation: str, key: str) -> None:
        if (operation, key) == ("put", object_key("apps.deployments")):
            on_its_way.set()
            await mended.wait()

    cut_off.before = hold
    late = asyncio.create_task(old.says(server_id, deployments="v1"))  # rolled back to v1 ...
    await on_its_way.wait()  # ... and killed
    await new.members.heartbeat(Heartbeat("one", instance="second"))  # again with v2
    await new.says(server_id, deployments="v2")  # acknowledged, nothing written
    mended.set()
    with pytest.raises(NotMember):
        await late
    assert await new.written("apps.deployments") == {server_id: "apps/v2"}


async def test_a_report_that_reaches_the_server_late_is_refused() -> None:
    replica = Replica(MemoryStore())
    beat = await replica.members.heartbeat(Heartbeat("one", instance="first"))
    server_id = beat.api_server_id
    await replica.reports.report(server_id, [writes("deployments", "v2")], "first")
    await replica.members.heartbeat(Heartbeat("one", instance="second"))
    with pytest.raises(NotMember, match="another instance"):
        await replica.reports.report(server_id, [writes("deployments", "v1")], "first")
    await replica.reports.report(server_id, [writes("deployments", "v2")], "second")
    assert await replica.written("apps.deployments") == {server_id: "apps/v2"}


async def test_a_heartbeat_of_an_earlier_life_that_is_late_ends_no_later_one() -> None:
    replica = Replica(MemoryStore())
    for life in ("first", "second", "third"):
        beat = await replica.members.heartbeat(Heartbeat("one", instance=life))
    server_id = beat.api_server_id
    for life in ("second", "first"):
        with pytest.raises(Superseded, match="another process has become"):
            await replica.members.heartbeat(Heartbeat("one", instance=life))
    lease = await replica.leases.read(server_id)
    assert lease
    assert lease.object == beat.lease.object


async def test_who_was_superseded_may_come_when_the_later_life_has_departed() -> None:
    replica = Replica(MemoryStore())
    for life in ("first", "second"):
        beat = await replica.members.heartbeat(Heartbeat("one", instance=life))
    await replica.members.depart(beat.api_server_id, "second")
    assert (await replica.members.heartbeat(Heartbeat("one", instance="first"))).joined
