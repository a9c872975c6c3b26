"""The state of a watch over reconnections: when to continue, when to give up.

Source for continuing at another server with known hashes: discovery.proto `WatchDiscovery`.
"""

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import grpc

from apidiscovery_client._errors import UnexpectedDocument
from apidiscovery_client._grpc.calls import GrpcServer, retry_wait_s
from apidiscovery_client._grpc.errors import Failure, discovery_error, plain_failure, refusal
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client.model import Stale
from apidiscovery_client.transports._grpc_answers import Answer, InconsistentError, known_hashes
from apidiscovery_client.transports._grpc_flow import Flow, check
from apidiscovery_client.transports._grpc_flow import taking as taking_in

WATCH = "WatchDiscovery"

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 10.0
LONGEST_ASKED_S = 60.0  # when the server states a pause
STEADY_S = 5.0  # a watch of this duration resets the backoff

# The status of a watch without messages for too long.
SILENCE = grpc.StatusCode.DEADLINE_EXCEEDED

# Errors that a retry does not resolve.
_FINAL = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


@dataclass(frozen=True, slots=True)
class Patience:
    """The timeouts of a watch in seconds.

    Attributes:
        heartbeat_s: The requested interval of heartbeats; after twice that the connection counts
            as dead. Our servers accept 1 to 3600.
        unreachable_s: How long a server may be unreachable before the snapshot is stale.
    """

    heartbeat_s: float = 30.0
    unreachable_s: float = 30.0

    @property
    def silence_s(self) -> float:
        """How long a live connection may be silent."""
        return 2 * self.heartbeat_s


class Watching:
    """The snapshot, and how the last watches ended."""

    def __init__(
        self, fetched: FetchedSnapshot | None, server: GrpcServer, patience: Patience
    ) -> None:
        self.patience = patience
        self._fetched = fetched
        self._server = server
        self._base: FetchedSnapshot | None = None
        self._from_nothing = False
        self._failures = 0
        self._begun = 0.0
        self._heard = time.monotonic()
        self._answered = False
        self._away_since: float | None = None
        self._told = False
        self._why = ""

    def begin(self) -> Mapping[str, str]:
        """Return the known hashes for a new watch."""
        self._begun = time.monotonic()
        self._answered = False
        known = None if self._from_nothing else known_hashes(self._fetched)
        self._base = self._fetched if known is not None else None
        return known or {}

    def taking(self, answer: Answer) -> Flow:
        """Apply a message; the result is the new snapshot.

        Raises:
            InconsistentError: It is inconsistent; call `misfit`.
        """
        is_first, self._answered = not self._answered, True
        if is_first and self._base is not None:
            check(answer, self._base)
        fetched = yield from taking_in(
            answer, self._server.address, base=self._base, before=self._fetched
        )
        self._fetched = self._base = fetched
        self._from_nothing = False
        self._heard = time.monotonic()
        self._away_since, self._told = None, False
        return fetched

    def misfit(self, problem: InconsistentError) -> float:
        """Return the pause before a new watch, which requests everything.

        Raises:
            UnexpectedDocument: This one has requested everything already.
        """
        if self._base is None:
            raise UnexpectedDocument(str(problem), url=self._server.address, method=WATCH)
        self._from_nothing = True
        return self.lost(plain_failure(grpc.StatusCode.ABORTED, str(problem)))

    def lost(self, failed: Failure) -> float:
        """Return the pause in seconds before a new watch.

        Raises:
            ServerUnreachable: There is no answer and no snapshot.
            CallRefused: A refusal that waiting does not resolve.
        """
        now = time.monotonic()
        if failed.code in _FINAL or failed.is_too_large:
            raise self._error(failed)
        if self._answered and now - self._begun > STEADY_S:
            self._failures = 0
        wait_s = self._wait_s(failed)
        self._failures += 1
        if self._away_since is None:
            self._away_since = self._heard if failed.code == SILENCE else now
        self._why = str(self._error(failed))
        return wait_s

    def overdue(self) -> Iterator[FetchedSnapshot]:
        """Yield the snapshot as stale, once, when the server is unreachable for too long."""
        if self._fetched is None or self._away_since is None or self._told:
            return
        away_s = time.monotonic() - self._away_since
        if away_s < self.patience.unreachable_s:
            return
        self._told = True
        since = datetime.fromtimestamp(time.time() - away_s, UTC)
        snapshot = replace(self._fetched.snapshot, freshness=Stale(since, self._why, retained=True))
        yield replace(self._fetched, snapshot=snapshot)

    def _wait_s(self, failed: Failure) -> float:
        if self._fetched is None:
            wait_s = retry_wait_s(failed, self._failures)
            if wait_s is None:
                raise self._error(failed)
            return wait_s
        longest_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures, 30))
        # With jitter, so that clients do not reconnect at the same time.
        wait_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311 - no secret
        return max(wait_s, min(refusal(failed).retry_after_s or 0.0, LONGEST_ASKED_S))

    def _error(self, failed: Failure) -> Exception:
        return discovery_error(WATCH, self._server.address, failed, self.patience.silence_s)


def silent(patience: Patience) -> Failure:
    """Return the failure of a watch without messages for too long."""
    said = f"no message for {patience.silence_s:g} s"
    return plain_failure(SILENCE, said, is_broken=True)


def ended() -> Failure:
    """Return the failure of a watch that the server ended without an error."""
    said = "the server ended the watch"
    return plain_failure(grpc.StatusCode.UNAVAILABLE, said)
