"""The blocking form of `_async_borrowed`, made by `make generate`. DO NOT EDIT."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from threading import Lock

from apidiscovery_client._errors import ServerUnreachable, UnexpectedDocument
from apidiscovery_client._http.body import BodyError
from apidiscovery_client._http.flow import Ask, HttpOptions
from apidiscovery_client._http.reply import MAX_RETRIES, Reply, why_unreachable
from apidiscovery_client._http.request import Deadline
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.transports._paths import PathTransport
from apidiscovery_client.transports._scope import Scope

# Only JSON: protobuf would make these packages no faster, and people read their logs.
_OPTIONS = HttpOptions(protobuf=False)


class BorrowedTransport(PathTransport):
    """Implements `Transport`, or `AsyncTransport` in the event loop of the other package's client.

    Threads may share a `BorrowedTransport` if they may share `get`.

    Args:
        server: The URL of the server, without a slash at the end.
        get: Sends a GET request, given path and headers; returns the answer whatever its status.
        errors: What `get` raises when there is no answer; it is the cause of `ServerUnreachable`.
    """

    def __init__(
        self,
        server: str,
        get: Callable[[str, Mapping[str, str]], Reply],
        errors: tuple[type[Exception], ...],
    ) -> None:
        super().__init__(server, _Borrowed(server, get, errors), _OPTIONS)


class _Borrowed:
    def __init__(
        self,
        server: str,
        get: Callable[[str, Mapping[str, str]], Reply],
        errors: tuple[type[Exception], ...],
    ) -> None:
        self.traffic = Traffic()
        self._server = server
        self._get = get
        self._errors = errors
        self._lock = Lock()

    def close(self) -> None:
        """Leave the connections open: they belong to the other package."""

    def get(self, ask: Ask, scope: Scope) -> Reply:
        for _ in range(MAX_RETRIES):
            reply = self._once(ask)
            if reply.retry_after_s is None:
                return reply
            scope.pause(reply.retry_after_s, Deadline(None))
            scope.ensure_open()
        return self._once(ask)

    def _once(self, ask: Ask) -> Reply:
        url = self._server + ask.path
        headers = {"Accept": ask.accept, **({"If-None-Match": ask.etag} if ask.etag else {})}
        with self._lock:
            self.traffic.requests += 1
        try:
            reply = self._get(ask.path, headers)
        except self._errors as error:
            raise ServerUnreachable(why_unreachable(error, url), url=url) from error
        except BodyError as error:
            raise UnexpectedDocument(str(error), url=url) from error
        with self._lock:
            self.traffic.not_modified += reply.status == HTTPStatus.NOT_MODIFIED
            self.traffic.body_bytes += len(reply.body)
        return reply
