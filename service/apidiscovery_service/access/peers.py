"""Whose connection it is that a server behind the front sees.

Each connection from the front to the server has a name of its own: the last part of the path that
its Unix socket is bound to. The front notes the name here before it connects and removes it when
the connection ends, so a connection whose name is not in this table is not the front's. Names are
random and never used again: a request that is read late has no identity, never another one's.
"""

import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from apidiscovery_service.access import Caller

_NAME_BYTES = 16


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
    """The connections of the front, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Peer] = {}
        self.get = self._by_name.get  # of every request

    def add(self, peer: Peer) -> str:
        """Note whose connection begins; return the name of the connection."""
        name = secrets.token_hex(_NAME_BYTES)
        self._by_name[name] = peer
        return name

    def remove(self, name: str) -> None:
        """Forget a connection."""
        self._by_name.pop(name, None)

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def connection_name(path: str) -> str:
    """Return the name of a connection, given the path that its other end is bound to.

    A server writes the path in its own way (grpc begins it with `unix:` and escapes the folder);
    the name is hexadecimal digits everywhere. Empty, which is no name, for an end without a path.
    """
    _, slash, name = path.rpartition("/")
    return name if slash else ""
