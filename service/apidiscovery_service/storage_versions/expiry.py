"""Removes leases that have expired: observed without a change for their whole duration.

The time is measured here, on one monotonic clock, from the first observation. `renewTime` is never
compared with a clock: another machine wrote it, whose clock may be minutes off.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.storage_versions import leases
from apidiscovery_service.storage_versions.background import (
    Backoff,
    follow_events,
)
from apidiscovery_service.storage_versions.collection import (
    Collection,
    Event,
    StoredObject,
    Unreadable,
)
from apidiscovery_service.store import Conflict, Guard, StoreUnavailable
from apidiscovery_service.waiting import Wakeup, happens_within, run_until_one_ends

# Checks of an unchanged lease within its duration. A check that fails restarts the duration: a
# server could not have renewed either while the store is away.
_CHECKS = 3

# When a sleep takes so much longer than asked for, the whole process was suspended.
_SUSPENDED_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Observation:
    """A lease that has not changed since a moment."""

    revision: int
    duration_s: float
    since: float
    checks: int = 0

    @property
    def next_check(self) -> float:
        return self.since + self.duration_s * (self.checks + 1) / _CHECKS


class ObservedLeases:
    """Leases by name, and since when each is unchanged. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._observed: dict[str, _Observation] = {}

    def observe(self, name: str, revision: int, duration_s: float, now: float) -> None:
        """Note a lease; the time of an unchanged one goes on."""
        before = self._observed.get(name)
        if before is None or before.revision != revision:
            self._observed[name] = _Observation(revision, duration_s, now)

    def has_expired(self, name: str, revision: int) -> bool:
        """Note that a due check found a lease unchanged; return whether it has expired.

        False when another revision has been observed meanwhile.
        """
        observed = self._observed.get(name)
        if observed is None or observed.revision != revision:
            return False
        observed.checks += 1
        return observed.checks >= _CHECKS

    def forget(self, name: str, revision: int | None) -> None:
        """Note that a lease is gone, at this revision or, with None, at any."""
        observed = self._observed.get(name)
        if observed is not None and revision in (None, observed.revision):
            del self._observed[name]

    def restart(self, now: float) -> None:
        """Restart the durations of all leases."""
        for observed in self._observed.values():
            observed.since, observed.checks = now, 0

    def due(self, now: float) -> list[tuple[str, int]]:
        """Return names and revisions of the leases to check, longest overdue first."""
        due = [(seen, name) for name, seen in self._observed.items() if seen.next_check <= now]
        due.sort(key=lambda pair: pair[0].next_check)
        return [(name, seen.revision) for seen, name in due]

    @property
    def next_check(self) -> float:
        """The time of the next check; infinite when there is no lease."""
        return min((seen.next_check for seen in self._observed.values()), default=math.inf)


class LeaseExpiry:
    """Removes expired leases.

    Args:
        collection: The leases.
        monotonic: Monotonic clock in seconds.
    """

    def __init__(
        self, collection: Collection, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._leases = collection
        self._monotonic = monotonic

    async def expire(self, claim: Guard) -> None:
        """Remove each lease that has been unchanged for its duration, until cancelled.

        A lease without a duration, or never renewed, lasts an hour.

        Args:
            claim: The claim of this process; a second process that does the same does no harm.

        Raises:
            Fenced: The claim is lost.
        """
        observed, news = ObservedLeases(), Wakeup()

        def handle(event: Event) -> None:
            name = leases.name(event.object)
            if event.type is EventType.DELETED:
                observed.forget(name, None)
            elif event.type is not EventType.BOOKMARK:
                duration_s = leases.duration_s(event.object)
                observed.observe(name, event.revision, duration_s, self._monotonic())
            news.ring()

        await run_until_one_ends(
            self._remove_expired(observed, news, claim), follow_events(self._leases, handle)
        )

    async def _remove_expired(self, observed: ObservedLeases, news: Wakeup, claim: Guard) -> None:
        backoff = Backoff(0.1, 5.0)
        while True:
            await self._sleep(observed, news)
            try:
                for name, revision in observed.due(self._monotonic()):
                    await self._check(name, revision, observed, claim)
            except StoreUnavailable as error:
                _log.warning("leases cannot be read, their durations restart", error=str(error))
                await backoff.pause()
                observed.restart(self._monotonic())
            else:
                backoff.reset()

    async def _sleep(self, observed: ObservedLeases, news: Wakeup) -> None:
        """Wait until a check is due or there is news."""
        changed = news.next()
        begun = self._monotonic()
        seconds = observed.next_check - begun
        if seconds <= 0:
            return
        has_news = await happens_within(None if seconds == math.inf else seconds, changed.wait())
        now = self._monotonic()
        if not has_news and now - begun > seconds + _SUSPENDED_S:
            _log.warning(
                "process was suspended, durations of leases restart", seconds=now - begun - seconds
            )
            observed.restart(now)

    async def _check(
        self, name: str, revision: int, observed: ObservedLeases, claim: Guard
    ) -> None:
        try:
            lease = await self._leases.read(name)
        except Unreadable:
            lease = None
        if lease is None:
            observed.forget(name, revision)
        elif lease.revision != revision:
            duration_s = leases.duration_s(lease.object)
            observed.observe(name, lease.revision, duration_s, self._monotonic())
        elif observed.has_expired(name, revision):
            await self._remove(lease, claim)
            observed.forget(name, revision)

    async def _remove(self, lease: StoredObject, claim: Guard) -> None:
        fields = {
            "lease": lease.name,
            "holder": leases.holder(lease.object),
            "seconds": leases.duration_s(lease.object),
        }
        try:
            await self._leases.remove(lease, claim)
        except Conflict:
            _log.info("lease was renewed just before its removal", **fields)
        else:
            _log.info("lease has expired", **fields)
