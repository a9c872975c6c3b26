"""Granian, embedded: HTTP/1.1 and HTTP/2 for an ASGI application on this event loop.

The listening socket is ours: Granian's own sets SO_REUSEPORT, with which a second server on a
taken port starts without an error and takes half of the connections, and it does not tell which
port it took for port 0.
"""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from granian.server.embed import Server

from apidiscovery_service.serving.http.asgi import Application
from apidiscovery_service.serving.http.entrance import Entrance
from apidiscovery_service.serving.unread.connections import bound_unsent, cut_where

_BACKLOG = 1024
_MAX_CONNECTIONS = 4096

# Above the gateway's own limit (asgi.MAX_HEADER_BYTES), which answers with a Status and a log
# line; beyond this Granian answers 431 by itself.
_MAX_READ_BYTES = 128 * 1024
_HEADER_TIMEOUT_MS = 30_000
_PING_EVERY_MS = 30_000
# RFC 9113, 6.5.2 recommends 100, for parallelism; here one thread answers, each in well under a
# millisecond. What the connections of an attacker ask at once is in line before everybody else's
# next request: for 512 connections it is 0.6 s of work with 32 streams, 2 s with 100.
_MAX_STREAMS = 32
# Of a stream, beyond a piece of a body.
_MAX_UNSENT_BYTES = 64 * 1024
_PING_TIMEOUT_S = 10

# After the connections are cut, what is left to do is to notice.
_CUT_S = 1.0

# No handlers of its own: the process has set up logging.
_LOGGING: dict[str, Any] = {
    "incremental": True,
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {}},
}


class _OwnSocketServer(Server):
    """Granian on a socket that listens already; it closes the descriptor when it stops."""

    def __init__(self, application: Application, listening: socket.socket) -> None:
        super().__init__(
            application,
            interface=Interfaces.ASGINL,
            http=HTTPModes.auto,
            websockets=False,
            backlog=_BACKLOG,
            backpressure=_MAX_CONNECTIONS,
            http1_settings=HTTP1Settings(
                header_read_timeout=_HEADER_TIMEOUT_MS, max_buffer_size=_MAX_READ_BYTES
            ),
            http2_settings=HTTP2Settings(
                keep_alive_interval=_PING_EVERY_MS,
                keep_alive_timeout=_PING_TIMEOUT_S,
                max_concurrent_streams=_MAX_STREAMS,
                max_headers_size=_MAX_READ_BYTES,
                max_send_buffer_size=_MAX_UNSENT_BYTES,
            ),
            log_level=LogLevels.error,
            log_dictconfig=_LOGGING,
        )
        self._is_unix = listening.family == socket.AF_UNIX
        self._descriptor = listening.detach()

    def _init_shared_socket(self) -> None:
        # Granian's stubs know neither this constructor nor that the attributes are ever set.
        holder = cast("Callable[[int, bool, int], Any]", SocketHolder)
        vars(self).update(
            _ssp=None,
            _shd=holder(self._descriptor, self._is_unix, self.backlog),
            _sfd=self._descriptor,
        )


class HttpServer:
    """Serves an ASGI application until stopped."""

    def __init__(self, application: Application, host: str | Path, port: int = 0) -> None:
        """Listen.

        Args:
            application: What answers: a gateway, or any application that it is mounted in.
            host: A name, a literal IPv4 or IPv6 address, or the path of a Unix socket to make.
            port: 0 for any free one.

        Raises:
            OSError: The address cannot be listened on.
        """
        listening = _listen_unix(host) if isinstance(host, Path) else _listen(host, port)
        self._own_end = _own_end(listening)
        self._entrance = Entrance(application)
        self._server = _OwnSocketServer(self._entrance, listening)
        self._serving: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def port(self) -> int:
        """The port that is listened on; 0 for a Unix socket."""
        return self._own_end if isinstance(self._own_end, int) else 0

    async def serve(self) -> None:
        """Serve until `stop`; connections made before wait in the kernel's queue."""
        if not self._stopped:
            self._serving = asyncio.create_task(self._server.serve())
            await self._serving

    def announce_end(self) -> None:
        """From now on have each HTTP/1.1 connection end with its next answer, which says so.

        HTTP/2 connections are told to go away by `stop`, without loss of a request.
        """
        self._entrance.ending = True

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, let requests end for up to `grace_s`, then cut what is left.

        Granian waits without end for an HTTP/2 client that has stopped reading.
        """
        self._stopped = True
        if self._serving is None:
            return
        self._server.stop()  # type: ignore[no-untyped-call]
        done, _ = await asyncio.wait([self._serving], timeout=grace_s)
        if not done:
            _cut_connections(self._own_end)
            await asyncio.wait([self._serving], timeout=_CUT_S)


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by what is accepted. Without it an HTTP/2 answer in two writes waits for the
        # client's delayed acknowledgement, 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound_unsent(listening)
        listening.settimeout(0)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise OSError(f"cannot listen on {host}:{port} for HTTP: {reason}") from error
    return listening


def _listen_unix(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.settimeout(0)
    listening.bind(str(path))
    listening.listen(_BACKLOG)
    return listening


def _own_end(connection: socket.socket) -> int | str:
    """Return the port or the path of a socket."""
    name: tuple[str, int] | str = connection.getsockname()
    return name if isinstance(name, str) else name[1]


def _cut_connections(own_end: int | str) -> None:
    """Shut down this process's accepted connections on a port or a path."""

    def is_accepted_there(connection: socket.socket) -> bool:
        known = connection.family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
        if not known or _own_end(connection) != own_end:
            return False
        connection.getpeername()  # raises for the listening socket
        return True

    cut_where(is_accepted_there)
