"""A wrapper of a store that records its failures and the age of its last news."""

import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from apidiscovery_service.metrics import StoreMetrics
from apidiscovery_service.store import (
    NEWS_EVERY_S,
    Batch,
    Compacted,
    Conflict,
    Entry,
    Fenced,
    Guards,
    Lease,
    Listing,
    Store,
    StoreDamaged,
    StoreError,
)

_READING, _WRITING, _LEASES, _FOLLOWING = "reading", "writing", "leases", "following"

# Without news for so long, a warning is due: two empty batches are missing.
LATE_S = 2.5 * NEWS_EVERY_S

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Failures:
    """Consecutive failed requests of one kind."""

    since: str
    count: int
    error: StoreError


class ObservedStore:
    """A store that records its failures: for warnings, the log, metrics and readiness.

    Each kind of request counts alone: reads may succeed while writes fail.

    Args:
        store: The wrapped store.
        metrics: Counts the failures.
        clock: Returns Unix time in seconds.
    """

    def __init__(
        self,
        store: Store,
        metrics: StoreMetrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._failing: dict[str, _Failures] = {}
        self._damage = ""
        # Monotonic time of the last news by prefix.
        self._news_at: dict[str, float] = {}
        if metrics is not None:
            metrics.news_age.set_function(self.news_age_s)

    def news_age_s(self) -> float:
        """Return the age in seconds of the oldest last news of all followed prefixes."""
        now = time.monotonic()
        return max((now - at for at in self._news_at.values()), default=0.0)

    def warnings(self) -> list[str]:
        """Return a line for each current problem."""
        lines = [
            f"store: {what} fails, {failures.count} times since {failures.since}: {failures.error}"
            for what, failures in self._failing.items()
        ]
        if self._damage:
            lines.append(f"store: damaged: {self._damage}")
        if (age_s := self.news_age_s()) > LATE_S:
            lines.append(
                f"store: no news for {age_s:.0f} s: what was written since then may not be served"
            )
        return lines

    def damage(self) -> str | None:
        """Return the last damage found since the start, for readiness; None if none."""
        return self._damage or None

    async def get(self, key: str) -> Entry | None:
        """See `Store`."""
        with self._recording(_READING):
            return await self._store.get(key)

    async def list(self, prefix: str) -> Listing:
        """See `Store`."""
        with self._recording(_READING):
            listing = await self._store.list(prefix)
        if prefix in self._news_at:
            self._news_at[prefix] = time.monotonic()
        return listing

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        """See `Store`."""
        with self._recording(_WRITING):
            return await self._store.put(key, value, expected=expected, guard=guard, lease=lease)

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        """See `Store`."""
        with self._recording(_WRITING):
            return await self._store.delete(key, expected=expected, guard=guard)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        """See `Store`."""
        self._news_at.setdefault(prefix, time.monotonic())
        try:
            async with aclosing(self._store.watch(prefix, after)) as batches:
                async for batch in batches:
                    self._news_at[prefix] = time.monotonic()
                    self._works(_FOLLOWING)
                    yield batch
        except StoreError as error:
            self._fails(_FOLLOWING, error)
            raise

    async def lease(self, ttl_s: float) -> Lease:
        """See `Store`."""
        with self._recording(_LEASES):
            return await self._store.lease(ttl_s)

    async def close(self) -> None:
        """See `Store`."""
        await self._store.close()

    @contextmanager
    def _recording(self, what: str) -> Generator[None]:
        """Record how a request ends."""
        try:
            yield
        except StoreError as error:
            self._fails(what, error)
            raise
        except (Conflict, Fenced, Compacted):
            self._works(what)
            raise
        self._works(what)

    def _fails(self, what: str, error: StoreError) -> None:
        now = datetime.fromtimestamp(self._clock(), UTC)
        known = self._failing.get(what) or _Failures(f"{now:%Y-%m-%dT%H:%M:%SZ}", 0, error)
        if known.count == 0 or known.error.reason != error.reason:
            _log.warning(f"store: {what} fails", error=str(error), reason=error.reason)
        self._failing[what] = replace(known, count=known.count + 1, error=error)
        if isinstance(error, StoreDamaged):
            self._damage = str(error)
        if self._metrics is not None:
            self._metrics.failed(what, error.reason)

    def _works(self, what: str) -> None:
        failures = self._failing.pop(what, None)
        if failures is None:
            return
        _log.info(f"store: {what} works again", failures=failures.count, since=failures.since)
        if self._metrics is not None:
            self._metrics.works(what)
