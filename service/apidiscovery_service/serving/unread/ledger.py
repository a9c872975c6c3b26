"""Counts what is unread, and has connections cut that take nothing."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apidiscovery_service.serving.unread.connections import cut

_MIB: Final = 1024 * 1024

# How often it is looked who takes nothing, while there is anything unread.
_LOOK_EVERY_S = 1.0
# While all room is taken, a connection that has taken nothing for so long makes room for others.
_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class UnreadLimits:
    """How much may be unread.

    Attributes:
        caller_bytes: Of one caller.
        total_bytes: Of all; as much again is for callers of whom nothing else is unread.
        stalled_s: How long a reader may take nothing of what waits for it.
    """

    caller_bytes: int = 16 * _MIB
    total_bytes: int = 64 * _MIB
    stalled_s: float = 30.0


@dataclass(slots=True, eq=False)
class Place:
    """An answer, or a message of one, that is on its way.

    Attributes:
        connection: Where it goes, by the name of the other end.
        caller: Whose it is.
        size: What it counts as, in bytes.
        since: When something of it was taken last; infinite while there is nothing to take, since
            this process has not made it yet.
        is_cut: Whether its connection is cut, so that nothing more needs to be sent.
    """

    connection: str
    caller: str
    size: int
    since: float
    is_cut: bool = False


class Unread(Collector):
    """Gives places to answers while there is room. It belongs to the thread of the event loop.

    Args:
        limits: How much room there is.
        clock: In seconds.
        cut_all: Cuts connections by the names of their other ends; called in a thread.
    """

    def __init__(
        self,
        limits: UnreadLimits | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        cut_all: Callable[[Collection[str]], None] = cut,
    ) -> None:
        self.limits = limits or UnreadLimits()
        self._clock = clock
        self._cut_all = cut_all
        self._places: dict[str, set[Place]] = {}
        self._of_callers: dict[str, int] = {}
        self.total = 0
        # Those who wait for room, by caller: nobody waits for another one's turn.
        self._queues: dict[str, deque[tuple[Place, asyncio.Future[None]]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._to_cut: set[str] = set()
        self._refused = 0
        self._cuts = 0

    def of(self, caller: str) -> int:
        """Return how many bytes of a caller are unread."""
        return self._of_callers.get(caller, 0)

    def enter(self, connection: str, caller: str, size: int) -> Place | None:
        """Give an answer a place; None if it has to be refused."""
        place = Place(connection, caller, size, self._clock())
        if not self._fits(place):
            self._make_room(place)
        if not self._fits(place):
            self._refused += 1
            return None
        self._add(place)
        return place

    async def wait(self, connection: str, caller: str, size: int, *, is_made: bool = True) -> Place:
        """Give an answer a place as soon as there is room.

        Args:
            connection: Where it goes.
            caller: Whose it is.
            size: What it counts as, in bytes.
            is_made: Whether its reader can take it; else `resize` says when.

        Raises:
            TimeoutError: There was none for as long as a reader may take nothing.
        """
        place = Place(connection, caller, size, self._clock() if is_made else math.inf)
        if caller not in self._queues and self._fits(place):
            self._add(place)
            return place
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(caller, deque()).append((place, turn))
        try:
            async with asyncio.timeout(self.limits.stalled_s):
                await turn
        except BaseException as error:
            self.leave(place)  # it may have had its turn just now
            self._refused += isinstance(error, TimeoutError)
            raise
        return place

    def leave(self, place: Place) -> None:
        """Give a place back: what it is for has been taken, or nobody is there any more."""
        if self._remove(place) and self._queues:
            self._let_in()

    def resize(self, place: Place, size: int) -> None:
        """Count an answer that has a place as so many bytes; its reader can take it from now."""
        if not self._remove(place):
            return
        place.size = size
        self.touch(place)
        self._add(place)
        if self._queues:
            self._let_in()

    def touch(self, place: Place) -> None:
        """Note that something of an answer has been taken just now."""
        place.since = self._clock()

    def _fits(self, place: Place) -> bool:
        """Tell whether there is room; what is larger than all of it fits when it is alone."""
        of_caller, limits = self.of(place.caller), self.limits
        total = limits.total_bytes if of_caller else 2 * limits.total_bytes
        return (not of_caller or of_caller + place.size <= limits.caller_bytes) and (
            not self.total or self.total + place.size <= total
        )

    def _add(self, place: Place) -> None:
        self._places.setdefault(place.connection, set()).add(place)
        self.total += place.size
        self._of_callers[place.caller] = self.of(place.caller) + place.size
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def _remove(self, place: Place) -> bool:
        places = self._places.get(place.connection)
        if places is None or place not in places:
            return False
        places.remove(place)
        if not places:
            del self._places[place.connection]
        self.total -= place.size
        left = self.of(place.caller) - place.size
        if left:
            self._of_callers[place.caller] = left
        else:  # the last one, or all that is left are empty messages
            self._of_callers.pop(place.caller, None)
        return True

    def _let_in(self) -> None:
        """Give places to those who wait for them, as far as there is room."""
        now = self._clock()
        for caller, queue in list(self._queues.items()):
            while queue and (queue[0][1].done() or self._fits(queue[0][0])):
                place, turn = queue.popleft()
                if not turn.done():
                    place.since = max(place.since, now)
                    self._add(place)
                    turn.set_result(None)
            if not queue:
                del self._queues[caller]

    # Who takes nothing.

    async def _look(self) -> None:
        """Cut who takes nothing, again and again while anything is unread."""
        while self._places or self._queues:
            await asyncio.sleep(_LOOK_EVERY_S)
            stalled = self._clock() - self.limits.stalled_s
            for connection, places in list(self._places.items()):
                if min(place.since for place in places) <= stalled:
                    self._cut(connection)
            for queue in list(self._queues.values()):
                if queue:
                    self._make_room(queue[0][0])
            self._let_in()
            if self._to_cut:
                names, self._to_cut = self._to_cut, set()
                await asyncio.to_thread(self._cut_all, names)
        self._looking = None

    def _make_room(self, place: Place) -> None:
        """Cut the connection of another caller with most that is unread, if it takes nothing."""
        of_caller = self.of(place.caller)
        if of_caller and of_caller + place.size > self.limits.caller_bytes:
            return
        sizes = {name: sum(each.size for each in all_) for name, all_ in self._places.items()}
        largest = max(sizes, key=sizes.__getitem__, default=None)
        if largest is None or sizes[largest] <= place.size:
            return
        oldest = min(each.since for each in self._places[largest])
        if oldest <= self._clock() - _PATIENCE_S:
            self._cut(largest)

    def _cut(self, connection: str) -> None:
        for place in list(self._places[connection]):
            place.is_cut = True
            self._remove(place)
        self._to_cut.add(connection)
        self._cuts += 1

    # Metrics.

    def collect(self) -> Iterator[Metric]:
        """Yield what Prometheus is told."""
        unread = GaugeMetricFamily(
            "apidiscovery_unread_bytes", "Of answers that their readers have not taken yet"
        )
        unread.add_metric([], self.total)
        refused = CounterMetricFamily(
            "apidiscovery_unread_refused", "Requests refused since too much is unread"
        )
        refused.add_metric([], self._refused)
        cuts = CounterMetricFamily(
            "apidiscovery_unread_cut", "Connections cut since nothing was taken from them"
        )
        cuts.add_metric([], self._cuts)
        yield from (unread, refused, cuts)
