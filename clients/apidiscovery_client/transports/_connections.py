"""Blocking connections to one server, direct or through a proxy, with a pool."""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from apidiscovery_kubeconfig.addresses import DEFAULT_PORTS

from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS, Reply
from apidiscovery_client._http.request import Deadline, proxy_of
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client._server import Headers, Server
from apidiscovery_client.transports import _http1
from apidiscovery_client.transports._scope import Scope
from apidiscovery_client.transports._streams import Stream, connect

if TYPE_CHECKING:  # plain HTTP does without it
    import ssl

    import h11

# What `exchange` raises without an answer, `TimeoutError` among them.
FAILURES = (OSError, ValueError)

_MAX_IDLE = MAX_CONCURRENT_REQUESTS
_IDLE_S = 90.0  # Go net/http `DefaultTransport.IdleConnTimeout`

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Idle:
    stream: Stream
    tls: "ssl.SSLContext | None"
    since: float


class Connections:
    """The connections to one server; may be used by several threads.

    Attributes:
        traffic: Requests and answers so far.

    Raises:
        ServerUnreachable: The proxy that is configured cannot be used.
    """

    def __init__(self, server: Server, max_body_bytes: int) -> None:
        self.traffic = Traffic()
        self._server = server
        self._max_body_bytes = max_body_bytes
        self._to = urlsplit(server.url)
        proxy = proxy_of(server)
        self._proxy = urlsplit(proxy) if proxy else None
        self._lock = Lock()
        self._idle: list[_Idle] = []
        self._default_tls: ssl.SSLContext | None = None
        self._is_closed = False

    def close(self) -> None:
        """Close those that are idle; others are closed after their answer."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.stream.close()

    def run_blocking(self, call: Callable[[], T], _deadline: Deadline) -> T:
        """Return the result of a call to `Access`."""
        return call()

    def exchange(
        self,
        path: str,
        headers: Headers,
        tls: "ssl.SSLContext | None",
        deadline: Deadline,
        scope: Scope,
    ) -> Reply:
        """Send a GET request and return the answer; raise `BodyError` and `FAILURES`.

        A new connection is used where the server has closed an idle one.
        Source: Go net/http transport.go `persistConn.shouldRetryRequest`.
        """
        request = self._request(path, headers)
        while stream := self._reused(tls, scope):
            try:
                return self._answer(path, stream, request, tls, deadline, scope)
            except (_http1.SilentlyClosedError, BrokenPipeError, ConnectionResetError):
                continue
        stream = self._new(tls, deadline, scope)
        return self._answer(path, stream, request, tls, deadline, scope)

    def _answer(  # noqa: PLR0913, PLR0917 - all that an exchange needs
        self,
        path: str,
        stream: Stream,
        request: "h11.Request",
        tls: "ssl.SSLContext | None",
        deadline: Deadline,
        scope: Scope,
    ) -> Reply:
        is_kept = False
        self._count(requests=1)
        try:
            answer = _http1.Exchange(stream, deadline, request).answer(self._max_body_bytes)
            is_kept = answer.is_reusable and not scope.is_ended
        finally:
            scope.remove(stream)
            if not (is_kept and self._keep(stream, tls)):
                stream.close()
        self._count(
            not_modified=int(answer.status == HTTPStatus.NOT_MODIFIED), body_bytes=answer.received
        )
        return Reply(self._server.url + path, answer.status, answer.headers, answer.body)

    def _count(self, *, requests: int = 0, not_modified: int = 0, body_bytes: int = 0) -> None:
        with self._lock:
            self.traffic.requests += requests
            self.traffic.not_modified += not_modified
            self.traffic.body_bytes += body_bytes

    def _reused(self, tls: "ssl.SSLContext | None", scope: Scope) -> Stream | None:
        """Return an idle connection with the same TLS settings; close unusable ones.

        One on which bytes have arrived is closed: it has ended, or the bytes would be taken for the
        next answer (Go net/http transport.go `readLoop`, "Unsolicited response").
        """
        now = time.monotonic()
        with self._lock:
            known, self._idle = self._idle, []
            usable = [
                one
                for one in known
                if one.tls is tls and now - one.since < _IDLE_S and one.stream.is_quiet()
            ]
            found = usable.pop() if usable else None
            self._idle = usable
        for one in known:
            if one is not found and one not in usable:
                one.stream.close()
        if found is None:
            return None
        scope.add(found.stream)
        return found.stream

    def _keep(self, stream: Stream, tls: "ssl.SSLContext | None") -> bool:
        """Keep a connection for the next request; return False when there are enough."""
        with self._lock:
            if self._is_closed or len(self._idle) >= _MAX_IDLE:
                return False
            self._idle.append(_Idle(stream, tls, time.monotonic()))
            return True

    def _new(self, tls: "ssl.SSLContext | None", deadline: Deadline, scope: Scope) -> Stream:
        """Return a new connection, in the scope; raise `OSError`."""
        first = self._proxy or self._to
        tcp = connect(first.hostname or "", _port(first), deadline, scope)
        stream: Stream = tcp
        try:
            if self._proxy and self._proxy.scheme == "https":
                # Go's net/http has the same TLS settings for the proxy (`persistConn.addTLS`).
                stream = self._secured(stream, self._proxy.hostname or "", tls, deadline)
            if self._to.scheme == "https":
                if self._proxy:
                    _http1.tunnel(stream, self._connect_request(self._proxy), deadline)
                name = self._server.tls_server_name or self._to.hostname or ""
                stream = self._secured(stream, name, tls, deadline)
        except BaseException:
            scope.remove(tcp)
            tcp.close()
            raise
        scope.remove(tcp)
        scope.add(stream)
        return stream

    def _request(self, path: str, headers: Headers) -> "h11.Request":
        """Return a GET request, in absolute form for a proxy of plain HTTP.

        Raises:
            ValueError: A header has a line break, or the path a space.
        """
        target = self._to.path + path
        more: list[tuple[str, str]] = []
        if self._proxy and self._to.scheme == "http":
            target = f"http://{self._to.netloc}{target}"
            more = _proxy_authorization(self._proxy)
        return _http1.request(target, self._to.netloc, [*headers, *more])

    def _connect_request(self, proxy: SplitResult) -> "h11.Request":
        host = self._to.hostname or ""
        address = f"{f'[{host}]' if ':' in host else host}:{_port(self._to)}"
        return _http1.request(address, address, _proxy_authorization(proxy), "CONNECT")

    def _secured(
        self, stream: Stream, name: str, tls: "ssl.SSLContext | None", deadline: Deadline
    ) -> Stream:
        from apidiscovery_client.transports._tls_stream import TlsStream  # noqa: PLC0415 - slow

        return TlsStream(stream, tls or self._systems_tls(), name, deadline)

    def _systems_tls(self) -> "ssl.SSLContext":
        """Return a context with the system's authorities; loading them takes some 30 ms."""
        import ssl  # noqa: PLC0415 - plain HTTP does without it

        with self._lock:
            if self._default_tls is None:
                self._default_tls = ssl.create_default_context()
            return self._default_tls


def _port(url: SplitResult) -> int:
    return url.port or DEFAULT_PORTS[url.scheme]


def _proxy_authorization(proxy: SplitResult) -> list[tuple[str, str]]:
    if proxy.username is None:
        return []
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [("Proxy-Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")]
