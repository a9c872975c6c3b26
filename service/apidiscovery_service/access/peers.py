"""Whose connection it is that a server behind the TLS front sees.

The front ends TLS and goes on to the server from a loopback port of its own, one for each
connection. It notes the port here before it connects, and takes it out before it lets go of it, so
that a connection to the server that is not in this table is not the front's. Ports are those of
`FRONT_HOST`: from any other loopback address everybody on the machine may use the same number.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from apidiscovery_service.access import Caller

# From where the front connects.
FRONT_HOST = "127.0.0.1"

# What a server has begun to read when its connection goes may still ask who called; by then the
# port must not be somebody else's.
_REST_S = 10.0


@dataclass(slots=True, eq=False)
class Peer:
    """The other end of a connection.

    Attributes:
        address: IP address.
        caller: Who the client certificate says it is; None without one.
        valid_until: End of the certificate's validity, in seconds of Unix time.
        admitted: For whoever decides about requests, to remember it by what they bring.
    """

    address: str
    caller: Caller | None = None
    valid_until: float = math.inf
    admitted: dict[bytes | None, object] = field(default_factory=dict[bytes | None, object])


class Peers:
    """The connections of the front, by local port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_port: dict[int, Peer] = {}
        self._resting: deque[tuple[float, int]] = deque()
        self._rests: set[int] = set()
        self.get = self._by_port.get  # of every request

    def add(self, port: int, peer: Peer) -> bool:
        """Note whose connection begins at a port; False if it was another's until just now."""
        now = self._clock()
        while self._resting and self._resting[0][0] <= now:
            self._rests.discard(self._resting.popleft()[1])
        if port in self._rests or port in self._by_port:
            return False
        self._by_port[port] = peer
        return True

    def remove(self, port: int) -> None:
        """Forget a port, before it can be bound again."""
        if self._by_port.pop(port, None) is not None:
            self._rests.add(port)
            self._resting.append((self._clock() + _REST_S, port))

    def __len__(self) -> int:
        return len(self._by_port)
