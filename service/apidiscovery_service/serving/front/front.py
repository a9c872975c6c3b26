"""Listens, terminates TLS, and relays connections to a server on a Unix socket.

Neither server can hand out a client's certificate: Granian does not expose it, and grpc asks for
one only if every client must have one. So each connection to the server has a name, under which its
client is registered first (`access.authenticator.Peers`). The sockets are in a folder that only
this user may enter. Only the first relayed bytes are inspected.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import ssl
import tempfile
import weakref
from functools import partial
from pathlib import Path
from typing import cast

import structlog

from apidiscovery_service.access.authenticator import Peer, Peers
from apidiscovery_service.access.credentials import certificate_caller, valid_until
from apidiscovery_service.access.limits import Buckets, CallerLimits, Counts, network
from apidiscovery_service.serving.front.credential_files import Certificates
from apidiscovery_service.serving.front.metrics import FrontMetrics
from apidiscovery_service.serving.front.relay import Relay
from apidiscovery_service.serving.unread import bound_unsent

_BACKLOG = 1024

# Limit of the path of a Unix socket: `sun_path` of unix(7) has 104 bytes with its end on macOS.
_MAX_PATH_BYTES = 103
_NAME_BYTES = 33  # with the slash before it
_SERVER = "server"

# The first bytes of plain HTTP/1.1 on a TLS port, and the answer of Go's server.
_HTTP_STARTS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_WANTS_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_REQUEST_BYTES = 64 * 1024

# Time to wait for a file descriptor.
_OUT_OF_FILES_S = 0.1
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Time for the TLS shutdown, and for the client to read the last bytes.
_GOODBYE_S = 5.0

# Time to notice that the connections are cut.
_CUT_S = 1.0

# Idle connections are searched for so many times during `CallerLimits.idle_s`.
_IDLE_CHECKS = 4

_log = structlog.get_logger(__name__)


class Front:
    """One listening address in front of one server.

    Args:
        name: For logs and metrics: `http` or `grpc`.
        host: A name or a literal IPv4 or IPv6 address.
        port: 0 for any free one.
        certificates: Certificate and client authorities; None for plain text.
        peers: Registers the client of each connection for the server.
        limits: Limits of connections.
        metrics: Counts connections.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the server
        self,
        name: str,
        host: str,
        port: int,
        *,
        certificates: Certificates | None,
        peers: Peers,
        limits: CallerLimits | None = None,
        metrics: FrontMetrics | None = None,
    ) -> None:
        """Listen.

        Raises:
            OSError: The address cannot be listened on, or the folder for sockets cannot be made.
        """
        self._name = name
        self._certificates = certificates
        self._peers = peers
        self._limits = limits or CallerLimits()
        self._metrics = metrics or FrontMetrics()
        self._relays: set[Relay] = set()
        self._openings: set[asyncio.Task[None]] = set()
        self._connections: Counts[str] = Counts(self._limits.address_connections)
        self._rate: Buckets[str] = Buckets(self._limits.connections_per_second, 2.0)
        self._empty = asyncio.Event()
        self._stopped = False
        self._folder = _private_folder()
        self._remove_folder = weakref.finalize(
            self, shutil.rmtree, self._folder, ignore_errors=True
        )
        self._listening = _listen(name, host, port, tls=certificates is not None)
        self._port = int(self._listening.getsockname()[1])
        self._serving: asyncio.Task[None] | None = None
        if certificates:
            certificates.on_distrust(self._cut_certified)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port

    @property
    def server_path(self) -> Path:
        """The Unix socket on which the server must listen."""
        return self._folder / _SERVER

    async def serve(self) -> None:
        """Serve until `stop`; the server is already listening."""
        if self._stopped:
            return
        self._serving = asyncio.create_task(self._serve())
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(self._serving)
        if not self._stopped:  # not by `stop`: the caller was cancelled
            await self.stop(0)
            raise asyncio.CancelledError

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, give open ones `grace_s` seconds to end, then cut the rest.

        The server, stopped at the same time, ends them.
        """
        self._stopped = True
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])
        self._listening.close()
        await self._end(grace_s)
        for opening in self._openings:
            opening.cancel()
        for relay in tuple(self._relays):
            self._cut(relay, "drain")
        await self._end(_CUT_S)
        self._remove_folder()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._accept())
            if self._limits.idle_s:
                tasks.create_task(self._cut_idle())

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listening)
            except OSError as error:
                if error.errno in _OUT_OF_FILES:
                    _log.warning("no connection accepted", front=self._name, error=error.strerror)
                    await asyncio.sleep(_OUT_OF_FILES_S)
                continue  # else the client has gone
            key = network(address[0])
            refused = self._refused(key)
            if refused:
                self._metrics.count_cut(self._name, refused)
                connection.close()
                continue
            relay = Relay(self._ended, key)
            self._relays.add(relay)
            self._metrics.count_open(self._name, 1)
            opening = loop.create_task(self._open(connection, relay, address[0]))
            self._openings.add(opening)
            opening.add_done_callback(partial(self._opened, connection, relay))

    def _refused(self, key: str) -> str:
        """Count a new connection; return why it is refused, empty if it is not."""
        most = self._limits.connections
        if most and len(self._connections) >= most:
            return "total"
        if self._rate.take(key):
            return "rate"
        return "" if self._connections.enter(key) else "address"

    def _opened(self, connection: socket.socket, relay: Relay, opening: asyncio.Task[None]) -> None:
        self._openings.discard(opening)
        if relay.client is None:  # without a transport, nothing else reports the end
            connection.close()
            self._ended(relay)

    async def _open(self, connection: socket.socket, relay: Relay, address: str) -> None:
        """Do the handshake and connect to the server; errors end here."""
        try:
            peer = await self._begin(connection, relay, address)
            async with asyncio.timeout(self._limits.handshake_s or None):
                has_begun = await relay.has_begun()
            if has_begun:
                await self._connect(relay, peer)
        except (ssl.SSLError, ConnectionError, TimeoutError) as error:
            # A client that goes away is normal; a failed handshake is worth a log line.
            tls = isinstance(error, ssl.SSLError)
            log, event = (_log.info, "no TLS") if tls else (_log.debug, "no request")
            log(event, front=self._name, client=address, reason=_reason(error))
            self._cut(relay, "handshake")
        except OSError as error:
            _log.warning("connection lost", front=self._name, client=address, error=str(error))
            self._cut(relay, "backend")

    async def _begin(self, connection: socket.socket, relay: Relay, address: str) -> Peer:
        """Do the TLS handshake, if there is one; return the client."""
        loop = asyncio.get_running_loop()
        if self._certificates is None:
            await loop.connect_accepted_socket(lambda: relay.client_side, connection)
            return Peer(address)
        async with asyncio.timeout(self._limits.handshake_s or None):
            await _readable(connection)
        _refuse_plain_http(connection)
        trust = self._certificates.value
        transport, _ = await loop.connect_accepted_socket(
            lambda: relay.client_side,
            connection,
            ssl=trust.context,
            ssl_handshake_timeout=self._limits.handshake_s or None,
            ssl_shutdown_timeout=_GOODBYE_S,
        )
        tls = cast("ssl.SSLObject", transport.get_extra_info("ssl_object"))
        certificate = tls.getpeercert()
        if not certificate:
            return Peer(address)
        if trust.authorities - self._certificates.value.authorities:
            raise ConnectionAbortedError("an authority went during the handshake")
        peer = Peer(address, certificate_caller(certificate), valid_until(certificate))
        relay.certified = peer.caller is not None
        return peer

    async def _connect(self, relay: Relay, peer: Peer) -> None:
        name = self._peers.add(peer)
        relay.on_release(lambda: self._peers.remove(name))
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)  # noqa: FBT003 - its only argument
            self._connect_as(connection, self._folder / name)
            await asyncio.get_running_loop().create_unix_connection(
                lambda: relay.server_side, sock=connection
            )
        except BaseException:
            relay.release()
            connection.close()
            raise

    def _connect_as(self, connection: socket.socket, path: Path) -> None:
        """Connect to the server from a path, which stays the connection's name when it is unlinked.

        A Unix socket connects at once, or fails when the server's queue is full.
        """
        connection.bind(str(path))
        try:
            connection.connect(str(self.server_path))
        finally:
            path.unlink()

    def _ended(self, relay: Relay) -> None:
        if relay in self._relays:
            self._relays.remove(relay)
            self._connections.leave(relay.key)
            self._metrics.count_open(self._name, -1)
            if not self._relays:
                self._empty.set()

    async def _end(self, within_s: float) -> None:
        """Wait until there is no connection, for so many seconds at most."""
        if self._relays:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._empty.wait()

    def _cut(self, relay: Relay, reason: str) -> None:
        self._metrics.count_cut(self._name, reason)
        relay.abort()

    def _cut_certified(self) -> None:
        """Cut the connections of clients with a certificate."""
        for relay in tuple(self._relays):
            if relay.certified:
                self._cut(relay, "authority")

    async def _cut_idle(self) -> None:
        while True:
            await asyncio.sleep(self._limits.idle_s / _IDLE_CHECKS)
            for relay in tuple(self._relays):
                relay.idle_checks += 1
                if relay.idle_checks > _IDLE_CHECKS:
                    self._cut(relay, "idle")


async def _readable(connection: socket.socket) -> None:
    """Wait until the client has sent something, or has gone."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)


def _refuse_plain_http(connection: socket.socket) -> None:
    """Refuse a client that sends a plain HTTP request.

    Source: Go net/http server.go `conn.serve`, tlsRecordHeaderLooksLikeHTTP.

    Raises:
        ConnectionAbortedError: The client sent one.
    """
    if connection.recv(len(_HTTP_STARTS[0]), socket.MSG_PEEK) in _HTTP_STARTS:
        connection.send(_WANTS_TLS)
        # Closing a socket with unread bytes resets the connection: the answer would be lost.
        connection.recv(_REQUEST_BYTES)
        raise ConnectionAbortedError("HTTP without TLS")


def _reason(error: Exception) -> str:
    """Return why a handshake failed, such as `certificate has expired`."""
    named = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    return str(named or type(error).__name__)


def _private_folder() -> Path:
    """Create a folder for sockets, with mode 0700 and a short path."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="apidiscovery-"))
    except OSError as error:
        raise OSError(f"no folder for sockets can be made: {error}; set TMPDIR") from error
    most = _MAX_PATH_BYTES - _NAME_BYTES
    path = os.fsencode(folder)
    if len(path) > most or not _is_utf8(path):
        folder.rmdir()
        raise OSError(
            f"no sockets can be in {folder!s:.200}: want a path of at most {most} bytes of UTF-8; "
            "set TMPDIR to a shorter one"
        )
    return folder


def _is_utf8(text: bytes) -> bool:
    return text == text.decode(errors="replace").encode()


def _listen(name: str, host: str, port: int, *, tls: bool) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        listening = socket.create_server(
            cast("tuple[str, int]", address[:2]),
            family=family,
            backlog=_BACKLOG,
            dualstack_ipv6=both,
        )
    except OSError as error:
        reason = error.strerror or error
        what = f"{name} over TLS" if tls else name
        raise OSError(f"cannot listen on {host}:{port} for {what}: {reason}") from error
    bound_unsent(listening)
    listening.setblocking(False)  # noqa: FBT003 - its only argument
    return listening
