"""The objects of one kind: in the store, and as its watch tells them.

Reads and writes go to the store, so they are as one with those of all replicas. The view and the
events follow the store's watch: they may be a moment late, and leave nothing out for ever.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import dumps
from apidiscovery_service.kube.objects.decoding import from_value
from apidiscovery_service.kube.objects.kinds import Kind, Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.kube.objects.watch_events import EventType, bookmark
from apidiscovery_service.storage_versions.history import (
    Event,
    Expired,
    Gap,
    History,
    Step,
    dated,
)
from apidiscovery_service.storage_versions.stored import (
    Stored,
    Unreadable,
    from_entry,
    size_of,
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
from apidiscovery_service.workers import INLINE_BYTES, run_sized

__all__ = ["Collection", "Event", "Expired", "Stored", "TooLarge", "Unreadable"]

_log = structlog.get_logger(__name__)


class TooLarge(DiscoveryError):
    """An object is larger than a store takes; whoever sent it must make it smaller."""


class Collection:
    """The objects of one kind below one prefix of a store.

    Every method that asks the store may raise StoreUnavailable and StoreRefused.

    Args:
        store: Shared with other replicas.
        kind: What the objects are.
        prefix: What keys begin with, up to the name; ends with a slash.
        history: How many events are kept for watchers.
        pause_s: From a failure of the store to the next attempt to follow it.
    """

    def __init__(
        self, store: Store, kind: Kind, prefix: str, history: int = 1024, *, pause_s: float = 1.0
    ) -> None:
        self.kind = kind
        self.prefix = prefix
        self._store = store
        self._pause_s = pause_s
        self._view: dict[str, Stored] = {}
        self._unreadable: dict[str, Unreadable] = {}
        # What was written here, until the watch tells of it, which then need not be read again.
        self._written: dict[str, tuple[Entry, Stored]] = {}
        # What those are told who begin to watch: one event for all, so that it is encoded once.
        self._standing: dict[str, Event] = {}
        self._history = History(history)
        self._revision = 0
        # What was taken last under each key, readable or not.
        self._marks: dict[str, tuple[int, int]] = {}
        self._loaded = False

    @property
    def revision(self) -> int:
        """The revision up to which the view is complete; 0 before it is loaded."""
        return self._revision

    @property
    def view(self) -> Mapping[str, Stored]:
        """The objects by name as the watch told them last, in no order."""
        return MappingProxyType(self._view)

    def warnings(self) -> list[str]:
        """Return what an operator should know: what cannot be read."""
        return [str(why) for _, why in sorted(self._unreadable.items())]

    # The store.

    async def read(self, name: str) -> Stored | None:
        """Return an object as it is now, None if there is none.

        Raises:
            Unreadable: Something stands there that is no object.
        """
        entry = await self._store.get(self.prefix + name)
        return None if entry is None else self._stored(entry)

    async def read_all(self) -> tuple[tuple[Stored, ...], int]:
        """Return all objects as they are now, by name, and the store's revision of that moment.

        What cannot be read is left out; `warnings` names it as soon as the watch has told of it.
        """
        listing = await self._store.list(self.prefix)
        read = (self._read_or_none(entry) for entry in listing.entries)
        return tuple(stored for stored in read if stored), listing.revision

    async def create(self, value: Object, guards: Guards = ()) -> Stored:
        """Put an object where none is; `metadata.name` says where.

        Raises:
            Conflict: One is there.
            Fenced: A guard does not hold.
            TooLarge: No store takes it.
        """
        return await self._put(f"{self.prefix}{metadata_of(value)['name']}", value, 0, guards)

    async def replace(self, stored: Stored, value: Object, guards: Guards = ()) -> Stored:
        """Put an object in the place of exactly this one.

        Raises:
            Conflict: It is no longer there, or another is.
            Fenced: A guard does not hold.
            TooLarge: No store takes it.
        """
        return await self._put(stored.key, value, stored.revision, guards)

    async def remove(self, stored: Stored, guards: Guards = ()) -> None:
        """Remove exactly this object.

        Raises:
            Conflict: It is no longer there, or another is.
            Fenced: A guard does not hold.
        """
        await self._store.delete(stored.key, expected=stored.revision, guard=guards)

    async def _put(self, key: str, value: Object, expected: int, guards: Guards) -> Stored:
        canonical = await run_sized(size_of(value), lambda: from_value(value, self.kind).object)
        text = dumps(with_resource_version(canonical, 0))
        if len(text) > MAX_VALUE_BYTES:
            raise TooLarge(f"{key} has {len(text)} bytes, at most {MAX_VALUE_BYTES} can be stored")
        entry = await self._store.put(key, text, expected=expected, guard=guards)
        told = self._view.get(self._name(key))
        if told and told.revision >= entry.revision:
            return self._stored(entry)
        written = with_resource_version(canonical, entry.revision)
        stored = Stored(written, key, entry.revision, entry.created)
        self._written[key] = entry, stored
        return stored

    def _stored(self, entry: Entry) -> Stored:
        """Return what an entry is; what is known of the same one need not be read again."""
        known = self._view.get(self._name(entry.key))
        if known and self._marks.get(entry.key) == entry.mark:
            return known
        written = self._written.get(entry.key)
        if written and written[0] == entry:
            return written[1]
        return from_entry(entry, self.kind)

    def _read_or_none(self, entry: Entry) -> Stored | None:
        try:
            return self._stored(entry)
        except Unreadable:
            return None

    def _name(self, key: str) -> str:
        return key.removeprefix(self.prefix)

    # The view.

    async def load(self) -> int:
        """Take what the store holds now; what differs from before are events.

        Returns:
            The revision at which that was.

        Not while `follow` runs, which begins with it when it has not been done.
        """
        listing = await self._store.list(self.prefix)
        news = sorted(filter(self._is_news, listing.entries), key=lambda entry: entry.revision)
        present = {entry.key for entry in listing.entries}
        gone = [Change(key, None) for key in sorted(self._marks.keys() - present)]
        if not self._loaded or self._is_of_another_past(listing, news):
            self._begin_anew(listing)
        else:
            # What came and went meanwhile shows in no list.
            self._history.extend([Gap(self._revision, listing.revision)])
            self._take([*gone, *(Change(entry.key, entry) for entry in news)], listing.revision)
        return listing.revision

    async def follow(self) -> None:
        """Keep the view up to date until cancelled; while the store is away all stays as it is."""

        async def take(batch: Batch) -> None:
            await self._read_ahead(batch.changes)
            self._take(batch.changes, batch.revision)

        after = self._revision if self._loaded else None
        await follow(self._store, self.prefix, self.load, take, after=after, pause_s=self._pause_s)

    async def _read_ahead(self, changes: Iterable[Change]) -> None:
        """Read large objects that others wrote, so that nobody waits while they are taken."""
        for entry in (change.entry for change in changes):
            known = self._written.get(entry.key) if entry else None
            if entry is None or len(entry.value) <= INLINE_BYTES or (known and known[0] == entry):
                continue
            read = partial(from_entry, entry, self.kind)
            with suppress(Unreadable):  # which is said when it is taken
                self._written[entry.key] = entry, await run_sized(len(entry.value), read)

    def _is_news(self, entry: Entry) -> bool:
        return self._marks.get(entry.key) != entry.mark

    def _is_of_another_past(self, listing: Listing, news: list[Entry]) -> bool:
        """Tell whether the store was restored from a backup: revisions go back."""
        return listing.revision < self._revision or (
            bool(news) and news[0].revision <= self._revision
        )

    def _begin_anew(self, listing: Listing) -> None:
        self._view.clear()
        self._unreadable.clear()
        self._written.clear()
        self._standing.clear()
        self._marks.clear()
        for entry in listing.entries:
            self._steps(Change(entry.key, entry))
        self._loaded = True
        self._revision = listing.revision
        self._history.restart(listing.revision)

    def _take(self, changes: Iterable[Change], revision: int) -> None:
        gaps: list[Gap] = []
        steps: list[Step] = []
        for change in changes:
            if taken := self._steps(change):
                steps += taken
            elif change.entry is None or change.key in self._unreadable:
                until = change.entry.revision if change.entry else revision
                gaps.append(Gap(self._revision, until))
        events = dated(steps, self._revision, revision)
        self._revision = revision
        self._history.extend([*gaps, *events])

    def _steps(self, change: Change) -> list[Step]:
        """Take one change into the view; return what has happened by it."""
        name, entry = self._name(change.key), change.entry
        before = self._view.get(name)
        if before and entry and not self._is_news(entry):
            return []
        self._view.pop(name, None)
        self._standing.pop(name, None)
        self._marks.pop(change.key, None)
        if entry is not None:
            self._marks[change.key] = entry.mark
        now = self._take_entry(change.key, entry)
        if now is None:
            return [Step(None, before, entry.revision if entry else None)] if before else []
        self._view[name] = now
        if before and before.created != now.created:
            # It was removed and made anew between; whoever watches shall see another life.
            return [Step(None, before, None, now.revision), Step(now, None, now.revision)]
        return [Step(now, before, now.revision)]

    def _take_entry(self, key: str, entry: Entry | None) -> Stored | None:
        self._unreadable.pop(key, None)
        if entry is None:
            self._written.pop(key, None)
            return None
        try:
            return self._stored(entry)
        except Unreadable as error:
            self._unreadable[key] = error
            _log.error("object cannot be read, it is left out", key=key, error=str(error))
            return None
        finally:
            written = self._written.get(key)
            if written and written[0].revision <= entry.revision:
                del self._written[key]

    # The events.

    async def seen(self, revision: int) -> None:
        """Wait, for ever if need be, until the view is complete up to a revision.

        Args:
            revision: Of a write to this collection; the view does not hear of others.
        """
        await self._until(lambda: self._revision >= revision)

    def next_change(self) -> asyncio.Event:
        """Return what is set when the view, or the revision up to which it goes, changes next."""
        return self._history.news.next()

    async def events(
        self, after: int | None, *, bookmark_every_s: float | None = None
    ) -> AsyncGenerator[Event]:
        """Yield what changes, in order, until closed; the last change of each object is among it.

        Earlier changes of an object may be left out. A removal may come again to a reader that
        goes on with another replica.

        Args:
            after: The revision of a list, an object or an event; one that is not reached yet is
                waited for. None begins with the objects as they are now, 0 with those of the view:
                each as ADDED and marked `initial`, by name, then a BOOKMARK so marked.
            bookmark_every_s: After how many seconds a BOOKMARK tells how far this has come; None
                for no other than the initial one.

        Raises:
            Expired: Not all events after it are kept, the reader was too slow, or something that
                the reader may know of has come and gone unseen here.
        """
        begun = after or 0
        if not after:
            standing, begun = await (self.read_all() if after is None else self._shown())
            for stored in standing:
                yield self._initial(stored)
            yield self._bookmark(begun, initial=True)
        await self._until(lambda: self._loaded)
        reached, position = begun, self._history.after(begun)
        due = _after(bookmark_every_s)
        with self._history.turn() as turn:
            while True:
                news = turn.next()
                while position < self._history.end:
                    event = self._history.at(position, begun, reached)
                    position += 1
                    if event is not None:
                        reached = max(reached, event.revision)
                        yield event
                if await _rings(news, due):
                    continue
                due = _after(bookmark_every_s)
                if position == self._history.end:
                    reached = max(reached, self._revision)
                    yield self._bookmark(reached)

    async def _shown(self) -> tuple[tuple[Stored, ...], int]:
        await self._until(lambda: self._loaded)
        return tuple(self._view[name] for name in sorted(self._view)), self._revision

    async def _until(self, holds: Callable[[], bool]) -> None:
        while True:
            news = self._history.news.next()
            if holds():
                return
            await news.wait()

    def _initial(self, stored: Stored) -> Event:
        event = self._standing.get(stored.name)
        if event is None or event.object is not stored.object:
            event = Event(
                EventType.ADDED, stored.object, stored.revision, stored.revision, initial=True
            )
            # What the view does not have is a moment newer or older, and would never be forgotten.
            if self._view.get(stored.name) is stored:
                self._standing[stored.name] = event
        return event

    def _bookmark(self, revision: int, *, initial: bool = False) -> Event:
        said = bookmark(self.kind, str(revision), initial_events_end=initial)
        return Event(EventType.BOOKMARK, said, revision, revision, initial=initial)


def _after(seconds: float | None) -> float | None:
    """Return when so much time has passed, on the clock of the event loop."""
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


async def _rings(news: asyncio.Event, due: float | None) -> bool:
    """Wait for news; False when the moment has come before."""
    try:
        async with asyncio.timeout_at(due):
            await news.wait()
    except TimeoutError:
        return False
    return True
