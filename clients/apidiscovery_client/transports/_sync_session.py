"""Asks an HTTP server while the caller waits: every request bounded, connections used again."""

from dataclasses import replace
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING

from apidiscovery_client._errors import (
    ClientClosed,
    InvalidConfiguration,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client._http.body import BodyError
from apidiscovery_client._http.reply import MAX_BODY_BYTES, MAX_RETRIES, Reply, why_unreachable
from apidiscovery_client._http.request import Credentials, Shown, proxy_of, request_headers
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client._server import Headers, Server
from apidiscovery_client.transports import _http1
from apidiscovery_client.transports._connections import Connections
from apidiscovery_client.transports._streams import Deadline, Scope, Stream

if TYPE_CHECKING:  # plain HTTP does without it
    import ssl


class SyncSession:
    """The connections to one server; may be used by several threads.

    Args:
        server: The server.
        max_body_bytes: The largest body that is read, compressed or not.

    Attributes:
        traffic: What was sent and received.
    """

    def __init__(self, server: Server, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.traffic = Traffic()
        self._server = server
        self._max_body_bytes = max_body_bytes
        self._credentials = Credentials(server.access)
        self._connections = Connections(server, proxy_of(server))
        self._counting = Lock()

    def close(self) -> None:
        """Close the idle connections, and end a plugin that runs."""
        self._credentials.close()
        self._connections.close()

    def get(self, path: str, accept: str, etag: str, scope: Scope) -> Reply:
        """Return the answer, whatever its status.

        With 401 it is asked for once more where there are other credentials, with 429 and 5xx as
        often and late as the server wishes, within bounds: at the end of the request timeout the
        last of these refusals is the answer.

        Raises:
            ServerUnreachable: There is none, or not all of it within the request timeout.
            UnexpectedDocument: It is larger than allowed, or wrongly compressed.
            InvalidConfiguration: There are no credentials to show.
            ClientClosed: The scope was ended meanwhile.
        """
        url = self._server.url + path
        timeout_s = self._server.request_timeout_s
        deadline = Deadline(timeout_s)
        try:
            return self._known(path, (accept, etag), deadline, scope)
        except InvalidConfiguration as error:
            if scope.ended.is_set():
                raise ClientClosed(self._server.url) from error
            raise
        except BodyError as error:
            raise UnexpectedDocument(str(error), url=url) from error
        except (OSError, ValueError) as error:
            if scope.ended.is_set():
                raise ClientClosed(self._server.url) from error
            if isinstance(error, TimeoutError) and timeout_s is not None:
                message = f"GET {url}: no answer within {timeout_s:g} s"
                raise ServerUnreachable(message, url=url) from None
            raise ServerUnreachable(why_unreachable(error, url), url=url) from error

    def _known(self, path: str, wish: tuple[str, str], deadline: Deadline, scope: Scope) -> Reply:
        shown = self._credentials.show()
        reply = self._persistently(path, wish, shown, deadline, scope)
        if reply.status != HTTPStatus.UNAUTHORIZED:
            return reply
        renewed = self._credentials.renewed(shown)
        return self._persistently(path, wish, renewed, deadline, scope) if renewed else reply

    def _persistently(
        self, path: str, wish: tuple[str, str], shown: Shown, deadline: Deadline, scope: Scope
    ) -> Reply:
        """Return the answer, or the last one of a server that asks to come again later."""
        headers = request_headers(self._server, shown, *wish)
        refusal: Reply | None = None
        try:
            for _ in range(MAX_RETRIES):
                reply = self._request(path, headers, shown.tls, deadline, scope)
                if reply.retry_after_s is None:
                    return reply
                refusal = reply
                left_s = deadline.left_s()
                scope.ended.wait(min(reply.retry_after_s, left_s or reply.retry_after_s))
            return self._request(path, headers, shown.tls, deadline, scope)
        except TimeoutError:
            if refusal is None or scope.ended.is_set():
                raise
            return replace(refusal, tried_s=self._server.request_timeout_s or 0)

    def _request(
        self,
        path: str,
        headers: Headers,
        tls: "ssl.SSLContext | None",
        deadline: Deadline,
        scope: Scope,
    ) -> Reply:
        """Send a request, over a new connection where the server has closed an idle one.

        Source: Go net/http transport.go `persistConn.shouldRetryRequest`.
        """
        request = self._connections.request(path, headers)
        while stream := self._connections.idle(tls, scope):
            try:
                return self._exchange(path, stream, request, tls, deadline, scope)
            except (_http1.SilentlyClosedError, BrokenPipeError, ConnectionResetError):
                continue
        stream = self._connections.new(tls, deadline, scope)
        return self._exchange(path, stream, request, tls, deadline, scope)

    def _exchange(  # noqa: PLR0913, PLR0917 - one for each thing that it needs
        self,
        path: str,
        stream: Stream,
        request: bytes,
        tls: "ssl.SSLContext | None",
        deadline: Deadline,
        scope: Scope,
    ) -> Reply:
        is_kept = False
        self._count(requests=1)
        try:
            stream.send(request, deadline)
            answer = _http1.answer(stream, deadline, self._max_body_bytes)
            is_kept = answer.is_reusable and not scope.ended.is_set()
        finally:
            scope.remove(stream)
            if is_kept:
                self._connections.keep(stream, tls)
            else:
                stream.close()
        self._count(
            not_modified=int(answer.status == HTTPStatus.NOT_MODIFIED), body_bytes=answer.received
        )
        return Reply(self._server.url + path, answer.status, answer.headers, answer.body)

    def _count(self, *, requests: int = 0, not_modified: int = 0, body_bytes: int = 0) -> None:
        with self._counting:
            self.traffic.requests += requests
            self.traffic.not_modified += not_modified
            self.traffic.body_bytes += body_bytes
