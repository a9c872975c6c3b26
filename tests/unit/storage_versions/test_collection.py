"""The objects of a kind in a store, their view, and its events."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.kube.objects.metadata import metadata_of, with_metadata
from apidiscovery_service.kube.objects.watch_events import INITIAL_EVENTS_END, EventType
from apidiscovery_service.storage_versions.collection import (
    Collection,
    Event,
    Expired,
    StoredObject,
    TooLarge,
    Unreadable,
)
from apidiscovery_service.store import (
    ABSENT,
    Conflict,
    Fenced,
    Guard,
    Store,
)
from apidiscovery_service.store.memory import MemoryStore
from store_wrapper import InterruptedStore, RestorableStore
from waiting import WITHIN_S

PREFIX = "storageversions/"
NAME = "apps.deployments"


def a_storage_version(name: str = NAME, **annotations: str) -> Object:
    metadata: Object = {"name": name}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata}


def saying(stored: StoredObject, **annotations: str) -> Object:
    return with_metadata(stored.object, metadata_of(stored.object) | {"annotations": annotations})


on_each_store = pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)


@pytest.fixture
async def store(store: Store) -> Store:
    await store.put("leases/kube-system/other", b"{}")  # no watch continues after revision 0
    return store


@pytest.fixture
def collection(store: Store) -> Collection:
    """Return a collection that does not follow its store."""
    return Collection(store, STORAGE_VERSION, PREFIX)


@asynccontextmanager
async def following(store: Store, history: int = 1024) -> AsyncGenerator[Collection]:
    """Return a collection that is loaded and follows its store."""
    collection = Collection(store, STORAGE_VERSION, PREFIX, history, pause_s=0.01)
    await collection.load()
    async with followed(collection):
        yield collection


@asynccontextmanager
async def followed(collection: Collection) -> AsyncGenerator[None]:
    """Let a collection follow its store."""
    task = asyncio.create_task(collection.follow())
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def created(collection: Collection, name: str = NAME) -> StoredObject:
    """Create an object, and wait until the view has it."""
    stored = await collection.create(a_storage_version(name))
    await collection.seen(stored.revision)
    return stored


async def take(events: AsyncGenerator[Event], count: int) -> list[Event]:
    async with asyncio.timeout(WITHIN_S):
        return [await anext(events) for _ in range(count)]


def told(event: Event) -> tuple[str, str, int]:
    return event.type.value, str(metadata_of(event.object).get("name", "")), event.revision


# The store.


async def test_a_created_object_has_the_revision_as_resource_version(
    collection: Collection,
) -> None:
    created = await collection.create(a_storage_version())
    assert created == await collection.read(NAME)
    assert (created.key, created.name) == (PREFIX + NAME, NAME)
    assert metadata_of(created.object)["resourceVersion"] == str(created.revision)
    assert await collection.read_all() == ((created,), created.revision)
    assert await collection.read("apps.others") is None


async def test_the_stored_value_is_canonical_and_has_no_resource_version(
    collection: Collection, store: Store
) -> None:
    created = await collection.create({"status": {}, **a_storage_version()})
    replaced = await collection.replace(created, saying(created, a="b"))
    entry = await store.get(replaced.key)
    assert entry is not None
    assert entry.value == (
        b'{"kind":"StorageVersion","apiVersion":"internal.apiserver.k8s.io/v1alpha1",'
        b'"metadata":{"name":"apps.deployments","annotations":{"a":"b"}},"spec":{},"status":{}}'
    )
    assert (replaced.revision, replaced.created) == (entry.revision, created.revision)


async def test_only_what_was_read_is_replaced_or_removed(collection: Collection) -> None:
    first = await collection.create(a_storage_version())
    with pytest.raises(Conflict):
        await collection.create(a_storage_version())
    second = await collection.replace(first, saying(first, a="b"))
    with pytest.raises(Conflict):
        await collection.replace(first, saying(first, a="c"))
    with pytest.raises(Conflict):
        await collection.remove(first)
    assert await collection.read(NAME) == second
    await collection.remove(second)
    with pytest.raises(Conflict):
        await collection.remove(second)
    assert await collection.read(NAME) is None


async def test_nothing_is_written_when_a_guard_does_not_hold(
    collection: Collection, store: Store
) -> None:
    lease = await store.put("leases/kube-system/a", b"{}")
    broken = (Guard("leases/kube-system/a", lease.created), Guard("leases/kube-system/b", 7))
    with pytest.raises(Fenced):
        await collection.create(a_storage_version(), broken)
    kept = await collection.create(a_storage_version(), broken[:1])
    with pytest.raises(Fenced):
        await collection.replace(kept, saying(kept, a="b"), broken)
    with pytest.raises(Fenced):
        await collection.remove(kept, Guard("leases/kube-system/a", ABSENT))
    assert await collection.read(NAME) == kept


async def test_an_object_larger_than_a_store_takes_is_refused(collection: Collection) -> None:
    with pytest.raises(TooLarge, match=r"at most 1048576 can be stored"):
        await collection.create(a_storage_version(a="x" * 1024 * 1024))


@on_each_store
async def test_concurrent_writers_lose_no_update(collection: Collection) -> None:
    await collection.create(a_storage_version(count="0"))

    async def count(times: int) -> None:
        while times:
            stored = await collection.read(NAME)
            assert stored is not None
            annotations = metadata_of(stored.object)["annotations"]
            assert isinstance(annotations, dict)
            more = f"{annotations['count']}x"
            try:
                await collection.replace(stored, saying(stored, count=more))
            except Conflict:
                continue
            times -= 1

    await asyncio.gather(*(count(10) for _ in range(8)))
    stored = await collection.read(NAME)
    assert stored is not None
    assert metadata_of(stored.object)["annotations"] == {"count": "0" + 80 * "x"}


# The events.


@on_each_store
async def test_an_object_is_added_modified_and_deleted(store: Store) -> None:
    async with following(store) as collection:
        events = collection.events(collection.revision)
        first = await collection.create(a_storage_version())
        (added,) = await take(events, 1)
        second = await collection.replace(first, saying(first, a="b"))
        (modified,) = await take(events, 1)
        await collection.remove(second)
        (deleted,) = await take(events, 1)
        await events.aclose()
    assert (added.type, added.object, added.previous) == (EventType.ADDED, first.object, None)
    assert (modified.type, modified.object) == (EventType.MODIFIED, second.object)
    assert (modified.previous, deleted.previous) == (first.object, second.object)
    assert (deleted.type, deleted.revision) == (EventType.DELETED, second.revision + 1)
    version = {"resourceVersion": str(deleted.revision)}
    assert metadata_of(deleted.object) == metadata_of(second.object) | version
    assert collection.view == {}


async def test_a_watch_begins_with_the_state_of_the_store_although_the_view_is_late() -> None:
    collection = Collection(MemoryStore(), STORAGE_VERSION, PREFIX)
    await collection.load()
    await collection.create(a_storage_version("b.b"))
    last = await collection.create(a_storage_version("a.a"))
    events = collection.events(None)
    added, other, bookmark = await take(events, 3)
    assert [told(added), told(other)] == [("ADDED", "a.a", 2), ("ADDED", "b.b", 1)]
    assert added.initial
    assert (bookmark.type, bookmark.initial) == (EventType.BOOKMARK, True)
    assert metadata_of(bookmark.object) == {
        "resourceVersion": str(last.revision),
        "annotations": {INITIAL_EVENTS_END: "true"},
    }
    # The view receives those writes only now; they cause no second event.
    async with followed(collection):
        await collection.seen(last.revision)
        await collection.create(a_storage_version("c.c"))
        assert [told(event) for event in await take(events, 1)] == [("ADDED", "c.c", 3)]


async def test_a_watch_may_begin_with_the_view() -> None:
    collection = Collection(MemoryStore(), STORAGE_VERSION, PREFIX)
    await collection.create(a_storage_version("a.a"))
    await collection.load()
    await collection.create(a_storage_version("b.b"))
    events = await take(collection.events(0), 2)
    assert [told(event) for event in events] == [("ADDED", "a.a", 1), ("BOOKMARK", "", 1)]


async def test_a_watch_goes_on_after_any_revision_that_is_kept(store: Store) -> None:
    async with following(store) as collection:
        for name in ("a.a", "b.b", "c.c"):
            await created(collection, name)
        for after, names in ((1, "abc"), (2, "bc"), (3, "c")):
            events = collection.events(after)
            missed = await take(events, len(names))
            assert [told(event)[1][0] for event in missed] == list(names)
            await events.aclose()


async def test_a_watch_waits_for_a_future_revision(store: Store) -> None:
    async with following(store) as collection:
        next_one = asyncio.create_task(take(collection.events(3), 1))
        await collection.create(a_storage_version("a.a"))
        await collection.create(a_storage_version("b.b"))
        await collection.create(a_storage_version("c.c"))
        assert [told(event) for event in await next_one] == [("ADDED", "c.c", 4)]


async def test_a_watcher_after_an_old_revision_must_list_again(store: Store) -> None:
    async with following(store, history=2) as collection:
        for name in ("a.a", "b.b", "c.c", "d.d"):
            await created(collection, name)
        with pytest.raises(Expired, match=r"^too old resource version: 1 \(3\)$") as caught:
            await take(collection.events(1), 1)
        assert (caught.value.after, caught.value.oldest) == (1, 3)
        assert len(await take(collection.events(3), 2)) == 2


async def test_a_slow_watcher_must_list_again(store: Store) -> None:
    async with following(store, history=2) as collection:
        events = collection.events(collection.revision)
        await created(collection, "a.a")
        await take(events, 1)
        for name in ("b.b", "c.c", "d.d"):
            await created(collection, name)
        with pytest.raises(Expired, match=r"too old resource version: 2 \(3\)"):
            await take(events, 1)


async def test_events_before_the_view_was_loaded_are_not_available(
    collection: Collection, store: Store
) -> None:
    for name in ("a.a", "b.b"):
        await collection.create(a_storage_version(name))
    async with following(store) as late:
        with pytest.raises(Expired):
            await take(late.events(1), 1)


async def test_a_bookmark_has_the_revision_that_a_watch_has_reached(store: Store) -> None:
    async with following(store) as collection:
        stored = await created(collection)
        watching = collection.events(stored.revision, bookmark_every_s=0.01)
        first, second = await take(watching, 2)
        replaced = await collection.replace(stored, saying(stored, a="b"))
        later = [event async for event in _until(watching, replaced.revision)]
    assert told(first) == told(second) == ("BOOKMARK", "", stored.revision)
    assert not first.initial
    assert told(later[-2])[0] == "MODIFIED"
    assert told(later[-1]) == ("BOOKMARK", "", replaced.revision)


async def _until(events: AsyncGenerator[Event], revision: int) -> AsyncIterator[Event]:
    """Yield events up to a bookmark of a revision."""
    async for event in events:
        yield event
        if event.type is EventType.BOOKMARK and event.revision == revision:
            return


async def test_many_watchers_share_one_event(store: Store) -> None:
    async with following(store) as collection:
        stored = await created(collection)
        watching = [collection.events(stored.revision) for _ in range(100)]
        waiting = [asyncio.create_task(take(events, 1)) for events in watching]
        await collection.replace(stored, saying(stored, a="b"))
        seen = await asyncio.gather(*waiting)
    (first,) = seen[0]
    assert first.type is EventType.MODIFIED
    assert all(event is first for (event,) in seen)


async def test_an_object_created_again_in_between_is_deleted_and_added() -> None:
    async with following(MemoryStore()) as collection:
        first = await created(collection)
        await collection.remove(first)
        again = await collection.create(a_storage_version())
        assert collection.revision == first.revision, "the changes must come together"
        deleted, added = await take(collection.events(first.revision), 2)
    assert (deleted.type, deleted.revision) == (EventType.DELETED, again.revision - 1)
    assert (added.type, added.object, added.previous) == (EventType.ADDED, again.object, None)


async def test_a_watch_can_continue_after_each_of_several_removals() -> None:
    async with following(MemoryStore()) as collection:
        both = [await collection.create(a_storage_version(name)) for name in ("a.a", "b.b")]
        await collection.seen(2)
        for stored in both:
            await collection.remove(stored)
        first, second = await take(collection.events(2), 2)
        again, same = await take(collection.events(first.revision), 2)
        assert collection.revision == second.revision == 4
    assert [told(first)[:2], told(second)[:2]] == [("DELETED", "a.a"), ("DELETED", "b.b")]
    assert (again, same) == (first, second)


# What goes wrong.


BROKEN = {
    "no JSON": b"\xff{",
    "no object": b"[]",
    "a list for metadata": b'{"metadata":[]}',
    "a number for a name": b'{"metadata":{"name":1}}',
    "another name": b'{"metadata":{"name":"apps.others"}}',
    "no name": b"{}",
    "wrong type in status": b'{"metadata":{"name":"apps.deployments"},"status":{"conditions":1}}',
    "another kind": b'{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{}}',
    "too deep": b'{"metadata":' + 900 * b'{"a":' + b"1" + 900 * b"}" + b"}",
    "much too deep": 100_000 * b"[",
}


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in BROKEN.items()])
async def test_an_unreadable_value_is_left_out_with_a_warning_until_it_is_readable(
    value: bytes,
) -> None:
    store = MemoryStore()
    await store.put(PREFIX + "apps.whole", json.dumps(a_storage_version("apps.whole")).encode())
    good = await store.put(PREFIX + NAME, json.dumps(a_storage_version()).encode())
    async with following(store) as collection:
        assert not collection.warnings()
        events = collection.events(collection.revision)
        bad = await store.put(PREFIX + NAME, value)
        (deleted,) = await take(events, 1)
        assert told(deleted) == ("DELETED", NAME, bad.revision)
        assert list(collection.view) == ["apps.whole"]
        (warning,) = collection.warnings()
        assert PREFIX + NAME in warning
        with pytest.raises(Unreadable, match=PREFIX + NAME):
            await collection.read(NAME)
        assert [stored.name for stored in (await collection.read_all())[0]] == ["apps.whole"]
        assert Collection(store, STORAGE_VERSION, PREFIX).warnings() == []
        healed = await store.put(PREFIX + NAME, good.value)
        assert [told(event) for event in await take(events, 1)] == [
            ("ADDED", NAME, healed.revision)
        ]
        assert not collection.warnings()


async def test_an_unreadable_value_at_the_start_is_a_warning_too() -> None:
    store = MemoryStore()
    await store.put(PREFIX + NAME, b"?")
    async with following(store) as collection:
        assert len(collection.warnings()) == 1
        await store.delete(PREFIX + NAME)
        await store.put(PREFIX + "a.a", json.dumps(a_storage_version("a.a")).encode())
        await collection.seen(3)
        assert (collection.warnings(), list(collection.view)) == ([], ["a.a"])


async def test_changes_during_an_outage_of_the_store_become_events() -> None:
    store = InterruptedStore(MemoryStore())
    writer = Collection(store.store, STORAGE_VERSION, PREFIX)
    gone = await writer.create(a_storage_version("a.a"))
    async with following(store) as collection:
        events = collection.events(collection.revision)
        store.away = True
        await store.interrupt()
        await asyncio.sleep(0)
        assert list(collection.view) == ["a.a"]
        await writer.create(a_storage_version("b.b"))
        await writer.remove(gone)
        store.away = False
        news = await take(events, 2)
        assert [told(event) for event in news] == [("DELETED", "a.a", 1), ("ADDED", "b.b", 2)]


async def test_a_restored_store_with_the_same_revisions_is_read_again() -> None:
    store, backup = RestorableStore(), MemoryStore()
    before, restored = (Collection(s, STORAGE_VERSION, PREFIX) for s in (store.store, backup))
    for name in ("a.a", "b.b"):
        await before.create(a_storage_version(name, of="before"))
    for name in ("a.a", "c.c"):
        await restored.create(a_storage_version(name, of="backup"))
    async with following(store) as collection:
        assert sorted(collection.view) == ["a.a", "b.b"]
        events = collection.events(collection.revision)
        await store.restore(backup)
        with pytest.raises(Expired):
            await take(events, 1)
        assert sorted(collection.view) == ["a.a", "c.c"]
        assert await collection.read("a.a") == collection.view["a.a"]
        annotations = metadata_of(collection.view["a.a"].object)["annotations"]
        assert annotations == {"of": "backup"}


async def test_changes_that_the_store_forgot_become_events() -> None:
    store = MemoryStore(history=2)
    writer = Collection(store, STORAGE_VERSION, PREFIX)
    first = [await writer.create(a_storage_version(name)) for name in ("a.a", "b.b", "c.c", "d.d")]
    async with following(store) as collection:
        events = collection.events(4)
        await writer.remove(first[3])
        await writer.remove(first[0])
        await writer.replace(first[1], saying(first[1], a="b"))
        await writer.create(a_storage_version("e.e"))
        news = await take(events, 4)
        assert [told(event)[:2] for event in news] == [
            ("DELETED", "a.a"),
            ("DELETED", "d.d"),
            ("MODIFIED", "b.b"),
            ("ADDED", "e.e"),
        ]
        assert [event.revision for event in news] == [4, 6, 7, 8]
        assert sorted(collection.view) == ["b.b", "c.c", "e.e"]


async def test_a_restored_store_expires_all_watches() -> None:
    store = InterruptedStore(MemoryStore())
    writer = Collection(store.store, STORAGE_VERSION, PREFIX)
    for name in ("a.a", "b.b", "c.c"):
        await writer.create(a_storage_version(name))
    async with following(store) as collection:
        events = collection.events(None)
        await take(events, 4)
        waiting = asyncio.create_task(take(events, 1))
        store.store = MemoryStore()
        restored = Collection(store.store, STORAGE_VERSION, PREFIX)
        await restored.create(a_storage_version("old.old"))
        await store.interrupt()
        with pytest.raises(Expired):
            await waiting
        assert (list(collection.view), collection.revision) == (["old.old"], 1)
        again = await take(collection.events(0), 2)
        assert [told(event) for event in again] == [
            ("ADDED", "old.old", 1),
            ("BOOKMARK", "", 1),
        ]


async def test_a_view_that_is_not_loaded_is_loaded_when_it_is_followed() -> None:
    store = InterruptedStore(MemoryStore())
    store.away = True
    await Collection(store.store, STORAGE_VERSION, PREFIX).create(a_storage_version())
    collection = Collection(store, STORAGE_VERSION, PREFIX, pause_s=0.01)
    async with followed(collection):
        events = asyncio.create_task(take(collection.events(0), 2))
        await store.read.wait()
        await asyncio.sleep(0)
        assert not events.done()
        store.away = False
        assert [told(event) for event in await events] == [("ADDED", NAME, 1), ("BOOKMARK", "", 1)]
