"""Whether the store does what it is asked and still has news, noted as it is used."""

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

# From when on it is a warning that nothing is heard; two times something should have been.
LATE_S = 2.5 * NEWS_EVERY_S

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Requests of one kind that failed, none between them having succeeded."""

    since: str
    count: int
    error: StoreError


class ObservedStore:
    """A store, with what goes wrong in it noted: for warnings, the log, metrics and readiness.

    One kind of request says nothing of another: reads may succeed while no write does.

    Args:
        store: What is observed.
        metrics: What counts.
        clock: Unix time in seconds.
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
        self._wrong: dict[str, _Trouble] = {}
        self._damage = ""
        # When the watches of each prefix brought the last news, on the monotonic clock.
        self._heard: dict[str, float] = {}
        if metrics is not None:
            metrics.news_age.set_function(self.news_age_s)

    def news_age_s(self) -> float:
        """Return for how many seconds some prefix that is followed has had no news."""
        now = time.monotonic()
        return max((now - heard for heard in self._heard.values()), default=0.0)

    def warnings(self) -> list[str]:
        """Return a line for each thing that is wrong now."""
        lines = [
            f"store: {what} fails, {trouble.count} times since {trouble.since}: {trouble.error}"
            for what, trouble in self._wrong.items()
        ]
        if self._damage:
            lines.append(f"store: damaged: {self._damage}")
        if (age_s := self.news_age_s()) > LATE_S:
            lines.append(
                f"store: no news for {age_s:.0f} s: what was written since then may not be served"
            )
        return lines

    def damage(self) -> str | None:
        """Return what was found damaged since the start, for readiness; None if nothing."""
        return self._damage or None

    async def get(self, key: str) -> Entry | None:
        """As of a store."""
        with self._asking(_READING):
            return await self._store.get(key)

    async def list(self, prefix: str) -> Listing:
        """As of a store."""
        with self._asking(_READING):
            listing = await self._store.list(prefix)
        if prefix in self._heard:
            self._heard[prefix] = time.monotonic()
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
        """As of a store."""
        with self._asking(_WRITING):
            return await self._store.put(key, value, expected=expected, guard=guard, lease=lease)

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        """As of a store."""
        with self._asking(_WRITING):
            return await self._store.delete(key, expected=expected, guard=guard)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        """As of a store."""
        self._heard.setdefault(prefix, time.monotonic())
        try:
            async with aclosing(self._store.watch(prefix, after)) as batches:
                async for batch in batches:
                    self._heard[prefix] = time.monotonic()
                    self._works(_FOLLOWING)
                    yield batch
        except StoreError as error:
            self._fails(_FOLLOWING, error)
            raise

    async def lease(self, ttl_s: float) -> Lease:
        """As of a store."""
        with self._asking(_LEASES):
            return await self._store.lease(ttl_s)

    async def close(self) -> None:
        """As of a store."""
        await self._store.close()

    @contextmanager
    def _asking(self, what: str) -> Generator[None]:
        """Note how a request ends."""
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
        known = self._wrong.get(what) or _Trouble(f"{now:%Y-%m-%dT%H:%M:%SZ}", 0, error)
        if known.count == 0 or known.error.reason != error.reason:
            _log.warning(f"store: {what} fails", error=str(error), reason=error.reason)
        self._wrong[what] = replace(known, count=known.count + 1, error=error)
        if isinstance(error, StoreDamaged):
            self._damage = str(error)
        if self._metrics is not None:
            self._metrics.failed(what, error.reason)

    def _works(self, what: str) -> None:
        trouble = self._wrong.pop(what, None)
        if trouble is None:
            return
        _log.info(f"store: {what} works again", failures=trouble.count, since=trouble.since)
        if self._metrics is not None:
            self._metrics.works(what)
