"""Bounds answers that clients have not read yet, for each caller and in total.

A server that answers faster than its clients read keeps the answers in memory, and HTTP/2 lets one
connection make a hundred requests without reading a byte. So both transports reserve room for what
they send until it is read, and connections that read nothing are cut.
"""

import asyncio
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_MIB: Final = 1024 * 1024

# Interval of the search for connections that read nothing, while anything is unread.
_CHECK_EVERY_S = 1.0
# Without room, a connection that has read nothing for this long is cut to make room.
_PATIENCE_S = 1.0

_UNSENT_BYTES = 256 * 1024
_STALLED_MS = 30_000  # as long as `UnreadLimits.stalled_s`

_DESCRIPTORS = Path("/proc/self/fd")

# Prefix of the host of an IPv4 connection to an IPv6 socket (RFC 4291, 2.5.5.2).
_MAPPED = "::ffff:"


def end_name(peer: object) -> str:
    """Return the name of a connection by its other end; empty if that has no address.

    Args:
        peer: An address as sockets have it, or host and port as ASGI has them, where the port may
            be text.
    """
    if isinstance(peer, bytes):
        return os.fsdecode(peer)
    if isinstance(peer, str):
        return peer
    if isinstance(peer, (tuple, list)):
        host, port = peer[:2]  # pyright: ignore[reportUnknownVariableType]
        return f"{str(host).removeprefix(_MAPPED)} {port}"  # pyright: ignore[reportUnknownArgumentType]
    return ""


def cut(names: Collection[str]) -> None:
    """Shut down this process's connections whose other ends have these names.

    Servers do not hand out their connections, so every descriptor is looked at once. Without
    Linux's /proc nothing is cut.
    """
    cut_where(lambda connection: end_name(connection.getpeername()) in names)


def cut_where(matches: Callable[[socket.socket], bool]) -> None:
    """Shut down this process's connections that match.

    Args:
        matches: May raise OSError for a socket that is not connected.
    """
    if not _DESCRIPTORS.is_dir():
        return
    for descriptor in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - thousands: names are enough
        try:
            with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                if matches(connection):
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # no socket, or closed meanwhile


def bound_unsent(listening: socket.socket) -> None:
    """Bound the kernel's buffers of unread answers, where it has the options.

    Otherwise it takes 2.5 MB for each connection, for any time.
    """
    for name, value in (("TCP_NOTSENT_LOWAT", _UNSENT_BYTES), ("TCP_USER_TIMEOUT", _STALLED_MS)):
        option = getattr(socket, name, None)
        if option is not None:
            listening.setsockopt(socket.IPPROTO_TCP, option, value)


@dataclass(frozen=True, slots=True)
class UnreadLimits:
    """Limits of unread answers.

    Attributes:
        caller_bytes: For one caller.
        total_bytes: For all; callers without anything else unread may use as much again.
        stalled_s: Time without reading after which a connection is cut.
    """

    caller_bytes: int = 16 * _MIB
    total_bytes: int = 64 * _MIB
    stalled_s: float = 30.0


@dataclass(slots=True, eq=False)
class Reservation:
    """Room for an answer, or a message of one, until it is read.

    Attributes:
        connection: The connection, by the name of its other end.
        caller: The caller that it counts for.
        size: Bytes that it counts as.
        since: Time of the last read; infinite before there is anything to read.
        is_cut: Whether the connection is cut, so that nothing more needs to be sent.
    """

    connection: str
    caller: str
    size: int
    since: float
    is_cut: bool = False


class UnreadBudget(Collector):
    """Hands out reservations while there is room. It belongs to the thread of the event loop.

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
        self._reservations: dict[str, set[Reservation]] = {}
        self._by_caller: dict[str, int] = {}
        self.total = 0
        # Each caller that waits for room has its own queue, so none waits for another caller.
        self._queues: dict[str, deque[tuple[Reservation, asyncio.Future[None]]]] = {}
        self._checking: asyncio.Task[None] | None = None
        self._to_cut: set[str] = set()
        self._refused = 0
        self._cuts = 0

    def of(self, caller: str) -> int:
        """Return the number of unread bytes of a caller."""
        return self._by_caller.get(caller, 0)

    def reserve(self, connection: str, caller: str, size: int) -> Reservation | None:
        """Reserve room for an answer; return None if there is none."""
        reservation = Reservation(connection, caller, size, self._clock())
        if not self._fits(reservation):
            self._make_room(reservation)
        if not self._fits(reservation):
            self._refused += 1
            return None
        self._add(reservation)
        return reservation

    async def wait(
        self, connection: str, caller: str, size: int, *, is_made: bool = True
    ) -> Reservation:
        """Reserve room for an answer as soon as there is some.

        Args:
            connection: The connection.
            caller: The caller.
            size: Bytes that it counts as.
            is_made: Whether there is anything to read; if not, `resize` is called when there is.

        Raises:
            TimeoutError: There was none for `UnreadLimits.stalled_s`.
        """
        reservation = Reservation(connection, caller, size, self._clock() if is_made else math.inf)
        if caller not in self._queues and self._fits(reservation):
            self._add(reservation)
            return reservation
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(caller, deque()).append((reservation, turn))
        try:
            async with asyncio.timeout(self.limits.stalled_s):
                await turn
        except BaseException as error:
            self.release(reservation)  # its turn may have come just now
            self._refused += isinstance(error, TimeoutError)
            raise
        return reservation

    def release(self, reservation: Reservation) -> None:
        """End a reservation: its answer has been read, or the client has gone."""
        if self._remove(reservation) and self._queues:
            self._admit_waiting()

    def resize(self, reservation: Reservation, size: int) -> None:
        """Change the size of a reservation, whose answer can be read from now on."""
        if not self._remove(reservation):
            return
        reservation.size = size
        self.touch(reservation)
        self._add(reservation)
        if self._queues:
            self._admit_waiting()

    def touch(self, reservation: Reservation) -> None:
        """Note that the client has read some of an answer just now."""
        reservation.since = self._clock()

    def _fits(self, reservation: Reservation) -> bool:
        """Return whether there is room; an answer larger than the limit fits when it is alone."""
        of_caller, limits = self.of(reservation.caller), self.limits
        total = limits.total_bytes if of_caller else 2 * limits.total_bytes
        return (not of_caller or of_caller + reservation.size <= limits.caller_bytes) and (
            not self.total or self.total + reservation.size <= total
        )

    def _add(self, reservation: Reservation) -> None:
        self._reservations.setdefault(reservation.connection, set()).add(reservation)
        self.total += reservation.size
        self._by_caller[reservation.caller] = self.of(reservation.caller) + reservation.size
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check())

    def _remove(self, reservation: Reservation) -> bool:
        others = self._reservations.get(reservation.connection)
        if others is None or reservation not in others:
            return False
        others.remove(reservation)
        if not others:
            del self._reservations[reservation.connection]
        self.total -= reservation.size
        left = self.of(reservation.caller) - reservation.size
        if left:
            self._by_caller[reservation.caller] = left
        else:  # the last one, or only empty messages are left
            self._by_caller.pop(reservation.caller, None)
        return True

    def _admit_waiting(self) -> None:
        """Make the reservations that are waited for, as far as there is room."""
        now = self._clock()
        for caller, queue in list(self._queues.items()):
            while queue and (queue[0][1].done() or self._fits(queue[0][0])):
                reservation, turn = queue.popleft()
                if not turn.done():
                    reservation.since = max(reservation.since, now)
                    self._add(reservation)
                    turn.set_result(None)
            if not queue:
                del self._queues[caller]

    # Connections that read nothing.

    async def _check(self) -> None:
        """Cut connections that read nothing, again and again while anything is unread."""
        while self._reservations or self._queues:
            await asyncio.sleep(_CHECK_EVERY_S)
            stalled = self._clock() - self.limits.stalled_s
            for connection, reservations in list(self._reservations.items()):
                if min(each.since for each in reservations) <= stalled:
                    self._cut(connection)
            for queue in list(self._queues.values()):
                if queue:
                    self._make_room(queue[0][0])
            self._admit_waiting()
            if self._to_cut:
                names, self._to_cut = self._to_cut, set()
                await asyncio.to_thread(self._cut_all, names)
        self._checking = None

    def _make_room(self, wanted: Reservation) -> None:
        """Cut the connection with most unread bytes, if it is larger and reads nothing."""
        of_caller = self.of(wanted.caller)
        if of_caller and of_caller + wanted.size > self.limits.caller_bytes:
            return
        sizes = {
            name: sum(each.size for each in reservations)
            for name, reservations in self._reservations.items()
        }
        largest = max(sizes, key=sizes.__getitem__, default=None)
        if largest is None or sizes[largest] <= wanted.size:
            return
        oldest = min(each.since for each in self._reservations[largest])
        if oldest <= self._clock() - _PATIENCE_S:
            self._cut(largest)

    def _cut(self, connection: str) -> None:
        for reservation in list(self._reservations[connection]):
            reservation.is_cut = True
            self._remove(reservation)
        self._to_cut.add(connection)
        self._cuts += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield GaugeMetricFamily(
            "apidiscovery_unread_bytes",
            "Of answers that their readers have not taken yet",
            value=self.total,
        )
        yield CounterMetricFamily(
            "apidiscovery_unread_refused",
            "Requests refused since too much is unread",
            value=self._refused,
        )
        yield CounterMetricFamily(
            "apidiscovery_unread_cut",
            "Connections cut since nothing was taken from them",
            value=self._cuts,
        )
