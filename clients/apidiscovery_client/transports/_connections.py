"""Blocking connections to one server, direct or through a proxy, kept for the next request."""

import base64
import time
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from apidiscovery_client._server import Server
from apidiscovery_client.transports import _http1
from apidiscovery_client.transports._streams import Deadline, Scope, Stream, connect

if TYPE_CHECKING:  # plain HTTP does without it
    import ssl

_MAX_IDLE = 16  # as many as are under way at once
_IDLE_S = 90.0  # Go net/http `DefaultTransport.IdleConnTimeout`
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class _Idle:
    stream: Stream
    tls: "ssl.SSLContext | None"
    since: float


class Connections:
    """Makes connections, and keeps some that are idle; may be used by several threads.

    Args:
        server: The server.
        proxy: The URL of the proxy to go through.
    """

    def __init__(self, server: Server, proxy: str | None) -> None:
        self._server = server
        self._to = urlsplit(server.url)
        self._proxy = urlsplit(proxy) if proxy else None
        self._lock = Lock()
        self._idle: list[_Idle] = []
        self._default_tls: ssl.SSLContext | None = None

    def idle(self, tls: "ssl.SSLContext | None", scope: Scope) -> Stream | None:
        """Return a connection that was used before with the same TLS settings; close others.

        One on which something came meanwhile is no use: it has ended, or what came would be taken
        for the next answer (Go net/http transport.go `readLoop`, "Unsolicited response").
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

    def keep(self, stream: Stream, tls: "ssl.SSLContext | None") -> None:
        """Keep a connection for the next request, or close it when there are enough."""
        with self._lock:
            if is_kept := len(self._idle) < _MAX_IDLE:
                self._idle.append(_Idle(stream, tls, time.monotonic()))
        if not is_kept:
            stream.close()

    def close(self) -> None:
        """Close those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.stream.close()

    def new(self, tls: "ssl.SSLContext | None", deadline: Deadline, scope: Scope) -> Stream:
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

    def request(self, path: str, headers: Iterable[tuple[str, str]]) -> bytes:
        """Return a GET request, in the form that a proxy wants where there is one for it.

        Raises:
            ValueError: A header has a line break in it, or the path a space.
        """
        target = self._to.path + path
        more: list[tuple[str, str]] = []
        if self._proxy and self._to.scheme == "http":
            target = f"http://{self._to.netloc}{target}"
            more = _proxy_authorization(self._proxy)
        return _http1.request(target, self._to.netloc, [*headers, *more])

    def _connect_request(self, proxy: SplitResult) -> bytes:
        host = self._to.hostname or ""
        address = f"{f'[{host}]' if ':' in host else host}:{_port(self._to)}"
        return _http1.request(address, address, _proxy_authorization(proxy), "CONNECT")

    def _secured(
        self, stream: Stream, name: str, tls: "ssl.SSLContext | None", deadline: Deadline
    ) -> Stream:
        from apidiscovery_client.transports._tls_stream import TlsStream  # noqa: PLC0415 - slow

        return TlsStream(stream, tls or self._systems_tls(), name, deadline)

    def _systems_tls(self) -> "ssl.SSLContext":
        """Return what trusts the system's authorities; reading them takes some 30 ms."""
        import ssl  # noqa: PLC0415 - plain HTTP does without it

        with self._lock:
            if self._default_tls is None:
                self._default_tls = ssl.create_default_context()
            return self._default_tls


def _port(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def _proxy_authorization(proxy: SplitResult) -> list[tuple[str, str]]:
    if proxy.username is None:
        return []
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [("Proxy-Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")]
