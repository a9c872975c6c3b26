"""Garbage collection: entries of departed servers are removed, those of members never."""

import asyncio
from contextlib import suppress

import pytest
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.storage_versions import garbage
from apidiscovery_service.store import Fenced
from apidiscovery_service.store.memory import MemoryStore
from storage_version_replicas import Replica, lease_key, object_key, ticking, writes
from store_wrapper import DisturbedStore, failing
from waiting import WITHIN_S, until

JOBS = "apps.jobs"


@pytest.fixture
def store() -> DisturbedStore:
    return DisturbedStore(MemoryStore())


@pytest.fixture
def replica(store: DisturbedStore) -> Replica:
    return Replica(store, now=ticking())


async def only(replica: Replica, *server_ids: str) -> bool:
    """Tell whether entries of these servers are left of the jobs, in this order."""
    return list(await replica.written(JOBS) or {}) == list(server_ids)


async def is_away(replica: Replica, name: str) -> bool:
    return await replica.objects.read(name) is None


# Removed.


async def test_entries_are_removed_with_the_lease_of_their_server(replica: Replica) -> None:
    guard = await replica.take_claim()
    a, b = await replica.join("a"), await replica.join("b")
    await replica.says(a, jobs="v1", cronjobs="v1")
    await replica.says(b, jobs="v2")
    async with replica.following(), replica.collecting(guard):
        await replica.members.depart(a)
        await until(lambda: only(replica, b))
        await until(lambda: is_away(replica, "apps.cronjobs"))
    status = await replica.status(JOBS)
    assert status is not None
    assert status.common_encoding_version == "apps/v2"
    assert status.condition is not None
    assert status.condition.status == "True"


async def test_garbage_from_before_the_start_is_removed(replica: Replica) -> None:
    a = await replica.join("a")
    await replica.says(a, jobs="v1")
    await replica.members.depart(a)
    guard = await replica.take_claim()
    async with replica.following(), replica.collecting(guard):
        await until(lambda: is_away(replica, JOBS))


async def test_an_object_written_with_an_entry_of_a_non_member_is_checked(
    replica: Replica, store: DisturbedStore
) -> None:
    """A status that is written over HTTP can have such an entry."""
    guard = await replica.take_claim()
    a = await replica.join("a")
    await replica.says(a, jobs="v1")
    written_elsewhere = (await store.get(object_key(JOBS))).value  # type: ignore[union-attr]
    strange = written_elsewhere.replace(a.encode(), b"apiserver-stranger")
    async with replica.following(), replica.collecting(guard):
        await store.put(object_key(JOBS), strange)
        await until(lambda: is_away(replica, JOBS))


async def test_all_objects_are_checked_periodically(
    store: DisturbedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector finds garbage of which it receives no event."""

    async def receive_nothing(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(garbage, "follow_events", receive_nothing)
    replica = Replica(store, collect_every_s=0.1)
    guard = await replica.take_claim()
    a = await replica.join("a")
    await replica.says(a, jobs="v1")
    async with replica.following(), replica.collecting(guard):
        await replica.members.depart(a)
        await until(lambda: is_away(replica, JOBS))


async def test_an_object_that_never_had_an_entry_is_left(replica: Replica) -> None:
    guard = await replica.take_claim()
    fresh: Object = {
        "kind": "StorageVersion",
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
        "metadata": {"name": "apps.fresh", "uid": "1"},
        "spec": {},
        "status": {},
    }
    husk = fresh | {
        "metadata": {"name": "apps.husk", "uid": "2"},
        "status": {
            "conditions": [
                {
                    "type": "AllEncodingVersionsEqual",
                    "status": "False",
                    "lastTransitionTime": None,
                    "reason": "CommonEncodingVersionUnset",
                    "message": "Common encoding version unset",
                }
            ]
        },
    }
    await replica.objects.create(fresh)
    await replica.objects.create(husk)
    async with replica.following(), replica.collecting(guard):
        await until(lambda: is_away(replica, "apps.husk"))
    await replica.garbage.clear({"apps.fresh", "apps.none"}, guard)
    assert await replica.objects.read("apps.fresh") is not None


# Not removed.


async def test_a_lease_that_cannot_be_read_is_not_absent(
    replica: Replica, store: DisturbedStore
) -> None:
    """kube-controller-manager removes the entry then, and the server repairs it minutes later."""
    guard = await replica.take_claim()
    a, b = await replica.join("a"), await replica.join("b")
    await replica.says(a, jobs="v1")
    await replica.says(b, jobs="v1")
    async with replica.following(), replica.collecting(guard) as collecting:
        store.before = failing("get", "leases/")
        await store.store.delete(lease_key(a))
        await asyncio.sleep(0.5)
        assert not collecting.done()
        assert await only(replica, a, b)
        store.before = None
        await until(lambda: only(replica, b))


async def test_collecting_continues_after_an_outage_of_the_store(
    replica: Replica, store: DisturbedStore
) -> None:
    guard = await replica.take_claim()
    a, b = await replica.join("a"), await replica.join("b")
    await replica.says(a, jobs="v1")
    await replica.says(b, jobs="v1")
    async with replica.following(), replica.collecting(guard) as collecting:
        store.before = failing("put", "storageversions/")
        await store.store.delete(lease_key(a))
        await asyncio.sleep(0.3)
        assert not collecting.done()
        store.before = None
        await until(lambda: only(replica, b))


async def test_an_unreadable_lease_counts_as_present(
    replica: Replica, store: DisturbedStore
) -> None:
    guard = await replica.take_claim()
    a = await replica.join("a")
    await replica.says(a, jobs="v1")
    await store.put(lease_key(a), b"no object")
    await replica.garbage.clear({JOBS}, guard)
    assert await only(replica, a)


async def test_an_unreadable_object_is_left_alone(replica: Replica, store: DisturbedStore) -> None:
    guard = await replica.take_claim()
    await store.put(object_key(JOBS), b"no object")
    await replica.garbage.clear({JOBS}, guard)
    assert await store.get(object_key(JOBS)) is not None


async def test_nothing_is_removed_after_the_claim_is_lost(
    replica: Replica, store: DisturbedStore
) -> None:
    guard = await replica.take_claim()
    a, b = await replica.join("a"), await replica.join("b")
    await replica.says(a, jobs="v1", cronjobs="v1")
    await replica.says(b, jobs="v1")
    await replica.members.depart(a)
    await store.delete(guard.key)
    for name in (JOBS, "apps.cronjobs"):
        with pytest.raises(Fenced):
            await replica.garbage.clear({name}, guard)
    assert await only(replica, a, b)
    async with replica.following():
        with pytest.raises(Fenced):
            await asyncio.wait_for(replica.garbage.collect(guard), WITHIN_S)


# Finalizers.


async def test_an_object_with_finalizers_is_emptied_and_marked(replica: Replica) -> None:
    guard = await replica.take_claim()
    a = await replica.join("a")
    (result,) = await replica.reports.report(a, [writes("jobs", "v1")])
    held = metadata_of(result.stored.object) | {"finalizers": ["example.com/hold"], "generation": 3}
    await replica.objects.replace(result.stored, result.stored.object | {"metadata": held})
    await replica.members.depart(a)
    await replica.garbage.clear({JOBS}, guard)
    stored = await replica.objects.read(JOBS)
    assert stored is not None
    metadata = metadata_of(stored.object)
    assert metadata["deletionTimestamp"] is not None
    assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 4)
    assert await replica.written(JOBS) == {}
    await replica.garbage.clear({JOBS}, guard)
    assert await replica.objects.read(JOBS) == stored


# The end of collecting.


async def test_collecting_ends_when_it_is_cancelled(replica: Replica) -> None:
    guard = await replica.take_claim()
    before = asyncio.all_tasks()
    async with replica.following():
        task = asyncio.ensure_future(replica.garbage.collect(guard))
        await asyncio.sleep(0.05)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert asyncio.all_tasks() == before
