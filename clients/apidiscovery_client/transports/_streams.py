"""Blocking connections with a deadline for each step, which another thread can abort."""

import contextlib
import socket
from collections.abc import Sequence
from threading import Event, Thread
from typing import Protocol, TypeAlias

from apidiscovery_client._http.request import Deadline
from apidiscovery_client.transports._scope import Abortable, Scope

_PIECE_BYTES = 1 << 16

_Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_Addresses: TypeAlias = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, _Address]]


class Stream(Abortable, Protocol):
    """A connection; its methods raise `OSError`, of which `TimeoutError` is one."""

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of the data."""
        ...

    def receive(self, deadline: Deadline) -> bytes:
        """Return some data, empty at the end of the connection."""
        ...

    def is_quiet(self) -> bool:
        """Return whether no byte and no end has arrived; does not wait."""
        ...

    def close(self) -> None:
        """Close it; it may be called again."""
        ...


class TcpStream:
    """A TCP connection."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytes, deadline: Deadline) -> None:
        self._socket.settimeout(deadline.left_s())
        self._socket.sendall(data)

    def receive(self, deadline: Deadline) -> bytes:
        self._socket.settimeout(deadline.left_s())
        return self._socket.recv(_PIECE_BYTES)

    def is_quiet(self) -> bool:
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def connect(host: str, port: int, deadline: Deadline, scope: Scope) -> TcpStream:
    """Return a connection to the first address of a host that accepts it, added to the scope.

    Raises:
        OSError: None accepts; the error is that of the last.
    """
    addresses = _addresses(host, port, deadline, scope)
    problem: OSError = ConnectionError(f"{host} has no address")
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        opened = socket.socket(family, kind, protocol)
        stream = TcpStream(opened)
        scope.add(stream)
        try:
            left = deadline.left_s()
            opened.settimeout(None if left is None else left / (len(addresses) - tried))
            opened.connect(address)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException as error:
            scope.remove(stream)
            stream.close()
            if not isinstance(error, OSError):
                raise
            problem = error
        else:
            return stream
    raise problem


def _addresses(host: str, port: int, deadline: Deadline, scope: Scope) -> _Addresses:
    # As bytes, which need no IDNA codec: importing it takes a while.
    name = host.encode() if host.isascii() else host
    numeric = socket.AI_NUMERICHOST  # without a name server
    with contextlib.suppress(OSError, UnicodeError):
        return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=numeric)
    look_up = _LookUp(name, port)
    scope.add(look_up)
    try:
        return look_up.result(deadline)
    finally:
        scope.remove(look_up)


class _LookUp:
    """Looks up a name in a thread of its own, since a name server may not answer."""

    def __init__(self, name: str | bytes, port: int) -> None:
        self._over = Event()
        self._addresses: _Addresses = ()
        self._problem: OSError | None = None
        Thread(target=self._ask, args=(name, port), name="address", daemon=True).start()

    def abort(self) -> None:
        self._problem = ConnectionAbortedError("it was ended")
        self._over.set()

    def result(self, deadline: Deadline) -> _Addresses:
        """Return the addresses; raise `OSError`."""
        if not self._over.wait(deadline.left_s()):
            raise TimeoutError
        if self._problem:
            raise self._problem
        return self._addresses

    def _ask(self, name: str | bytes, port: int) -> None:
        try:
            self._addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._problem = error
        except UnicodeError as error:  # such as a label of more than 63 characters
            self._problem = OSError(str(error))
        self._over.set()
