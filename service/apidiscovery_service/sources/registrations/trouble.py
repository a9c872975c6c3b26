"""Whether the store does what it is asked, noted as it is used."""

import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager

import structlog

from apidiscovery_service.sources.registrations.objects import timestamp
from apidiscovery_service.storage import (
    Batch,
    Entry,
    Guards,
    Lease,
    Listing,
    Store,
    StoreRefused,
    StoreUnavailable,
)

_CALLS = "the last request failed"
_WATCH = "changes cannot be followed"

_log = structlog.get_logger(__name__)


class Trouble:
    """What is wrong with a store now; logged when it changes, however often it is asked.

    Args:
        clock: Unix time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # Since when, and the last error, by what is wrong.
        self._wrong: dict[str, tuple[str, str]] = {}

    def warnings(self) -> list[str]:
        """Return a line for each thing that is wrong."""
        return [
            f"store: {what}: {error}, since {since}" for what, (since, error) in self._wrong.items()
        ]

    @contextmanager
    def asking(self) -> Generator[None]:
        """Note how a request to the store ends."""
        try:
            yield
        except (StoreUnavailable, StoreRefused) as error:
            self._fails(_CALLS, error)
            raise
        self._works(_CALLS)

    def cannot_follow(self, error: StoreUnavailable | StoreRefused) -> None:
        """Note that changes do not come any more."""
        self._fails(_WATCH, error)

    def follows(self) -> None:
        """Note that changes come."""
        self._works(_WATCH)

    def _fails(self, what: str, error: StoreUnavailable | StoreRefused) -> None:
        since, before = self._wrong.get(what, (timestamp(self._clock()), ""))
        self._wrong[what] = (since, str(error))
        if not before:
            _log.warning(f"store: {what}", error=str(error), kind=type(error).__name__)

    def _works(self, what: str) -> None:
        if self._wrong.pop(what, None):
            _log.info(f"store: no longer so: {what}")


class ObservedStore:
    """A store, with what goes wrong in it noted."""

    def __init__(self, store: Store, trouble: Trouble) -> None:
        self._store = store
        self._trouble = trouble

    async def get(self, key: str) -> Entry | None:
        """As of a store."""
        with self._trouble.asking():
            return await self._store.get(key)

    async def list(self, prefix: str) -> Listing:
        """As of a store."""
        with self._trouble.asking():
            return await self._store.list(prefix)

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
        with self._trouble.asking():
            return await self._store.put(key, value, expected=expected, guard=guard, lease=lease)

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        """As of a store."""
        with self._trouble.asking():
            return await self._store.delete(key, expected=expected, guard=guard)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        """As of a store."""
        async with aclosing(self._store.watch(prefix, after)) as batches:
            async for batch in batches:
                self._trouble.follows()
                yield batch

    async def lease(self, ttl_s: float) -> Lease:
        """As of a store."""
        with self._trouble.asking():
            return await self._store.lease(ttl_s)

    async def close(self) -> None:
        """As of a store."""
        await self._store.close()
