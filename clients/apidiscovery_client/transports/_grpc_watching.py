"""Follows one server through any number of watches: when to go on, when to give up, what to tell.

Source for going on elsewhere with known hashes: discovery.proto `WatchDiscovery`.
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
LONGEST_ASKED_S = 60.0  # when the server says for how long
STEADY_S = 5.0  # a watch that has lasted for so long was a good one

# How a watch ends over which nothing comes for too long.
SILENCE = grpc.StatusCode.DEADLINE_EXCEEDED

# What asking again does not heal.
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
    """How long to wait for what, in seconds.

    Attributes:
        heartbeat_s: The longest silence that is asked for; after twice that the connection is
            taken for dead. Servers of ours take 1 to 3600.
        unreachable_s: How long a server may be away until that is told.
    """

    heartbeat_s: float = 30.0
    unreachable_s: float = 30.0

    @property
    def silence_s(self) -> float:
        """How long nothing may come over a connection that lives."""
        return 2 * self.heartbeat_s


class Watching:
    """What is held, and how the last watches ended.

    Args:
        fetched: To begin with.
        server: Who is asked.
        patience: How long to wait for what.
    """

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
        """Return the hashes with which to begin another watch."""
        self._begun = time.monotonic()
        self._answered = False
        known = None if self._from_nothing else known_hashes(self._fetched)
        self._base = self._fetched if known is not None else None
        return known or {}

    def taking(self, answer: Answer) -> Flow:
        """Take in a message; the result is what is held now, and the server is there.

        Raises:
            InconsistentError: It makes no sense; `misfit` is to be called.
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
        """Return how long to wait before another watch, which is to begin from nothing.

        Raises:
            UnexpectedDocument: This one has done so.
        """
        if self._base is None:
            raise UnexpectedDocument(str(problem), url=self._server.address, method=WATCH)
        self._from_nothing = True
        return self.lost(plain_failure(grpc.StatusCode.ABORTED, str(problem)))

    def lost(self, failed: Failure) -> float:
        """Return how long to wait in seconds before another watch.

        Raises:
            ServerUnreachable: Nothing is held that could be told, and no answer comes.
            CallRefused: For a reason that waiting does not heal.
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
        """Yield what is held as stale, once, when the server has been away for long."""
        if self._fetched is None or self._away_since is None or self._told:
            return
        away_s = time.monotonic() - self._away_since
        if away_s < self.patience.unreachable_s:
            return
        self._told = True
        since = datetime.fromtimestamp(time.time() - away_s, UTC)
        snapshot = replace(self._fetched.snapshot, freshness=Stale(since, self._why))
        yield replace(self._fetched, snapshot=snapshot)

    def _wait_s(self, failed: Failure) -> float:
        if self._fetched is None:
            wait_s = retry_wait_s(failed, self._failures)
            if wait_s is None:
                raise self._error(failed)
            return wait_s
        longest_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures, 30))
        # Not all at once, when a server comes back to many.
        wait_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311 - no secret
        return max(wait_s, min(refusal(failed).retry_after_s or 0.0, LONGEST_ASKED_S))

    def _error(self, failed: Failure) -> Exception:
        return discovery_error(WATCH, self._server.address, failed, self.patience.silence_s)


def silent(patience: Patience) -> Failure:
    """Return the end of a watch over which nothing came for too long."""
    said = f"no message for {patience.silence_s:g} s"
    return plain_failure(SILENCE, said, is_broken=True)


def ended() -> Failure:
    """Return the end of a watch that the server ended without an error, which it should not."""
    said = "the server ended the watch"
    return plain_failure(grpc.StatusCode.UNAVAILABLE, said)
