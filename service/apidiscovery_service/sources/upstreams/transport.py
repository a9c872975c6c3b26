"""Connections to one server, renewed when its certificates change."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx2
from apidiscovery_kubeconfig.contexts import RenewedContext
from apidiscovery_kubeconfig.tls import Tls

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.sources.upstreams.credentials import AskedCredentials, translated

# Further requests wait for one to end; with HTTP/2 all share one connection.
MAX_CONNECTIONS = 16
MAX_IDLE_CONNECTIONS = 4
IDLE_S = 90.0  # Go net/http `DefaultTransport.IdleConnTimeout`

# The errors of an idle connection that the server has closed.
_CLOSED = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)

# How much is read before other tasks run: 64 KiB, which httpcore reads, have some thousands of the
# smallest chunks or frames, and parsing these takes 0.3 s.
_READ_AT_ONCE = 8 * 1024

_Trace = Callable[[str, dict[str, object]], Awaitable[None]]


@dataclass(slots=True, eq=False)
class _Pool:
    """Connections with one TLS context; closed when retired and unused."""

    inner: httpx2.AsyncHTTPTransport
    context: ssl.SSLContext
    users: int = 0
    retired: bool = False

    async def release(self) -> None:
        self.users -= 1
        await self.close_if_over()

    async def retire(self) -> None:
        self.retired = True
        await self.close_if_over()

    async def close_if_over(self) -> None:
        if self.retired and not self.users:
            await self.inner.aclose()


class RenewingTransport(httpx2.AsyncBaseTransport):
    """The connections of one server.

    A request uses connections with the current certificates: when a file or the output of the
    plugin has changed, new connections are made, and old ones end with their last response.
    """

    def __init__(self, tls: Tls, credentials: AskedCredentials, proxy_url: str | None) -> None:
        self._server_name = tls.server_name
        self._context = RenewedContext(tls)
        self._credentials = credentials
        self._proxy = None if proxy_url is None else httpx2.Proxy(proxy_url)
        self._pool: _Pool | None = None
        self._renewing = asyncio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; unusable certificates or plugins are a `ConnectError`."""
        try:
            pool = await self._current()
        except DiscoveryError as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        pool.users += 1
        try:
            response = await self._send(pool, request)
        except BaseException:
            if self._proxy:
                self._pool = None if self._pool is pool else self._pool
                # httpcore counts a tunnel whose TLS failed as busy for ever (http_proxy.py
                # `AsyncTunnelHTTPConnection`), until no connection is left.
                pool.retired = True
            await pool.release()
            raise
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Body(response, pool),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections; responses that are being read end with an error."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.retired = True
            await pool.inner.aclose()

    async def _send(self, pool: _Pool, request: httpx2.Request) -> httpx2.Response:
        """Send a request; retry it when the server had closed the idle connection.

        Source: Go net/http transport.go `persistConn.shouldRetryRequest`.
        """
        outer: _Trace | None = request.extensions.get("trace")
        if self._server_name:
            request.extensions = {**request.extensions, "sni_hostname": self._server_name}
        for left in reversed(range(MAX_IDLE_CONNECTIONS + 1)):
            trace = _RequestTrace(outer)
            request.extensions = {**request.extensions, "trace": trace}
            try:
                return await pool.inner.handle_async_request(request)
            except BaseException as error:
                await trace.abandon()
                if isinstance(error, AttributeError):
                    # anyio asks a connection that was closed just now for its socket, which is
                    # None then (`SocketStream.extra_attributes`).
                    text = "closed while it was made"
                    raise httpx2.ConnectError(text, request=request) from error
                if not left or trace.is_new or not isinstance(error, _CLOSED):
                    raise
        raise AssertionError("the last attempt raises")

    async def _current(self) -> _Pool:
        async with self._renewing:
            certificate = await self._credentials.certificate()
            # Without files there is nothing to wait for; a thread takes as long as half a request.
            context = self._context.cached(certificate)
            if context is None:
                with translated():
                    context = await asyncio.to_thread(self._context.current, certificate)
            pool = self._pool
            if pool is not None and context is pool.context:
                return pool
            self._pool = self._made(context)
            if pool is not None:
                await pool.retire()
            return self._pool

    def _made(self, context: ssl.SSLContext) -> _Pool:
        inner = httpx2.AsyncHTTPTransport(
            verify=context,
            http2=True,
            limits=httpx2.Limits(
                max_connections=MAX_CONNECTIONS,
                max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_S,
            ),
            proxy=self._proxy,
            trust_env=False,
        )
        return _Pool(inner, context)


class _Body(httpx2.AsyncByteStream):
    """The body of a response; its pool is in use until it is closed."""

    def __init__(self, response: httpx2.Response, pool: _Pool) -> None:
        self._response = response
        self._pool: _Pool | None = pool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        stream = self._response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError(f"want a body that is read asynchronously, got {type(stream)}")
        async for chunk in stream:
            yield chunk

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            if self._pool is not None:
                pool, self._pool = self._pool, None
                await pool.release()


class _RequestTrace:
    """Traces a request, to make up for two gaps of httpcore.

    httpcore closes the socket when a TLS handshake fails, but not when it is cancelled (`start_tls`
    of its backends), so a server that hangs would cost a socket at each attempt. And it takes bytes
    beyond the end of an answer for the answer to the next request (`AsyncHTTP11Connection`).

    Attributes:
        is_new: Whether a connection was made for the request.
    """

    def __init__(self, outer: _Trace | None) -> None:
        self.is_new = False
        self._outer = outer
        self._close: Callable[[], Awaitable[None]] | None = None
        self._has_waited = True

    async def __call__(self, event: str, details: dict[str, object]) -> None:
        """Handle an event; raise `RemoteProtocolError` for an answer before its request."""
        if event == "connection.connect_tcp.started":
            self.is_new = True
        elif event == "connection.connect_tcp.complete":
            self._close = getattr(details["return_value"], "aclose", None)
            _read_in_pieces(details["return_value"])
        elif event == "connection.start_tls.complete":
            self._close = None
        elif event == "http11.receive_response_headers.started":
            self._has_waited = False
            asyncio.get_running_loop().call_soon(self._wait)
        elif event == "http11.receive_response_headers.complete":
            self._check()
        if event.endswith(".start_tls.complete"):
            _read_in_pieces(details["return_value"])
        if self._outer is not None:
            await self._outer(event, details)

    async def abandon(self) -> None:
        if self._close is not None:
            await self._close()

    def _wait(self) -> None:
        self._has_waited = True

    def _check(self) -> None:
        """Refuse an answer that was there before the loop could read one from the socket."""
        if not (self.is_new or self._has_waited):
            raise httpx2.RemoteProtocolError("an answer came before its request")


def _read_in_pieces(stream: object) -> None:
    """Make a connection read little at once, and let other tasks run before it reads more."""
    read: Callable[..., Awaitable[bytes]] | None = getattr(stream, "read", None)
    if read is None:
        return

    async def read_piece(
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore calls it
    ) -> bytes:
        await asyncio.sleep(0)
        return await read(min(max_bytes, _READ_AT_ONCE), timeout)

    vars(stream)["read"] = read_piece
