"""The objects of one kind: in the store, and as its watch reports them.

Reads and writes go to the store, so they are consistent with those of all replicas. The view and
the events follow the store's watch: they may be a moment late, and never miss a change for good.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import orjson
import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue, dumps
from apidiscovery_service.kube.objects.decoding import Undecodable, from_value
from apidiscovery_service.kube.objects.kinds import Object, ObjectKind
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.kube.objects.watch_events import EventType, bookmark
from apidiscovery_service.storage_versions.recent_events import (
    Event,
    EventLog,
    Expired,
    Gap,
    with_resource_version,
)
from apidiscovery_service.store import (
    MAX_VALUE_BYTES,
    Batch,
    Change,
    Entry,
    Guards,
    Listing,
    Store,
)
from apidiscovery_service.store.following import follow
from apidiscovery_service.waiting import happens_within
from apidiscovery_service.workers import INLINE_BYTES, run_sized

__all__ = ["Collection", "Event", "Expired", "StoredObject", "TooLarge", "Unreadable"]

_log = structlog.get_logger(__name__)


class TooLarge(DiscoveryError):
    """An object is larger than a store accepts; the client must make it smaller."""


class Unreadable(DiscoveryError):
    """The value under an object's key is not an object; an operator must act.

    Attributes:
        key: The key in the store.
    """

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"the value at {key} in the store is not an object: {why}")
        self.key = key


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as it is in the store.

    Attributes:
        object: Canonical, with the revision as `metadata.resourceVersion`; never changed in place.
        key: The key in the store.
        revision: Revision of the write that stored it.
        created: Revision of the write since which the key has existed without a gap.
    """

    object: Object
    key: str
    revision: int
    created: int

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key.rpartition("/")[2]


def size_of(value: Object) -> int:
    """Return about how many bytes an object has in the store."""
    return len(orjson.dumps(value))


class Collection:
    """The objects of one kind below one prefix of a store.

    Every method that reads or writes the store may raise StoreUnavailable and StoreRefused.

    Args:
        store: Shared with other replicas.
        kind: The kind of the objects.
        prefix: The keys without the name; ends with a slash.
        history: The number of events that are available to watchers.
        pause_s: Pause after a failure of the store, before following it again.
    """

    def __init__(
        self,
        store: Store,
        kind: ObjectKind,
        prefix: str,
        history: int = 1024,
        *,
        pause_s: float = 1.0,
    ) -> None:
        self.kind = kind
        self.prefix = prefix
        self._store = store
        self._pause_s = pause_s
        self._view: dict[str, StoredObject] = {}
        self._unreadable: dict[str, Unreadable] = {}
        # Own writes until the watch reports them, which are then not decoded again: reports need
        # 20 % less CPU for that (500 resources, SQLite).
        self._decoded: dict[str, tuple[Entry, StoredObject]] = {}
        # Initial events by name, one for all watchers, so that each is encoded once.
        self._initial_events: dict[str, Event] = {}
        self._history = EventLog(history)
        self._revision = 0
        # The entry that was applied last under each key, readable or not.
        self._marks: dict[str, tuple[int, int]] = {}
        self._loaded = False

    @property
    def revision(self) -> int:
        """The revision up to which the view is complete; 0 before it is loaded."""
        return self._revision

    @property
    def view(self) -> Mapping[str, StoredObject]:
        """The objects by name as of the last event, unordered."""
        return MappingProxyType(self._view)

    def warnings(self) -> list[str]:
        """Return a line for each object that cannot be read, for operators."""
        return [str(why) for _, why in sorted(self._unreadable.items())]

    # The store.

    async def read(self, name: str) -> StoredObject | None:
        """Return an object as it is now, None if there is none.

        Raises:
            Unreadable: The value in the store is not an object.
        """
        entry = await self._store.get(self.prefix + name)
        return None if entry is None else self._stored_object(entry)

    async def read_all(self) -> tuple[tuple[StoredObject, ...], int]:
        """Return all objects as they are now, by name, and the store's revision at that moment.

        Unreadable ones are left out; `warnings` names them once the watch has reported them.
        """
        listing = await self._store.list(self.prefix)
        read = (self._read_or_none(entry) for entry in listing.entries)
        return tuple(stored for stored in read if stored), listing.revision

    async def create(self, value: Object, guards: Guards = ()) -> StoredObject:
        """Store an object under its `metadata.name` where none is.

        Raises:
            Conflict: There is one.
            Fenced: A guard does not hold.
            TooLarge: It is too large for a store.
        """
        return await self._put(f"{self.prefix}{metadata_of(value)['name']}", value, 0, guards)

    async def replace(
        self, stored: StoredObject, value: Object, guards: Guards = ()
    ) -> StoredObject:
        """Store an object in place of exactly this one.

        Raises:
            Conflict: It was changed or removed.
            Fenced: A guard does not hold.
            TooLarge: The new one is too large for a store.
        """
        return await self._put(stored.key, value, stored.revision, guards)

    async def remove(self, stored: StoredObject, guards: Guards = ()) -> None:
        """Remove exactly this object.

        Raises:
            Conflict: It was changed or removed.
            Fenced: A guard does not hold.
        """
        await self._store.delete(stored.key, expected=stored.revision, guard=guards)

    async def _put(self, key: str, value: Object, expected: int, guards: Guards) -> StoredObject:
        canonical = await run_sized(size_of(value), lambda: from_value(value, self.kind).object)
        text = dumps(with_resource_version(canonical, 0))
        if len(text) > MAX_VALUE_BYTES:
            raise TooLarge(f"{key} has {len(text)} bytes, at most {MAX_VALUE_BYTES} can be stored")
        entry = await self._store.put(key, text, expected=expected, guard=guards)
        seen = self._view.get(self._name(key))
        if seen and seen.revision >= entry.revision:
            return self._stored_object(entry)
        written = with_resource_version(canonical, entry.revision)
        stored = StoredObject(written, key, entry.revision, entry.created)
        self._decoded[key] = entry, stored
        return stored

    def _stored_object(self, entry: Entry) -> StoredObject:
        """Return the object of an entry, decoded only if it is not known."""
        seen = self._view.get(self._name(entry.key))
        if seen and self._marks.get(entry.key) == entry.mark:
            return seen
        decoded = self._decoded.get(entry.key)
        if decoded and decoded[0] == entry:
            return decoded[1]
        return _decode(entry, self.kind)

    def _read_or_none(self, entry: Entry) -> StoredObject | None:
        try:
            return self._stored_object(entry)
        except Unreadable:
            return None

    def _name(self, key: str) -> str:
        return key.removeprefix(self.prefix)

    # The view.

    async def load(self) -> int:
        """Bring the view to the state of the store; differences become events.

        Not while `follow` runs, which loads first when that has not been done.

        Returns:
            The revision of that state.
        """
        listing = await self._store.list(self.prefix)
        news = sorted(filter(self._is_news, listing.entries), key=lambda entry: entry.revision)
        present = {entry.key for entry in listing.entries}
        gone = [Change(key, None) for key in sorted(self._marks.keys() - present)]
        if not self._loaded or self._is_restored(listing, news):
            self._reset(listing)
        else:
            # A list does not show objects that were added and removed in between.
            self._history.extend([Gap(self._revision, listing.revision)])
            self._apply([*gone, *(Change(entry.key, entry) for entry in news)], listing.revision)
        return listing.revision

    async def follow(self) -> None:
        """Keep the view up to date until cancelled; it stays as it is while the store is away."""

        async def apply(batch: Batch) -> None:
            await self._decode_large(batch.changes)
            self._apply(batch.changes, batch.revision)

        after = self._revision if self._loaded else None
        await follow(self._store, self.prefix, self.load, apply, after=after, pause_s=self._pause_s)

    async def _decode_large(self, changes: Iterable[Change]) -> None:
        """Decode large objects of other replicas in a thread, so that `_apply` does not block."""
        for entry in (change.entry for change in changes):
            decoded = self._decoded.get(entry.key) if entry else None
            if (
                entry is None
                or len(entry.value) <= INLINE_BYTES
                or (decoded and decoded[0] == entry)
            ):
                continue
            decode = partial(_decode, entry, self.kind)
            with suppress(Unreadable):  # `_apply` logs it
                self._decoded[entry.key] = entry, await run_sized(len(entry.value), decode)

    def _is_news(self, entry: Entry) -> bool:
        return self._marks.get(entry.key) != entry.mark

    def _is_restored(self, listing: Listing, news: list[Entry]) -> bool:
        """Return whether the store was restored from a backup: revisions go back."""
        return listing.revision < self._revision or (
            bool(news) and news[0].revision <= self._revision
        )

    def _reset(self, listing: Listing) -> None:
        self._view.clear()
        self._unreadable.clear()
        self._decoded.clear()
        self._initial_events.clear()
        self._marks.clear()
        for entry in listing.entries:
            self._take(entry.key, entry)
        self._loaded = True
        self._revision = listing.revision
        self._history.restart(listing.revision)

    def _apply(self, changes: Iterable[Change], revision: int) -> None:
        gaps: list[Gap] = []
        removals: list[Removal] = []
        writes: list[Write] = []
        for change in changes:
            entry, before = change.entry, self._view.get(self._name(change.key))
            if before and entry and not self._is_news(entry):
                continue
            now = self._take(change.key, entry)
            until = entry.revision if entry else revision
            is_same = before and now and before.created == now.created
            if before and not is_same:
                removals.append(Removal(before, until - 1 if now else until))
            if now:
                writes.append(Write(now, before if is_same else None))
            elif before is None:
                gaps.append(Gap(self._revision, until))
        events = dated(removals, writes, self._revision, revision)
        self._revision = revision
        self._history.extend([*gaps, *events])

    def _take(self, key: str, entry: Entry | None) -> StoredObject | None:
        """Bring the view to the present entry of a key; return its object, None for none."""
        name = self._name(key)
        self._view.pop(name, None)
        self._initial_events.pop(name, None)
        self._marks.pop(key, None)
        self._unreadable.pop(key, None)
        if entry is None:
            self._decoded.pop(key, None)
            return None
        self._marks[key] = entry.mark
        try:
            stored = self._view[name] = self._stored_object(entry)
        except Unreadable as error:
            self._unreadable[key] = error
            _log.error("object cannot be read, it is left out", key=key, error=str(error))
            return None
        finally:
            decoded = self._decoded.get(key)
            if decoded and decoded[0].revision <= entry.revision:
                del self._decoded[key]
        return stored

    # The events.

    async def seen(self, revision: int) -> None:
        """Wait until the view is complete up to the revision of a write to this collection."""
        await self._history.news.until(lambda: self._revision >= revision)

    def next_change(self) -> asyncio.Event:
        """Return what is set at the next change of the view or of its revision."""
        return self._history.news.next()

    async def events(
        self, after: int | None, *, bookmark_every_s: float | None = None
    ) -> AsyncGenerator[Event]:
        """Yield changes in order, until closed; the last change of each object is among them.

        Earlier changes of an object may be left out. A watcher that continues on another replica
        may get a removal twice.

        Args:
            after: The revision of a list, an object or an event; a future one is waited for. None
                begins with the current objects, 0 with those of the view: each as ADDED and marked
                `initial`, by name, then a BOOKMARK with that mark.
            bookmark_every_s: Interval of BOOKMARKs with the revision reached; None for none but
                the initial one.

        Raises:
            Expired: Not all events after it are available, the reader was too slow, or an object
                that the reader may know has been removed unseen.
        """
        begun = after or 0
        if not after:
            objects, begun = await (self.read_all() if after is None else self._viewed_objects())
            for stored in objects:
                yield self._initial_event(stored)
            yield self._bookmark(begun, initial=True)
        await self._history.news.until(lambda: self._loaded)
        reached, position = begun, self._history.after(begun)
        clock = asyncio.get_running_loop().time
        due = None if bookmark_every_s is None else clock() + bookmark_every_s
        while True:
            news = self._history.news.next()
            while position < self._history.end:
                event = self._history.at(position, begun, reached)
                position += 1
                if event is not None:
                    reached = max(reached, event.revision)
                    yield event
            if await happens_within(None if due is None else due - clock(), news.wait()):
                continue
            due = None if bookmark_every_s is None else clock() + bookmark_every_s
            if position == self._history.end:
                reached = max(reached, self._revision)
                yield self._bookmark(reached)

    async def _viewed_objects(self) -> tuple[tuple[StoredObject, ...], int]:
        await self._history.news.until(lambda: self._loaded)
        return tuple(self._view[name] for name in sorted(self._view)), self._revision

    def _initial_event(self, stored: StoredObject) -> Event:
        event = self._initial_events.get(stored.name)
        if event is None or event.object is not stored.object:
            event = Event(
                EventType.ADDED, stored.object, stored.revision, stored.revision, initial=True
            )
            # An object that is not in the view is newer or older; nothing would remove its event.
            if self._view.get(stored.name) is stored:
                self._initial_events[stored.name] = event
        return event

    def _bookmark(self, revision: int, *, initial: bool = False) -> Event:
        value = bookmark(self.kind, str(revision), initial_events_end=initial)
        return Event(EventType.BOOKMARK, value, revision, revision, initial=initial)


def _decode(entry: Entry, kind: ObjectKind) -> StoredObject:
    """Return the object of an entry.

    Raises:
        Unreadable: It is not one, or its name differs from its key.
    """
    try:
        parsed: JSONValue = orjson.loads(entry.value)
        decoded = from_value(parsed, kind).object
    except (ValueError, Undecodable, RecursionError) as error:
        raise Unreadable(entry.key, str(error)) from None
    name = metadata_of(decoded).get("name")
    if name != entry.key.rpartition("/")[2]:
        raise Unreadable(entry.key, f"its name is {name!r}")
    return StoredObject(
        with_resource_version(decoded, entry.revision), entry.key, entry.revision, entry.created
    )


@dataclass(frozen=True, slots=True)
class Removal:
    """The end of the life of an object, at an unknown revision.

    Attributes:
        before: The object as it was known last.
        until: The object was gone at this revision.
    """

    before: StoredObject
    until: int


@dataclass(frozen=True, slots=True)
class Write:
    """An object, and the same object before; None when it was created."""

    now: StoredObject
    before: StoredObject | None


def dated(
    removals: Sequence[Removal], writes: Sequence[Write], reached: int, revision: int
) -> list[Event]:
    """Return the events of changes that arrived together, removals first.

    The revision of a removal is not known: it may be less than that of any write. The last removal
    gets the revision before the first write, or `revision` without writes, since a reader of all
    removals has seen everything up to it. The other removals get `reached`.

    Args:
        removals: In any order.
        writes: In the order of their revisions.
        reached: The revision after which all happened.
        revision: The revision up to which these are all changes.
    """
    events: list[Event] = []
    for count, removal in enumerate(removals, 1):
        if count == len(removals):
            reached = writes[0].now.revision - 1 if writes else revision
        before = removal.before.object
        value = with_resource_version(before, reached)
        events.append(Event(EventType.DELETED, value, reached, removal.until, before))
    for write in writes:
        kind = EventType.MODIFIED if write.before else EventType.ADDED
        previous = write.before.object if write.before else None
        at = write.now.revision
        events.append(Event(kind, write.now.object, at, at, previous))
    return events
