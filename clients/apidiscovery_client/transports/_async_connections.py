"""Connections to one server for asyncio, by httpx2."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import httpx2

from apidiscovery_client._errors import ServerUnreachable
from apidiscovery_client._http.body import Collected
from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS, Reply
from apidiscovery_client._http.request import Deadline, proxy_of
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client._server import Headers, Server, StaticAccess
from apidiscovery_client.transports._async_scope import AsyncScope, in_thread

# What `exchange` raises without an answer, `TimeoutError` among them.
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError)

_KEPT_ALIVE = MAX_CONCURRENT_REQUESTS  # idle connections
_IDLE_S = 90.0  # Go net/http `DefaultTransport.IdleConnTimeout`
# Errors of an idle connection that the server has closed.
_CLOSED = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)

T = TypeVar("T")


class AsyncConnections:
    """One connection pool for one server.

    Attributes:
        traffic: Requests and answers so far.

    Raises:
        ServerUnreachable: The proxy that is configured cannot be used.
    """

    def __init__(self, server: Server, max_body_bytes: int) -> None:
        self.traffic = Traffic()
        self._server = server
        self._proxy = proxy_of(server)
        self._max_body_bytes = max_body_bytes
        self._pool: _Pool | None = None

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.client.aclose()

    async def run_blocking(self, call: Callable[[], T], deadline: Deadline) -> T:
        """Return the result of a call to `Access`, in a thread if it may read files."""
        if isinstance(self._server.access, StaticAccess):
            return call()
        async with asyncio.timeout(deadline.left_s()):
            return await in_thread(call)

    async def exchange(
        self,
        path: str,
        headers: Headers,
        tls: ssl.SSLContext | None,
        deadline: Deadline,
        _scope: AsyncScope,
    ) -> Reply:
        """Send a GET request and return the answer; raise `BodyError` and `FAILURES`."""
        async with asyncio.timeout(deadline.left_s()):
            return await self._request(self._server.url + path, headers, tls)

    async def _request(self, url: str, headers: Headers, tls: ssl.SSLContext | None) -> Reply:
        """Send a request, and again when an idle connection proves to be closed by the server.

        Source: Go net/http transport.go `persistConn.shouldRetryRequest`.
        """
        for left in reversed(range(_KEPT_ALIVE + 1)):
            pool = await self._current(tls)
            course = _RequestTrace()
            pool.users += 1
            try:
                return await self._exchange(pool.client, url, headers, course)
            except BaseException as error:
                await course.abandon()
                if self._proxy and self._pool is pool:
                    # httpcore counts a tunnel whose TLS failed as busy until the pool is closed
                    # (http_proxy.py `AsyncTunnelHTTPConnection`).
                    self._pool = None
                    pool.is_retired = True
                if not left or course.is_new or not isinstance(error, _CLOSED):
                    raise
            finally:
                pool.users -= 1
                await pool.close_if_over()
        raise AssertionError("the last attempt raises")

    async def _exchange(
        self, client: httpx2.AsyncClient, url: str, headers: Headers, trace: "_RequestTrace"
    ) -> Reply:
        self.traffic.requests += 1
        extensions: dict[str, object] = {"trace": trace}
        if self._server.tls_server_name:
            extensions["sni_hostname"] = self._server.tls_server_name
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        async with client.stream("GET", url, headers=encoded, extensions=extensions) as response:
            told = {name.lower(): value for name, value in response.headers.items()}
            body = Collected(told.get("content-encoding", ""), self._max_body_bytes)
            try:
                # Raw, because httpx2 decompresses without a limit.
                content = await body.collect_async(response.aiter_raw())
            finally:
                self.traffic.body_bytes += body.received
            self.traffic.not_modified += response.status_code == HTTPStatus.NOT_MODIFIED
            return Reply(url, response.status_code, told, content)

    async def _current(self, tls: ssl.SSLContext | None) -> "_Pool":
        """Return the pool for the current TLS settings."""
        if self._pool is not None and self._pool.tls is tls:
            return self._pool
        outdated = self._pool
        self._pool = _Pool(_client(self._server, self._proxy, tls), tls)
        if outdated is not None:
            outdated.is_retired = True
            await outdated.close_if_over()
        return self._pool


class _Pool:
    """Connections with the same TLS settings, closed when retired and no longer used."""

    def __init__(self, client: httpx2.AsyncClient, tls: ssl.SSLContext | None) -> None:
        self.client = client
        self.tls = tls
        self.users = 0
        self.is_retired = False

    async def close_if_over(self) -> None:
        if self.is_retired and not self.users:
            await self.client.aclose()


class _RequestTrace:
    """Traces a request, to make up for two gaps in httpcore.

    httpcore closes the socket when a TLS handshake fails, but not when it is cancelled (`start_tls`
    of its backends), so a server that hangs would leak a socket at each attempt. And it takes bytes
    after the end of an answer for the answer to the next request (`AsyncHTTP11Connection`).

    Attributes:
        is_new: Whether a connection was made for the request.
    """

    def __init__(self) -> None:
        self.is_new = False
        self._close: Callable[[], Awaitable[None]] | None = None
        self._has_waited = True

    async def __call__(self, event: str, details: dict[str, object]) -> None:
        """Handle an event; raise `RemoteProtocolError` for bytes that cannot be the answer."""
        if event == "connection.connect_tcp.started":
            self.is_new = True
        elif event == "connection.connect_tcp.complete":
            self._close = getattr(details["return_value"], "aclose", None)
        elif event == "connection.start_tls.complete":
            self._close = None
        elif event == "http11.receive_response_headers.started":
            self._has_waited = False
            asyncio.get_running_loop().call_soon(self._wait)
        elif event == "http11.receive_response_headers.complete":
            self._check()

    async def abandon(self) -> None:
        if self._close is not None:
            await self._close()

    def _wait(self) -> None:
        self._has_waited = True

    def _check(self) -> None:
        """Refuse an answer that was buffered before the event loop could read the socket."""
        if not (self.is_new or self._has_waited):
            raise httpx2.RemoteProtocolError("an answer came before its request")


def _client(server: Server, proxy: str | None, tls: ssl.SSLContext | None) -> httpx2.AsyncClient:
    """Return a client for one server; raise `ServerUnreachable` for an unusable proxy."""
    context = tls or _default_tls(server, proxy)
    try:
        return httpx2.AsyncClient(
            http2=True,
            limits=httpx2.Limits(
                max_connections=MAX_CONCURRENT_REQUESTS,
                max_keepalive_connections=_KEPT_ALIVE,
                keepalive_expiry=_IDLE_S,
            ),
            timeout=None,  # one for the whole request is set around it
            trust_env=False,
            # Go's net/http has the same TLS settings for the proxy (`persistConn.addTLS`).
            proxy=_proxy(proxy, context) if proxy else None,
            verify=context,
        )
    except (ImportError, ValueError) as error:  # such as a SOCKS proxy
        raise ServerUnreachable(f"the proxy cannot be used: {error}", url=server.url) from error


def _proxy(url: str, tls: ssl.SSLContext) -> httpx2.Proxy:
    return httpx2.Proxy(url, ssl_context=tls if url.startswith("https:") else None)


def _default_tls(server: Server, proxy: str | None) -> ssl.SSLContext:
    """Return a context with the system's authorities; loading them takes some 30 ms.

    Plain HTTP gets one without authorities.
    """
    if not any(url.startswith("https:") for url in (server.url, proxy or "")):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context()
