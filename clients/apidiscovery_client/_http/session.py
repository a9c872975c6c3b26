"""Asks an HTTP server with asyncio: one pool of connections, every request bounded."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

import httpx2

from apidiscovery_client._errors import ServerUnreachable, UnexpectedDocument
from apidiscovery_client._http.body import BodyError, Collected
from apidiscovery_client._http.reply import (
    MAX_BODY_BYTES,
    MAX_CONCURRENT_REQUESTS,
    MAX_RETRIES,
    Reply,
    why_unreachable,
)
from apidiscovery_client._http.request import Credentials, proxy_of, request_headers
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client._server import Headers, Server, StaticAccess

_KEPT_ALIVE = MAX_CONCURRENT_REQUESTS  # idle connections
_IDLE_S = 90.0  # Go net/http `DefaultTransport.IdleConnTimeout`
# How an idle connection shows that the server has closed it meanwhile.
_CLOSED = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)

T = TypeVar("T")


class Session:
    """One connection pool for one server; every request has its time and size bounded.

    Args:
        server: The server.
        max_body_bytes: The largest body that is read, compressed or not.

    Attributes:
        traffic: What was sent and received.
    """

    def __init__(self, server: Server, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.traffic = Traffic()
        self._server = server
        self._proxy = proxy_of(server)
        self._max_body_bytes = max_body_bytes
        self._credentials = Credentials(server.access)
        self._pool: _Pool | None = None
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, and end a plugin that runs; requests under way fail."""
        await self._blocking(self._credentials.close)
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.client.aclose()

    async def get(self, path: str, accept: str, etag: str = "") -> Reply:
        """Return the answer, whatever its status.

        With 401 it is asked for once more where there are other credentials, with 429 and 5xx as
        often and late as the server wishes, within bounds: at the end of the request timeout the
        last of these refusals is the answer.

        Raises:
            ServerUnreachable: There is none, or not all of it within the request timeout.
            UnexpectedDocument: It is larger than allowed, or wrongly compressed.
            InvalidConfiguration: There are no credentials to show.
        """
        url = self._server.url + path
        refusals: list[Reply] = []
        try:
            async with self._slots, asyncio.timeout(self._server.request_timeout_s):
                return await self._known(url, accept, etag, refusals)
        except TimeoutError:
            seconds = self._server.request_timeout_s or 0
            if refusals:
                return replace(refusals[-1], tried_s=seconds)
            message = f"GET {url}: no answer within {seconds:g} s"
            raise ServerUnreachable(message, url=url) from None
        except BodyError as error:
            raise UnexpectedDocument(str(error), url=url) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ServerUnreachable(why_unreachable(error, url), url=url) from error

    async def _known(self, url: str, accept: str, etag: str, refusals: list[Reply]) -> Reply:
        shown = await self._blocking(self._credentials.show)
        headers = request_headers(self._server, shown, accept, etag)
        reply = await self._persistently(url, headers, shown.tls, refusals)
        if reply.status != HTTPStatus.UNAUTHORIZED:
            return reply
        renewed = await self._blocking(lambda: self._credentials.renewed(shown))
        if renewed is None:
            return reply
        headers = request_headers(self._server, renewed, accept, etag)
        return await self._persistently(url, headers, renewed.tls, refusals)

    async def _persistently(
        self, url: str, headers: Headers, tls: ssl.SSLContext | None, refusals: list[Reply]
    ) -> Reply:
        """Return the answer, or the last one of a server that asks to come again later.

        What such a server answered last is in `refusals`, for when time is up meanwhile.
        """
        for _ in range(MAX_RETRIES):
            reply = await self._request(url, headers, tls)
            if reply.retry_after_s is None:
                return reply
            refusals[:] = [reply]
            await asyncio.sleep(reply.retry_after_s)
        return await self._request(url, headers, tls)

    async def _request(self, url: str, headers: Headers, tls: ssl.SSLContext | None) -> Reply:
        """Send a request, and again when an idle connection proves to be closed by the server.

        Source: Go net/http transport.go `persistConn.shouldRetryRequest`.
        """
        for left in reversed(range(_KEPT_ALIVE + 1)):
            pool = await self._current(tls)
            course = _Course()
            pool.users += 1
            try:
                return await self._exchange(pool.client, url, headers, course)
            except BaseException as error:
                await course.abandon()
                if self._proxy and self._pool is pool:
                    # httpcore counts a tunnel whose TLS failed as busy for ever (http_proxy.py
                    # `AsyncTunnelHTTPConnection`), until no connection is left.
                    self._pool = None
                    pool.is_retired = True
                if not left or course.is_new or not isinstance(error, _CLOSED):
                    raise
            finally:
                pool.users -= 1
                await pool.close_if_over()
        raise AssertionError("the last attempt raises")

    async def _exchange(
        self, client: httpx2.AsyncClient, url: str, headers: Headers, trace: "_Course"
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
                # Raw, for httpx2 decompresses without a bound.
                content = await body.all_that_come(response.aiter_raw())
            finally:
                self.traffic.body_bytes += body.received
            self.traffic.not_modified += response.status_code == HTTPStatus.NOT_MODIFIED
            return Reply(url, response.status_code, told, content)

    async def _current(self, tls: ssl.SSLContext | None) -> "_Pool":
        """Return connections that were made with the TLS settings of now."""
        if self._pool is not None and self._pool.tls is tls:
            return self._pool
        outdated = self._pool
        self._pool = _Pool(_client(self._server, self._proxy, tls), tls)
        if outdated is not None:
            outdated.is_retired = True
            await outdated.close_if_over()
        return self._pool

    async def _blocking(self, call: Callable[[], T]) -> T:
        """Return what may take long, for it may read files and run programs."""
        if isinstance(self._server.access, StaticAccess):
            return call()
        return await in_thread(call)


async def in_thread(call: Callable[[], T]) -> T:
    """Return what `call` returns, from a thread of its own, which ends with it.

    The end of the process does not wait for it, other than for one of a ThreadPoolExecutor.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            future.set_exception(error)

    threading.Thread(target=run, name="apidiscovery-http", daemon=True).start()
    return await asyncio.wrap_future(future)


class _Pool:
    """Connections made with the same TLS settings, closed when retired and out of use."""

    def __init__(self, client: httpx2.AsyncClient, tls: ssl.SSLContext | None) -> None:
        self.client = client
        self.tls = tls
        self.users = 0
        self.is_retired = False

    async def close_if_over(self) -> None:
        if self.is_retired and not self.users:
            await self.client.aclose()


class _Course:
    """Follows a request on its way, for what httpcore leaves to others.

    It closes the socket when a TLS handshake fails, but not when that is cancelled (`start_tls` of
    its backends); a server that hangs would then cost a socket at each attempt. And it keeps what
    came beyond the end of an answer for the answer to the next request (`AsyncHTTP11Connection`).

    Attributes:
        is_new: Whether a connection was made for the request.
    """

    def __init__(self) -> None:
        self.is_new = False
        self._close: Callable[[], Awaitable[None]] | None = None
        self._has_waited = True

    async def __call__(self, event: str, details: dict[str, object]) -> None:
        """Take note of an event; raise `RemoteProtocolError` for what cannot be the answer."""
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
        """Refuse an answer that was there before the loop could have read any from the socket."""
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
    """Return what trusts the system's certificate authorities; reading them takes some 30 ms.

    Plain HTTP gets one that trusts nobody.
    """
    if not any(url.startswith("https:") for url in (server.url, proxy or "")):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context()
