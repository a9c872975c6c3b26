"""Answers of a service about its clusters, and what remains of them during an outage."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus

from apidiscovery_formats.matrix import Column, Freshness, Matrix
from apidiscovery_formats.times import time_text

from apidiscovery_client._errors import (
    DiscoveryError,
    RequestRefused,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client.model import PATHS, Current, Snapshot, Stale, Unknown

_SERVER_ERRORS = 500


@dataclass(frozen=True, slots=True)
class MatrixAnswer:
    """An answer of a service.

    Attributes:
        validator: The ETag over HTTP, the hash over gRPC, for the next request; may be empty.
        state: From which a watch continues; None unless a watch received it.
    """

    matrix: Matrix
    validator: str
    state: object = None


def may_pass(error: DiscoveryError) -> bool:
    """Return whether a failure may pass by itself, unlike a refusal of the caller or request."""
    if isinstance(error, RequestRefused):
        return error.status >= _SERVER_ERRORS or error.status == HTTPStatus.TOO_MANY_REQUESTS
    return isinstance(error, ServerUnreachable | UnexpectedDocument)


def as_stale(matrix: Matrix, since: datetime, reason: str) -> Matrix:
    """Return the matrix with all current columns stale."""
    text = time_text(since)
    return Matrix(
        tuple(
            replace(column, freshness=Freshness.STALE, since=text, reason=reason)
            if column.freshness is Freshness.CURRENT
            else column
            for column in matrix.columns
        ),
        matrix.rows,
    )


def as_fresh_as(snapshot: Snapshot, column: Column) -> Snapshot:
    """Return a snapshot of a cluster that is no fresher than the column says."""
    match column.freshness:
        case Freshness.CURRENT:
            return snapshot
        case Freshness.STALE if isinstance(snapshot.freshness, Unknown):
            return snapshot
        case Freshness.STALE:
            return replace(snapshot, freshness=Stale(since_of(column), column.reason))
        case _:
            return unknown(snapshot.server, since_of(column), column.reason)


def unknown(server: str, since: datetime, reason: str) -> Snapshot:
    """Return the snapshot of a cluster about which nothing is known, with the reason."""
    return Snapshot(
        groups=(),
        server=server,
        checked_at=since,
        failures=dict.fromkeys(PATHS, reason),
        freshness=Unknown(since, reason),
    )


def freshness_of(column: Column) -> Current | Stale | Unknown:
    """Return the freshness of a column, as that of a snapshot."""
    match column.freshness:
        case Freshness.CURRENT:
            return Current()
        case Freshness.STALE:
            return Stale(since_of(column), column.reason)
        case _:
            return Unknown(since_of(column), column.reason)


def since_of(column: Column) -> datetime:
    """Return since when a column has its state; now where that is not known."""
    try:
        return datetime.fromisoformat(column.since).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
