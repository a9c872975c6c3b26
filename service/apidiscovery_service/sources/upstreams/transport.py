"""Connections to one server, renewed when its certificates change."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import cast

import httpcore2
import httpx2
from apidiscovery_kubeconfig.ssl_contexts import RenewedContext
from apidiscovery_kubeconfig.tls import Tls
from apidiscovery_kubeconfig.validity import valid_until

from apidiscovery_service.core.source import CertificateExpiry
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.sources.upstreams.credentials import ThreadedCredentials, translated
from apidiscovery_service.sources.upstreams.network import Network, Stream, has_connected

# Further requests wait for one to end; with HTTP/2 all share one connection.
MAX_CONNECTIONS = 16
MAX_IDLE_CONNECTIONS = 4
IDLE_S = 90.0  # Go net/http `DefaultTransport.IdleConnTimeout`

FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    httpx2.InvalidURL,
)
"""The errors of a request without an answer, or with one that cannot be read."""

# The errors of an idle connection that the server has closed.
_CLOSED = (httpcore2.ReadError, httpcore2.WriteError, httpcore2.RemoteProtocolError)


@dataclass(slots=True, eq=False)
class _Pool:
    """Connections with one TLS context; closed when retired and unused."""

    inner: httpcore2.AsyncConnectionPool
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
            await self.close()

    async def close(self) -> None:
        """Close all connections, even if this is cancelled; httpcore would close only the first."""
        closing = asyncio.ensure_future(self.inner.aclose())
        try:
            await asyncio.shield(closing)
        finally:
            await asyncio.wait([closing])


class Response:
    """The answer to a request; its connection is in use until it is closed.

    Attributes:
        status: The status.
    """

    def __init__(self, response: httpcore2.Response, pool: _Pool) -> None:
        self.status = response.status
        self._response = response
        self._pool: _Pool | None = pool

    def header(self, name: str) -> str:
        """Return the value of a header, of several joined by commas; empty for none.

        Args:
            name: Its name in lower case.
        """
        wanted = name.encode()
        found = [value for key, value in self._response.headers if key.lower() == wanted]
        return ", ".join(_text(value) for value in found)

    def pieces(self) -> AsyncIterator[bytes]:
        """Return the body as it was sent, piece by piece."""
        return self._response.aiter_stream()

    async def aclose(self) -> None:
        """End the use of the connection, which is kept if everything was read."""
        try:
            await self._response.aclose()
        finally:
            if self._pool is not None:
                pool, self._pool = self._pool, None
                await pool.release()


class Connections:
    """The connections of one server.

    A request uses connections with the current certificates: when a file or the output of the
    plugin has changed, new connections are made, and old ones end with their last response.

    httpcore is used directly: httpx would take as long again for each request. No redirect is
    followed, no cookie kept, and no time limited: the caller bounds each exchange.

    Args:
        url: Goes before every path.
        headers: Sent with every request.
        tls: How the server is verified; None for one without TLS.
        credentials: Give the certificate of a plugin.
        proxy_url: The proxy to connect to; None for none.

    Attributes:
        certificates: Until when those of the last connection are valid.
    """

    def __init__(
        self,
        url: str,
        headers: Iterable[tuple[bytes, bytes]],
        tls: Tls | None,
        credentials: ThreadedCredentials,
        proxy_url: str | None,
    ) -> None:
        self.certificates = CertificateExpiry()
        self._url = httpx2.URL(url)
        self._prefix = self._url.raw_path.decode("ascii").rstrip("/")
        self._headers = ((b"Host", self._url.netloc), *headers)
        server_name = tls.server_name if tls else ""
        self._extensions = {"sni_hostname": server_name} if server_name else {}
        self._context = RenewedContext(tls) if tls else None
        self._credentials = credentials
        self._proxy = None if proxy_url is None else httpx2.Proxy(proxy_url)
        self._network = Network()
        self._pool: _Pool | None = None
        self._last_tls: object = None
        self._renewing = asyncio.Lock()

    async def get(self, path: str, headers: Sequence[tuple[str, str]]) -> Response:
        """GET a path; unusable certificates or plugins are a `ConnectError`.

        The caller closes the answer.

        Raises:
            httpcore2.NetworkError: Or another of `FAILURES`.
            UnicodeEncodeError: A header is not ASCII.
        """
        sent = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers]
        request = httpcore2.Request(
            "GET",
            httpcore2.URL(
                scheme=self._url.raw_scheme,
                host=self._url.raw_host,
                port=self._url.port,
                target=_target(self._prefix + path),
            ),
            headers=[*self._headers, *sent],
            extensions=self._extensions,
        )
        try:
            pool = await self._current()
        except DiscoveryError as error:
            raise httpcore2.ConnectError(str(error)) from error
        pool.users += 1
        try:
            return Response(await self._send(pool, request), pool)
        except BaseException:
            if self._proxy:
                self._pool = None if self._pool is pool else self._pool
                # httpcore counts a tunnel whose TLS failed as busy for ever (http_proxy.py
                # `AsyncTunnelHTTPConnection`), until no connection is left.
                pool.retired = True
            await pool.release()
            raise

    async def aclose(self) -> None:
        """Close all connections; requests and responses under way end with an error."""
        self._network.is_closed = True
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.retired = True
            await pool.close()

    async def _send(self, pool: _Pool, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request; retry it when the server had closed the idle connection.

        Source: Go net/http transport.go `persistConn.shouldRetryRequest`.
        """
        for left in reversed(range(MAX_IDLE_CONNECTIONS + 1)):
            has_connected.set(False)
            try:
                response = await pool.inner.handle_async_request(request)
                if not has_connected.get():
                    await _refuse_if_early(response)
                self._note_certificates(response)
            except _CLOSED:
                if not left or has_connected.get():
                    raise
            else:
                return response
        raise AssertionError("the last attempt raises")

    def _note_certificates(self, response: httpcore2.Response) -> None:
        stream = cast("httpcore2.AsyncNetworkStream", _extension(response, "network_stream"))
        tls = stream.get_extra_info("ssl_object")
        if tls is self._last_tls or not isinstance(tls, ssl.SSLObject):
            return
        self._last_tls = tls
        server = tls.getpeercert(binary_form=True)
        client = self._context.certificate if self._context else None
        self.certificates = CertificateExpiry(
            valid_until(server) if server else None,
            valid_until(client.certificate) if client else None,
        )

    async def _current(self) -> _Pool:
        if self._context is None:
            self._pool = self._pool or self._made(_unused_context())
            return self._pool
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
        proxy = None
        if self._proxy is not None:
            proxy = httpcore2.Proxy(str(self._proxy.url), auth=self._proxy.raw_auth)
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            proxy=proxy,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            http2=True,
            network_backend=self._network,
        )
        return _Pool(pool, context)


async def _refuse_if_early(response: httpcore2.Response) -> None:
    """Refuse an answer that was there before its request; over HTTP/2 its stream tells that.

    Raises:
        httpcore2.RemoteProtocolError: It was.
    """
    stream = _extension(response, "network_stream")
    if isinstance(stream, Stream) and not (stream.has_read or _is_http_2(response)):
        await stream.aclose()
        await response.aclose()
        raise httpcore2.RemoteProtocolError("an answer came before its request")


def _is_http_2(response: httpcore2.Response) -> bool:
    return _extension(response, "http_version") == b"HTTP/2"


def _extension(response: httpcore2.Response, name: str) -> object:
    known = response.extensions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast("Mapping[str, object]", known)[name]


@lru_cache(maxsize=4096)  # the paths of all servers are much the same
def _target(path: str) -> bytes:
    """Return a path as it is sent, percent-encoded."""
    return httpx2.URL(f"http://host{path}").raw_path


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("iso-8859-1")


@cache
def _unused_context() -> ssl.SSLContext:
    """Return the context of servers without TLS: httpcore would load all trusted roots for each."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
