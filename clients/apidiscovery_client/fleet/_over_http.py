"""The blocking form of `_async_over_http`, made by `make generate`. DO NOT EDIT."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from urllib.parse import quote, urlencode

from apidiscovery_formats.matrix import Column, Freshness, Matrix
from apidiscovery_formats.matrix_reading import NotAMatrix, from_json

from apidiscovery_client._errors import DiscoveryError, RequestRefused
from apidiscovery_client._fields import read_json
from apidiscovery_client._negotiation import ACCEPT_PLAIN
from apidiscovery_client._reading import UnreadableError
from apidiscovery_client._server import Server
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.fleet._answer import MatrixAnswer, as_fresh_as, since_of, unknown
from apidiscovery_client.fleet._members import never_answered
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports._scope import Scope, in_thread
from apidiscovery_client.transports.http import HttpTransport

_MATRIX = "/fleet/matrix"
_NO_FLEET = "it shows no clusters: it is older, or no 'apidiscovery serve'"


class OverHttp:
    """Reads /fleet/matrix, and the documents of clusters below /clusters."""

    can_listen = False

    def __init__(self, server: Server, selector: str, at_once: int) -> None:
        self._transport = HttpTransport(server)
        self._path = _MATRIX + (f"?{urlencode({'labelSelector': selector})}" if selector else "")
        self._at_once = at_once
        self._clients: dict[str, DiscoveryClient] = {}

    def close(self) -> None:
        """Close all connections; it may be called again."""
        with ExitStack() as stack:
            stack.callback(self._transport.close)
            for client in self._clients.values():
                stack.callback(client.close)

    def matrix(self, known: MatrixAnswer | None) -> MatrixAnswer:
        """Return the matrix; `known` itself where it has not changed."""
        etag = known.validator if known else ""
        reply = self._transport.get(self._path, ACCEPT_PLAIN, etag)
        if reply.status == HTTPStatus.NOT_MODIFIED and known is not None and etag:
            return known
        if reply.status == HTTPStatus.NOT_FOUND and not reply.is_page:
            raise RequestRefused(_NO_FLEET, url=reply.url, status=reply.status)
        matrix = in_thread(partial(reply.read, _read))
        return MatrixAnswer(matrix, reply.headers.get("etag", ""))

    def snapshots(self, columns: Sequence[Column], max_age_s: float | None) -> dict[str, Snapshot]:
        """Return what clusters serve, by name; no fresher than their columns."""
        calls = [partial(self._snapshot, column, max_age_s) for column in columns]
        found = Scope(self._transport.server).together(calls, self._at_once)
        return {column.name: one for column, one in zip(columns, found, strict=True)}

    def _snapshot(self, column: Column, max_age_s: float | None) -> Snapshot:
        if column.freshness is Freshness.UNKNOWN:
            return unknown(column.name, since_of(column), column.reason)
        client = self._clients.get(column.name)
        if client is None:
            below = self._transport.below(f"/clusters/{quote(column.name)}")
            client = self._clients.setdefault(column.name, DiscoveryClient(below))
        try:
            return as_fresh_as(client.snapshot(max_age_s=max_age_s), column)
        except DiscoveryError as error:
            return never_answered(client.server, error)

    def listen(self, known: MatrixAnswer | None) -> Generator[MatrixAnswer]:
        """Raise `NotImplementedError`: HTTP servers do not push changes."""
        raise NotImplementedError("HTTP servers do not push what has changed; ask again")


def _read(_content_type: str | None, body: bytes) -> Matrix:
    try:
        return from_json(read_json(body))
    except RecursionError:
        raise UnreadableError("the matrix is nested too deeply") from None
    except NotAMatrix as error:
        raise UnreadableError(f"it is not a matrix of a fleet: {error}") from None
    except ValueError as error:
        raise UnreadableError(f"the matrix is not JSON: {error}") from None
