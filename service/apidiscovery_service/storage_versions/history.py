"""The latest changes of a collection, shared by all who watch it.

Nothing is queued for anybody: a watcher is a position in one bounded row of events, and who falls
out of it must list again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.storage_versions.stored import Stored, with_resource_version
from apidiscovery_service.store.wakeup import Wakeup

# What two thousand watchers do at once keeps the event loop for 100 ms: they are woken by turns.
_IN_TURN = 16
_PAUSE_S = 0.001


class Expired(DiscoveryError):
    """The events after a revision are no longer kept; whoever wants them must list again.

    The text is Kubernetes': k8s.io/apiserver pkg/storage/cacher/watch_cache.go,
    `getAllEventsSinceLocked`.

    Attributes:
        after: The revision that was asked for or reached.
        oldest: The least revision after which all events are kept.
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
        object: As it is now, or as it was last; `metadata.resourceVersion` is `revision`.
        revision: A watch that goes on after it misses nothing, on any replica.
        until: The change happened no later than this. It equals `revision` but for a removal that
            came together with later changes: its own moment is not known.
        previous: The object before a MODIFIED or DELETED, else None.
        initial: Whether it tells of what stood there when the watch began; the BOOKMARK so marked
            ends that.
    """

    type: EventType
    object: Object
    revision: int
    until: int
    previous: Object | None = None
    initial: bool = False


class Gap(NamedTuple):
    """Something may have come and gone unseen.

    Who followed these events from `after` or before never heard of it. Who comes from another
    replica, or from a list, with a revision between the two may know it, and is not told that it
    has gone.
    """

    after: int
    until: int


class Step(NamedTuple):
    """What happened to one object.

    Attributes:
        now: What stands there, None if nothing.
        before: What stood there, None if nothing.
        revision: When; None when it is not known, as with removals.
        before_revision: The revision before which it was, of which alone something is known then.
    """

    now: Stored | None
    before: Stored | None
    revision: int | None
    before_revision: int | None = None


def dated(steps: Sequence[Step], reached: int, revision: int) -> list[Event]:
    """Return the events of changes that came together.

    Args:
        steps: In the order in which they happened.
        reached: The revision after which they happened.
        revision: The revision up to which these are all.
    """
    events: list[Event] = []
    for step, following in zip(steps, [*steps, None][1:], strict=True):
        # A removal without a revision gets the greatest up to which a reader that has got this
        # event, and none after it, has seen everything.
        if step.revision is not None:
            reached = step.revision
        elif following is None:
            reached = revision
        elif following.revision is not None:
            reached = following.revision - 1
        until = step.before_revision - 1 if step.before_revision else revision
        events.append(_event(step, reached, step.revision or until))
    return events


def _event(step: Step, revision: int, until: int) -> Event:
    now, before = step.now, step.before
    previous = before.object if before else None
    if now is None:
        gone = with_resource_version(previous or {}, revision)
        return Event(EventType.DELETED, gone, revision, until, previous)
    kind = EventType.MODIFIED if before else EventType.ADDED
    return Event(kind, now.object, revision, until, previous)


class _Turn:
    """Some watchers, who are woken together."""

    def __init__(self) -> None:
        self.news = Wakeup()
        self.members = 0


class History:
    """A bounded row of events in order.

    Args:
        size: How many events are kept.

    Attributes:
        news: Rings after every change of the row.
    """

    def __init__(self, size: int) -> None:
        self._events: deque[Event | Gap] = deque()
        self._size = size
        self._first = 0
        self._oldest = 0
        self.news = Wakeup()
        self._turns: dict[_Turn, None] = {}
        self._due: dict[_Turn, None] = {}

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self._first + len(self._events)

    def restart(self, revision: int) -> None:
        """Forget all; whoever has a position has missed something, and begins after a revision."""
        # One position is left out, so that nobody stands at the end any more.
        self._first = self.end + 1
        self._events.clear()
        self._oldest = revision
        self._ring()

    def extend(self, events: Iterable[Event | Gap]) -> None:
        """Add events at the end; the first go when there are too many."""
        self._events.extend(events)
        while len(self._events) > self._size:
            self._oldest = max(self._oldest, self._events.popleft().until)
            self._first += 1
        self._ring()

    @contextmanager
    def turn(self) -> Generator[Wakeup]:
        """Return what rings for one of many watchers, soon after every change of the row."""
        turn = next((turn for turn in self._turns if turn.members < _IN_TURN), None)
        if turn is None:
            turn = _Turn()
            self._turns[turn] = None
        turn.members += 1
        try:
            yield turn.news
        finally:
            turn.members -= 1
            if not turn.members:
                del self._turns[turn]

    def _ring(self) -> None:
        self.news.ring()
        begins = not self._due
        self._due |= self._turns
        if begins and self._due:
            self._ring_next()

    def _ring_next(self) -> None:
        turn = next(iter(self._due))
        turn.news.ring()
        if len(self._due) > 1:
            asyncio.get_running_loop().call_later(_PAUSE_S, self._ring_next)
        del self._due[turn]

    def after(self, revision: int) -> int:
        """Return the position of the first event that may have happened after a revision.

        Raises:
            Expired: Not all of them are kept.
        """
        if revision < self._oldest:
            raise Expired(revision, self._oldest)
        newer = (at for at, event in enumerate(self._events) if event.until > revision)
        return self._first + next(newer, len(self._events))

    def at(self, position: int, begun: int, reached: int) -> Event | None:
        """Return the event at a position before the end; None when there is none for the reader.

        Args:
            position: Which.
            begun: The revision after which the reader began.
            reached: Up to which revision the reader has come, for the error.

        Raises:
            Expired: It is no longer kept, or the reader may miss something there.
        """
        if position < self._first:
            raise Expired(reached, self._oldest)
        event = self._events[position - self._first]
        if isinstance(event, Event):
            return event if event.until > begun else None
        if event.after < begun < event.until:
            raise Expired(reached, event.until)
        return None


def narrowed(event: Event, passes: Callable[[Object], bool]) -> Event | None:
    """Return an event as somebody sees it who watches only some objects; None if not at all.

    An object that begins to pass is ADDED; one that passes no longer is DELETED, as it was last.
    Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, `convertToWatchEvent`.
    """
    if event.type is EventType.BOOKMARK:
        return event
    passed = event.previous is not None and passes(event.previous)
    if event.type is not EventType.DELETED and passes(event.object):
        return event if passed else replace(event, type=EventType.ADDED)
    if not passed:
        return None
    was = with_resource_version(event.previous or {}, event.revision)
    return replace(event, type=EventType.DELETED, object=was)
