"""Granian, embedded: HTTP/1.1 and HTTP/2 for an ASGI application on this event loop.

The listening socket is ours: Granian's own sets SO_REUSEPORT, with which a second server on a taken
port starts without an error and gets half of the connections, and it does not tell which port it
took for port 0.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import structlog
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from granian.server.embed import Server

from apidiscovery_service.serving.http.messages import Application, Message, Receive, Scope, Send
from apidiscovery_service.serving.unread import bound_unsent, cut_where

_BACKLOG = 1024
_MAX_CONNECTIONS = 4096

# Above the gateway's own limit (asgi.MAX_HEADER_BYTES), which answers with a Status and a log line;
# above this one Granian answers 431 by itself.
_MAX_READ_BYTES = 128 * 1024
_HEADER_TIMEOUT_MS = 30_000
_PING_EVERY_MS = 30_000
# RFC 9113, 6.5.2 recommends 100, for parallelism; here one thread answers, each request in well
# under a millisecond. The concurrent requests of an attacker are queued before the next request of
# other clients: with 512 connections they take 0.6 s with 32 streams, 2 s with 100.
_MAX_STREAMS = 32
# For one stream, beyond a piece of a body.
_MAX_UNSENT_BYTES = 64 * 1024
_PING_TIMEOUT_S = 10

# Time to notice that the connections are cut.
_CUT_S = 1.0

# Without handlers: the process configures logging.
_LOGGING: dict[str, Any] = {
    "incremental": True,
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {}},
}

# Source: golang.org/x/net/http/httpguts ValidHostHeader.
_HOST = re.compile(rb"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")

_CLOSE = (b"connection", b"close")  # Granian leaves it out of HTTP/2

_log = structlog.get_logger(__name__)


class CheckedApplication:
    """Refuses requests that HTTP forbids and Granian passes on, and closes connections on demand.

    Granian shows a missing Host field as an empty one, and does not show that lines end with a bare
    LF.

    Attributes:
        ending: Whether each HTTP/1.1 connection ends with its next answer.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.ending = False

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one ASGI connection."""
        if scope["type"] == "http":
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            wrong = wrong_host(hosts, scope["http_version"])
            if wrong:
                _log.warning("bad request", method=scope["method"], status=400, reason=wrong)
                return _refuse(send, wrong)
            if self.ending:
                send = _ending(send)
        return self._application(scope, receive, send)


def wrong_host(hosts: Sequence[bytes], http_version: str) -> str:
    """Return the error of the Host fields of a request, in Go's words; empty without one.

    Sources: RFC 9112 section 3.2; net/http server.go (*conn).readRequest.
    """
    if len(hosts) > 1:
        return "too many Host headers"
    host = hosts[0] if hosts else b""
    if not host:
        return "missing required Host header" if http_version == "1.1" else ""
    return "" if _HOST.fullmatch(host) else "malformed Host header"


async def _refuse(send: Send, wrong: str) -> None:
    """Answer as Go's server does."""
    body = f"400 Bad Request: {wrong}".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        _CLOSE,
    ]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _ending(send: Send) -> Send:
    """Return a `send` that closes the connection after the answer."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], _CLOSE]}
        await send(message)

    return send_last


class _OwnSocketServer(Server):
    """Granian on a listening socket, which it closes when it stops."""

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
        # Granian's stubs have neither this constructor nor these attributes.
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
            application: A gateway, or any application that it is mounted in.
            host: A name, a literal IPv4 or IPv6 address, or the path of a Unix socket to create.
            port: 0 for any free one.

        Raises:
            OSError: The address cannot be listened on.
        """
        listening = _listen_unix(host) if isinstance(host, Path) else _listen(host, port)
        self._local_end = _local_end(listening)
        self._application = CheckedApplication(application)
        self._server = _OwnSocketServer(self._application, listening)
        self._serving: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def port(self) -> int:
        """The port that is listened on; 0 for a Unix socket."""
        return self._local_end if isinstance(self._local_end, int) else 0

    async def serve(self) -> None:
        """Serve until `stop`; connections made before wait in the kernel's queue."""
        if not self._stopped:
            self._serving = asyncio.create_task(self._server.serve())
            await self._serving

    def announce_end(self) -> None:
        """Close each HTTP/1.1 connection with its next answer.

        HTTP/2 connections get GOAWAY from `stop`, without loss of a request.
        """
        self._application.ending = True

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, give requests `grace_s` seconds to end, then cut the rest.

        Granian would wait forever for an HTTP/2 client that has stopped reading.
        """
        self._stopped = True
        if self._serving is None:
            return
        self._server.stop()  # type: ignore[no-untyped-call]
        done, _ = await asyncio.wait([self._serving], timeout=grace_s)
        if not done:
            _cut_connections(self._local_end)
            await asyncio.wait([self._serving], timeout=_CUT_S)


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit it. Without it an HTTP/2 answer in two writes waits for the
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


def _local_end(connection: socket.socket) -> int | str:
    """Return the port or the path of a socket."""
    name: tuple[str, int] | str = connection.getsockname()
    return name if isinstance(name, str) else name[1]


def _cut_connections(local_end: int | str) -> None:
    """Shut down this process's accepted connections on a port or a path."""

    def matches(connection: socket.socket) -> bool:
        known = connection.family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
        if not known or _local_end(connection) != local_end:
            return False
        connection.getpeername()  # raises for the listening socket
        return True

    cut_where(matches)
