"""After any history of a store, the view and the events of each replica agree with it."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress

from apidiscovery_service.kube.go_json import dumps
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.storage_versions.collection import Collection, Event, Expired
from apidiscovery_service.store.memory import MemoryStore
from hypothesis import example, given
from hypothesis import strategies as st

PREFIX = "storageversions/"
NAMES = ("a.a", "b.b", "c.c")

# Writes and removals, and replicas that catch up in between.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES)),
        st.tuples(st.just("remake"), st.sampled_from(NAMES)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES)),
        st.tuples(st.just("break"), st.sampled_from(NAMES)),
        st.tuples(st.just("elsewhere"), st.just("")),
        st.tuples(st.just("pause"), st.sampled_from(("first", "second", "both"))),
    ),
    max_size=40,
)


class Replica:
    """A collection that follows the store only when it is told to."""

    def __init__(self, store: MemoryStore) -> None:
        self.collection = Collection(store, STORAGE_VERSION, PREFIX, history=1000, pause_s=0)

    async def catch_up(self) -> None:
        """Follow the store from where it was left, for a moment."""
        task = asyncio.create_task(self.collection.follow())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def events(self, after: int) -> list[Event]:
        """Return all events after a revision that are there."""
        found: list[Event] = []
        generator = self.collection.events(after, bookmark_every_s=0)
        async for event in generator:
            if event.type is EventType.BOOKMARK and not event.initial:
                break
            found.append(event)
        await generator.aclose()
        return found


async def act(store: MemoryStore, step: tuple[str, str], count: int) -> None:
    what, name = step
    value: Object = {"metadata": {"name": name, "annotations": {"count": str(count)}}}
    match what:
        case "write":
            await store.put(PREFIX + name, dumps(value))
        case "remake":
            await store.delete(PREFIX + name)
            await store.put(PREFIX + name, dumps(value))
        case "remove":
            await store.delete(PREFIX + name)
        case "break":
            await store.put(PREFIX + name, b"?")
        case _:
            await store.put("leases/kube-system/x", b"{}")


def applied(state: Mapping[str, Object], events: Iterable[Event]) -> dict[str, Object]:
    """Return the objects of a client after these events."""
    now = dict(state)
    for event in events:
        name = metadata_of(event.object).get("name")
        if event.type is EventType.BOOKMARK:
            continue
        if event.type is EventType.DELETED:
            now.pop(str(name), None)
        else:
            now[str(name)] = event.object
    return now


async def there(store: MemoryStore) -> dict[str, Object]:
    every, _ = await Collection(store, STORAGE_VERSION, PREFIX).read_all()
    return {stored.name: stored.object for stored in every}


async def check(actions: list[tuple[str, str]], history: int) -> None:
    store = MemoryStore(history)
    await store.put("leases/kube-system/x", b"{}")
    replicas = {"first": Replica(store), "second": Replica(store)}
    for replica in replicas.values():
        await replica.collection.load()
    for count, (what, which) in enumerate([*actions, ("pause", "both")]):
        if what != "pause":
            await act(store, (what, which), count)
            continue
        for name, replica in replicas.items():
            if which in (name, "both"):
                await replica.catch_up()
    truth = await there(store)
    for replica in replicas.values():
        view = {name: stored.object for name, stored in replica.collection.view.items()}
        assert view == truth
        await check_events(replica, tuple(replicas.values()), truth)


async def check_events(
    replica: Replica, others: Iterable[Replica], truth: Mapping[str, Object]
) -> None:
    told = await replica.events(1)
    assert applied({}, told) == truth
    revisions = [event.revision for event in told]
    assert revisions == sorted(revisions)
    # A client that is cut off after any event continues with any replica and misses nothing.
    for cut in range(1, len(told) + 1):
        seen = applied({}, told[:cut])
        for other in others:
            with suppress(Expired):  # it lists again
                assert applied(seen, await other.events(told[cut - 1].revision)) == truth


# An object is removed before another one is written, and a later list has another value.
REMADE = [
    *(("write", "a.a"), ("pause", "second"), ("remove", "a.a"), ("write", "b.b")),
    *(("pause", "first"), ("break", "a.a")),
]
BROKEN = [
    *(("write", "a.a"), ("write", "b.b"), ("pause", "second"), ("remove", "a.a")),
    *(("break", "b.b"), ("pause", "first"), ("break", "b.b")),
]


@example(REMADE, 2)
@example(BROKEN, 2)
@given(steps, st.sampled_from((2, 5, 1000)))
def test_view_and_events_agree_with_the_store_on_every_replica(
    actions: list[tuple[str, str]], history: int
) -> None:
    asyncio.run(check(actions, history))
