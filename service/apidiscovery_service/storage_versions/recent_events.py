"""The latest events of a collection, shared by all watchers.

Nothing is queued for a watcher: it is a position in one bounded list of events. A watcher that
falls out of the list must list again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import with_metadata
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.waiting import Wakeup


class Expired(DiscoveryError):
    """The events after a revision are no longer available; the watcher must list again.

    The text is Kubernetes': k8s.io/apiserver pkg/storage/cacher/watch_cache.go,
    `getAllEventsSinceLocked`.

    Attributes:
        after: The revision that was requested or reached.
        oldest: The lowest revision after which all events are available.
    """

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {after} ({oldest})")
        self.after = after
        self.oldest = oldest


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Event:
    """One change of one object, the same for all watchers; compared by identity.

    Attributes:
        type: ADDED, MODIFIED, DELETED or BOOKMARK.
        object: The object after the change, or the removed one; its `metadata.resourceVersion` is
            `revision`.
        revision: A watch that continues after it misses nothing, on any replica.
        until: The change happened at this revision or earlier. Differs from `revision` only for a
            removal that arrived together with later changes, whose own revision is unknown.
        previous: The object before a MODIFIED or DELETED, else None.
        initial: Whether it describes the state at the start of the watch; a BOOKMARK with this mark
            ends those.
    """

    type: EventType
    object: Object
    revision: int
    until: int
    previous: Object | None = None
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of revisions in which objects may have been added and removed unseen.

    A watcher that started at `after` or before never knew of them. A watcher that comes from
    another replica or from a list, with a revision between the two, may know one, and would not
    learn of its removal.
    """

    after: int
    until: int


class EventLog:
    """A bounded list of events, in order.

    Args:
        size: The number of events to keep.

    Attributes:
        news: Rings after every change of the list.
    """

    def __init__(self, size: int) -> None:
        self._events: deque[Event | Gap] = deque()
        self._size = size
        self._first = 0
        self._oldest = 0
        self.news = Wakeup()

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self._first + len(self._events)

    def restart(self, revision: int) -> None:
        """Drop all events; every position from before is expired, new ones begin at a revision."""
        # One position is skipped, so that no watcher is at the end any more.
        self._first = self.end + 1
        self._events.clear()
        self._oldest = revision
        self.news.ring()

    def extend(self, events: Iterable[Event | Gap]) -> None:
        """Append events; the oldest are dropped beyond the size."""
        self._events.extend(events)
        while len(self._events) > self._size:
            self._oldest = max(self._oldest, self._events.popleft().until)
            self._first += 1
        self.news.ring()

    def after(self, revision: int) -> int:
        """Return the position of the first event that may have happened after a revision.

        Raises:
            Expired: Not all of them are available.
        """
        if revision < self._oldest:
            raise Expired(revision, self._oldest)
        newer = (at for at, event in enumerate(self._events) if event.until > revision)
        return self._first + next(newer, len(self._events))

    def at(self, position: int, begun: int, reached: int) -> Event | None:
        """Return the event at a position before the end; None when it is not for this watcher.

        Args:
            position: The position.
            begun: The revision after which the watcher started.
            reached: The revision that the watcher has reached, for the error.

        Raises:
            Expired: The event is no longer available, or the watcher may miss a removal there.
        """
        if position < self._first:
            raise Expired(reached, self._oldest)
        event = self._events[position - self._first]
        if isinstance(event, Event):
            return event if event.until > begun else None
        if event.after < begun < event.until:
            raise Expired(reached, event.until)
        return None


def narrowed(event: Event, matches: Callable[[Object], bool]) -> Event | None:
    """Return an event as a watcher of a selection sees it; None if it does not see it.

    An object that begins to match is ADDED; one that no longer matches is DELETED, with its last
    matching content.
    Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, `convertToWatchEvent`.
    """
    if event.type is EventType.BOOKMARK:
        return event
    matched = event.previous is not None and matches(event.previous)
    if event.type is not EventType.DELETED and matches(event.object):
        return event if matched else replace(event, type=EventType.ADDED)
    if not matched:
        return None
    previous = with_resource_version(event.previous or {}, event.revision)
    return replace(event, type=EventType.DELETED, object=previous)


def with_resource_version(value: Object, revision: int) -> Object:
    """Return the object with `metadata.resourceVersion` in its canonical place; 0 omits it."""
    return with_metadata(value, {"resourceVersion": str(revision) if revision else None})
