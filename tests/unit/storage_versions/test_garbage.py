"""What is removed of servers that are gone, and above all what is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.collection import StoredObject
from apidiscovery_service.store import Fenced, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from storage_version_replicas import Replica, lease_key, object_key, ticking, until, writes
from store_wrapper import DisturbedStore, failing, once

JOBS = "apps.jobs"


@pytest.fixture
async def store() -> AsyncIterator[DisturbedStore]:
    memory = DisturbedStore(MemoryStore())
    yield memory
    await memory.close()


@pytest.fixture
def replica(store: DisturbedStore) -> Replica:
    return Replica(store, now=ticking())


async def only(replica: Replica, *server_ids: str) -> bool:
    """Tell whether entries of these servers are left of the jobs, in this order."""
    return list(await replica.written(JOBS) or {}) == list(server_ids)


async def is_away(replica: Replica, name: str) -> bool:
    return await replica.objects.read(name) is None


def metadata(stored: StoredObject | None) -> Object:
    assert stored is not None
    value = stored.object["metadata"]
    assert isinstance(value, dict)
    return value


# When it is looked at.


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
    """As when somebody writes a status over HTTP."""
    guard = await replica.take_claim()
    a = await replica.join("a")
    await replica.says(a, jobs="v1")
    written_elsewhere = (await store.get(object_key(JOBS))).value  # type: ignore[union-attr]
    strange = written_elsewhere.replace(a.encode(), b"apiserver-stranger")
    async with replica.following(), replica.collecting(guard):
        await store.put(object_key(JOBS), strange)
        await until(lambda: is_away(replica, JOBS))


async def test_all_objects_are_checked_periodically(store: DisturbedStore) -> None:
    """A removal of a lease that the views did not hear of is noticed by the clock."""
    replica = Replica(store, collect_every_s=0.2)
    guard = await replica.take_claim()
    a = await replica.join("a")
    await replica.says(a, jobs="v1")
    async with replica.following(), replica.collecting(guard):
        store.before = once("get", lease_key(a), _fail)
        await store.delete(lease_key(a))
        await until(lambda: is_away(replica, JOBS))


async def _fail() -> None:
    raise StoreUnavailable("as the test wants")


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


# What is not removed.


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
            await asyncio.wait_for(replica.garbage.collect(guard), 10)


# Objects that somebody holds on to.


async def test_an_object_with_finalizers_is_emptied_and_marked(replica: Replica) -> None:
    guard = await replica.take_claim()
    a = await replica.join("a")
    (result,) = await replica.reports.report(a, [writes("jobs", "v1")])
    held = metadata(result.stored) | {"finalizers": ["example.com/hold"], "generation": 3}
    await replica.objects.replace(result.stored, result.stored.object | {"metadata": held})
    await replica.members.depart(a)
    await replica.garbage.clear({JOBS}, guard)
    stored = await replica.objects.read(JOBS)
    assert metadata(stored)["deletionTimestamp"] is not None
    assert metadata(stored)["deletionGracePeriodSeconds"] == 0
    assert metadata(stored)["generation"] == 4
    assert await replica.written(JOBS) == {}
    await replica.garbage.clear({JOBS}, guard)
    assert await replica.objects.read(JOBS) == stored


# More than one collector.


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
