"""The state of both clients, without I/O: what is known of a server, and when to ask it.

The server is asked in numbered attempts, one at a time. A caller that needs an answer gets the
number of the attempt whose answer is new enough: the running one, or the next, which it shares with
all callers that arrive in the meantime. Reading the cache is attempt 0.
"""

import contextlib
import threading
from collections.abc import Generator, Hashable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from apidiscovery_client._errors import (
    RequestRefused,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._package import Log
from apidiscovery_client._sans_io.options import ClientOptions, Clock
from apidiscovery_client.model import PATHS, Snapshot, Stale, Unknown, Version

if TYPE_CHECKING:  # made when the first name is resolved
    from apidiscovery_client.resolving import Resolver

logger = Log()

FROM_CACHE = 0


@dataclass(frozen=True, slots=True)
class _Outage:
    """A time in which the server does not answer.

    Attributes:
        retry_at: On the monotonic clock.
    """

    error: Exception
    stale: Stale
    attempts: int
    retry_at: float


@dataclass(frozen=True, slots=True)
class _Watch:
    """A caller that reads changes.

    Attributes:
        silence_s: How long after the last answer or heartbeat the snapshot counts as current.
        is_pushed: Whether the server pushes changes.
    """

    silence_s: float
    is_pushed: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request for discovery.

    Attributes:
        began: On the monotonic clock; the answer is as old as that.
    """

    number: int
    began: float


class ClientState:
    """Knows the snapshot, its age, and which names were not found. Threads may share it.

    Attributes:
        begun: The number of the last attempt that has begun.
        ended: The number of the last attempt that has ended.
        fetched: The last result of the transport.
        latest: Its snapshot, stale when the server does not answer.
    """

    def __init__(
        self, server: str, options: ClientOptions, clock: Clock, *, has_cache: bool
    ) -> None:
        self.server = server
        self.clock = clock
        self.begun = self.ended = FROM_CACHE - 1 if has_cache else FROM_CACHE
        self.fetched: FetchedSnapshot | None = None
        self.latest: Snapshot | None = None
        self._options = options
        self._lock = threading.RLock()
        self._checked = float("-inf")  # when the attempt began by which `fetched` is known to be so
        self._running: Attempt | None = None
        self._outage: _Outage | None = None
        self._misses: dict[Hashable, float] = {}
        self._watches: list[_Watch] = []
        self._resolver: tuple[Snapshot, Resolver] | None = None
        self._saved: FetchedSnapshot | None = None
        self._is_saving = False
        self._is_closed = False

    # ----------------------------------------------------------------------------------------------
    # Which attempt to wait for.

    def attempt_for_age(self, max_age_s: float | None) -> int | None:
        """Return the attempt that makes the snapshot new enough; None when none is needed.

        None is also returned while the server does not answer and it is too early to ask again.

        Args:
            max_age_s: None for that of the options. With 0 only the answer to a request that is
                sent from now on is new enough.
        """
        with self._lock:
            limit_s = self._usual_age_s() if max_age_s is None else max_age_s
            if limit_s > 0 and self._is_watched(usual=max_age_s is None):
                return None
            return self._attempt_within(limit_s)

    def attempt_for_miss(self, missed: Hashable) -> int | None:
        """Return the attempt that may find what is not in the snapshot; None for none."""
        with self._lock:
            now = self.clock.monotonic()
            known_until = self._misses.get(missed)
            if (known_until is not None and now < known_until) or self._is_watched(usual=True):
                return None
            return self._attempt_within(self._options.miss_recheck_s)

    def _attempt_within(self, limit_s: float) -> int | None:
        now = self.clock.monotonic()
        if now - self._checked < limit_s:
            return None
        if self._running is not None and now - self._running.began < limit_s:
            return self._running.number
        outage = self._outage
        if (
            limit_s > 0
            and self.fetched is not None
            and outage is not None
            and now < outage.retry_at
        ):
            return None
        return self.begun + 1

    def _usual_age_s(self) -> float:
        if self.latest is None or any(version.stated_freshness for version in self.latest.versions):
            return self._options.max_age_s
        return self._options.unaggregated_max_age_s

    def _is_watched(self, *, usual: bool) -> bool:
        if self._outage is not None or self.fetched is None:
            return False
        age_s = self.clock.monotonic() - self._checked
        return any(age_s < w.silence_s for w in self._watches if usual or w.is_pushed)

    @contextlib.contextmanager
    def watched(self, silence_s: float, *, is_pushed: bool) -> Generator[None]:
        """Answer from the snapshot, without requests, while a watch keeps it current."""
        watch = _Watch(silence_s, is_pushed)
        with self._lock:
            self._watches.append(watch)
        try:
            yield
        finally:
            with self._lock:
                self._watches.remove(watch)

    # ----------------------------------------------------------------------------------------------
    # Results of attempts.

    def begin(self) -> Attempt:
        """Begin the next attempt."""
        with self._lock:
            self.begun += 1
            self._running = Attempt(self.begun, self.clock.monotonic())
            return self._running

    def end(self, attempt: Attempt) -> None:
        """End an attempt, whatever its result."""
        with self._lock:
            self.ended = attempt.number
            self._running = None

    def give_up(self, attempt: Attempt) -> None:
        """Let a waiting caller repeat an attempt that was cancelled."""
        with self._lock:
            self.begun = attempt.number - 1
            self._running = None

    def found(self, fetched: FetchedSnapshot | None) -> None:
        """Use the content of the cache, which states its age."""
        if fetched is None:
            return
        age_s = (self.clock.now() - fetched.snapshot.checked_at).total_seconds()
        # A time in the future does not tell the age, and content without ETags is not proven to be
        # the server's.
        is_aged = age_s >= 0 and ("" in fetched.etags or fetched.etags.keys() >= set(PATHS))
        checked = self.clock.monotonic() - age_s if is_aged else float("-inf")
        with self._lock:
            self._take(fetched, checked)
            self._saved = fetched

    def arrived(self, fetched: FetchedSnapshot, began: float) -> bool:
        """Use the answer to a request that was sent at that time.

        Returns:
            False where the server has pushed another state meanwhile: which of the two is newer
            is not known, so the server must be asked again.
        """
        with self._lock:
            if began < self._checked and self.fetched is not None:
                if fetched.snapshot.groups != self.fetched.snapshot.groups:
                    return False
                began = self._checked
            self._answered(fetched, began)
            return True

    def heard(self, fetched: FetchedSnapshot, last: FetchedSnapshot) -> bool:
        """Use a state that the server has pushed.

        Args:
            fetched: The state.
            last: The one before it, or the one that the stream began with.

        Returns:
            False where the snapshot is neither of them meanwhile: which is newer is not known, so
            the server must be asked.
        """
        with self._lock:
            if self.fetched is not None and _outage_of(fetched.snapshot) is None:
                known = self.fetched.snapshot.groups
                if known not in (last.snapshot.groups, fetched.snapshot.groups):
                    return False
            self._answered(fetched, self.clock.monotonic())
            return True

    def _answered(self, fetched: FetchedSnapshot, checked: float) -> None:
        outage = _outage_of(fetched.snapshot)
        if outage is not None:
            self.failed(ServerUnreachable(outage.reason, url=self.server))
            return
        if self._outage is not None:
            logger.info("%s answers again", self.server)
            self._outage = None
        self._take(fetched, checked)

    def _take(self, fetched: FetchedSnapshot, checked: float) -> None:
        before, after = self.latest, fetched.snapshot
        self.fetched, self.latest, self._checked = fetched, after, checked
        _log_age(before, after)
        if before is not None and before.groups == after.groups:
            return
        self._misses.clear()
        _log_troubles(before, after)

    def failed(self, error: Exception) -> None:
        """Record that the server did not answer, or not usefully."""
        with self._lock:
            if self._is_closed:
                return
            count = self._outage.attempts + 1 if self._outage else 1
            stale = self._stale(error)
            if self._outage is None and self.fetched is not None:
                use = "what it said last is used" if _is_outage(error) else "it cannot be asked"
                logger.warning("%s does not answer, %s: %s", self.server, use, error)
            pause_s = self._options.first_retry_s * 2 ** min(count - 1, 30)
            retry_at = self.clock.monotonic() + min(pause_s, self._options.longest_retry_s)
            self._outage = _Outage(error, stale, count, retry_at)
            if self.latest is not None:
                self.latest = replace(self.latest, freshness=stale)

    def _stale(self, error: Exception) -> Stale:
        """Return the freshness of the snapshot: the same during all of an outage.

        The reason changes when a server that refused us is unreachable, or the reverse.
        """
        outage = self._outage
        if outage is None:
            return Stale(self.clock.now(), _line(error), retained=True)
        if _is_outage(outage.error) == _is_outage(error):
            return outage.stale
        return Stale(outage.stale.since, _line(error), retained=True)

    def missed(self, name: Hashable) -> None:
        """Remember for a while that a name is not served, if the server answered just now."""
        with self._lock:
            if self._outage is not None:
                return
            self._misses.pop(name, None)
            while len(self._misses) >= self._options.negative_names:
                del self._misses[next(iter(self._misses))]
            self._misses[name] = self.clock.monotonic() + self._options.negative_ttl_s

    def close(self) -> None:
        """Log no more failures."""
        self._is_closed = True

    # ----------------------------------------------------------------------------------------------
    # Answers.

    @property
    def error(self) -> Exception | None:
        """Return why the last attempt failed; None when it did not."""
        outage = self._outage
        return outage.error if outage else None

    def answer(self) -> Snapshot:
        """Return the latest snapshot.

        Raises:
            DiscoveryError: There is none, or the server refuses to talk to us.
        """
        with self._lock:
            error = self.error
            if error is not None and (self.latest is None or not _is_outage(error)):
                raise error.with_traceback(None)
            if self.latest is None:
                raise ServerUnreachable("the question was given up", url=self.server)
            return self.latest

    def resolver(self, snapshot: Snapshot) -> "Resolver":
        """Return the resolver of that snapshot."""
        from apidiscovery_client.resolving import Resolver  # noqa: PLC0415 - not all need it

        made = self._resolver
        if made is None or made[0] is not snapshot:
            made = self._resolver = (snapshot, Resolver(snapshot))
        return made[1]

    def unsaved(self) -> FetchedSnapshot | None:
        """Return what should be written to the cache, once; None when the cache is good enough.

        That is after each change, and when the last check is newer by `save_interval_s`. A snapshot
        with `failures` is not written. Nothing else is returned until `saved` is called: of two
        writers at a time, the one with the older snapshot might be the last.
        """
        with self._lock:
            fetched, saved = self.fetched, self._saved
            if fetched is None or fetched.snapshot.failures or self._is_saving:
                return None
            if saved is not None and _says_the_same(saved.snapshot, fetched.snapshot):
                moved = fetched.snapshot.checked_at - saved.snapshot.checked_at
                if abs(moved) <= timedelta(seconds=self._options.save_interval_s):
                    return None
            self._saved, self._is_saving = fetched, True
            return fetched

    def saved(self) -> None:
        """Record that writing to the cache has ended."""
        self._is_saving = False


def _is_outage(error: Exception) -> bool:
    """Whether earlier answers may be used instead.

    401 and 403 are never hidden behind cached data.
    """
    if isinstance(error, RequestRefused):
        return not error.is_of_the_caller
    return isinstance(error, ServerUnreachable | UnexpectedDocument)


def _outage_of(snapshot: Snapshot) -> Stale | None:
    """Return since when and why the server does not answer; None where it does."""
    freshness = snapshot.freshness
    return freshness if isinstance(freshness, Stale) and freshness.retained else None


def _old_answer(snapshot: Snapshot | None) -> Stale | None:
    """Return since when and why the server marks its answers as old; None where it does not."""
    freshness = snapshot.freshness if snapshot else None
    return freshness if isinstance(freshness, Stale) and not freshness.retained else None


def _says_the_same(before: Snapshot, after: Snapshot) -> bool:
    return before.groups is after.groups and before.freshness == after.freshness


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _log_age(before: Snapshot | None, after: Snapshot) -> None:
    """Log that the server's answer is an old one, and that it is current again."""
    was_old, is_old = _old_answer(before), _old_answer(after)
    if is_old and not was_old:
        logger.warning("%s answers with an old state: %s", after.server, is_old.reason)
    elif was_old and not is_old:
        logger.info("%s is current again", after.server)


def _log_troubles(before: Snapshot | None, after: Snapshot) -> None:
    """Log versions that became stale or unknown, and those that are current again."""
    old = {version.gv: version for version in before.troubled} if before else {}
    new = {version.gv: version for version in after.troubled}
    for gv, version in new.items():
        if gv not in old:
            logger.warning("%s: %s", after.server, _trouble(version))
    for gv in old:
        if gv not in new and after.version(gv) is not None:
            logger.info("%s: %s is current again", after.server, gv)


def _trouble(version: Version) -> str:
    freshness = version.freshness
    if isinstance(freshness, Unknown):
        return f"the resources of {version.gv} are unknown: {freshness.reason}"
    reason = freshness.reason if isinstance(freshness, Stale) else ""
    return f"{version.gv} is stale, what was known of it last is used: {reason}"
