"""The blocking form of `async_http`, made by `make generate`. DO NOT EDIT."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from apidiscovery_client._errors import (
    InvalidConfiguration,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client._http.body import BodyError
from apidiscovery_client._http.flow import DEFAULT_OPTIONS, Ask, HttpOptions
from apidiscovery_client._http.reply import MAX_RETRIES, Reply, why_unreachable
from apidiscovery_client._http.request import Credentials, Deadline, Shown, request_headers
from apidiscovery_client._server import Server
from apidiscovery_client.transports._connections import FAILURES, Connections
from apidiscovery_client.transports._paths import PathTransport
from apidiscovery_client.transports._scope import Scope


class HttpTransport(PathTransport):
    """Implements `Transport`, or for asyncio `AsyncTransport`, for any Kubernetes API server.

    Threads may share an `HttpTransport`.

    Args:
        server: The server.
        options: How to ask it.
        progress: Called after each answer, in whatever thread waits for it, with the number of
            answers so far and of requests that are sent side by side.

    Raises:
        ServerUnreachable: The proxy that is configured cannot be used.
    """

    def __init__(
        self,
        server: Server,
        options: HttpOptions = DEFAULT_OPTIONS,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        session = _Session(server, options)
        super().__init__(server.url, session, options, progress)


class _Session:
    """Sends requests with credentials, and again where the server asks for that."""

    def __init__(self, server: Server, options: HttpOptions) -> None:
        self._server = server
        self._query = options.query
        self._warn = options.warn
        self._credentials = Credentials(server.access)
        self._connections = Connections(server, options.max_body_bytes)
        self.traffic = self._connections.traffic

    def close(self) -> None:
        """Close the connections, and end a plugin that runs."""
        self._connections.run_blocking(self._credentials.close, Deadline(None))
        self._connections.close()

    def get(self, ask: Ask, scope: Scope) -> Reply:
        """Return the answer, whatever its status.

        A request is sent once more after 401 where there are other credentials, and after 429 and
        5xx as often and as late as the server asks for, within bounds. When the request timeout
        ends that, the last of these answers is returned.

        Raises:
            ServerUnreachable: No complete answer within the request timeout.
            UnexpectedDocument: It is larger than allowed, or wrongly compressed.
            InvalidConfiguration: There are no credentials to show.
            ClientClosed: The scope was ended meanwhile.
        """
        if self._query:
            ask = replace(ask, path=f"{ask.path}{'&' if '?' in ask.path else '?'}{self._query}")
        url = self._server.url + ask.path
        timeout_s = self._server.request_timeout_s
        try:
            reply = self._authorized(ask, Deadline(timeout_s), scope)
        except InvalidConfiguration:
            scope.ensure_open()
            raise
        except BodyError as error:
            raise UnexpectedDocument(str(error), url=url) from error
        except FAILURES as error:
            scope.ensure_open()
            if isinstance(error, TimeoutError) and timeout_s is not None:
                message = f"GET {url}: no answer within {timeout_s:g} s"
                raise ServerUnreachable(message, url=url) from None
            raise ServerUnreachable(why_unreachable(error, url), url=url) from error
        if self._warn:
            for text in reply.warnings():
                self._warn(text)
        return reply

    def _authorized(self, ask: Ask, deadline: Deadline, scope: Scope) -> Reply:
        run_blocking = self._connections.run_blocking
        shown = run_blocking(self._credentials.show, deadline)
        reply = self._repeated(ask, shown, deadline, scope)
        if reply.status != HTTPStatus.UNAUTHORIZED:
            return reply
        renewed = run_blocking(partial(self._credentials.renewed, shown), deadline)
        if renewed is not None:
            shown = renewed
            reply = self._repeated(ask, shown, deadline, scope)
        is_refused = reply.status == HTTPStatus.UNAUTHORIZED
        return replace(reply, refused=shown.refused()) if is_refused else reply

    def _repeated(self, ask: Ask, shown: Shown, deadline: Deadline, scope: Scope) -> Reply:
        """Return the answer, or the last one of a server that asks to come again later."""
        headers = request_headers(self._server, shown, ask.accept, ask.etag)
        exchange = partial(
            self._connections.exchange, ask.path, headers, shown.tls, deadline, scope
        )
        refusal: Reply | None = None
        try:
            for _ in range(MAX_RETRIES):
                reply = exchange()
                if reply.retry_after_s is None:
                    return reply
                refusal = reply
                scope.pause(reply.retry_after_s, deadline)
                scope.ensure_open()
            return exchange()
        except TimeoutError:
            if refusal is None or scope.is_ended:
                raise
            return replace(refusal, tried_s=self._server.request_timeout_s or 0)
