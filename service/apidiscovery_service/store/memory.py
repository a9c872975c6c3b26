"""A store in the memory of the process: for tests, and for servers without durable state."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator

from apidiscovery_service.store import (
    NEWS_EVERY_S,
    Batch,
    Change,
    Compacted,
    Entry,
    Fenced,
    Guards,
    Lease,
    Listing,
    StoreUnavailable,
)
from apidiscovery_service.store.keys import check_conditions, check_size
from apidiscovery_service.waiting import Wakeup, happens_within


class MemoryStore:
    """A store in memory.

    Args:
        history: The number of changes that watches can go back.
    """

    def __init__(self, history: int = 10_000) -> None:
        self._entries: dict[str, Entry] = {}
        self._leased: dict[str, _MemoryLease] = {}
        self._revision = 0
        self._changes: deque[tuple[int, str]] = deque(maxlen=history)
        self._wakeup = Wakeup()
        self._closed = False

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._entries.get(key)

    async def list(self, prefix: str) -> Listing:
        self._check_open()
        keys = sorted(key for key in self._entries if key.startswith(prefix))
        return Listing(tuple(self._entries[key] for key in keys), self._revision)

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        check_size(key, value)
        self._check(key, expected, guard)
        own_lease = self._own(lease)
        if own_lease is not None and own_lease.ended:
            raise Fenced(f"{key}: the lease has ended")
        before = self._entries.get(key)
        revision = self._record(key)
        entry = Entry(key, value, revision, before.created if before else revision)
        self._entries[key] = entry
        self._leased.pop(key, None)
        if own_lease is not None:
            self._leased[key] = own_lease
        return entry

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        self._check(key, expected, guard)
        return self._remove(key)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        yielded_at = time.monotonic()
        while not self._closed:
            changed = self._wakeup.next()
            batch = self._since(prefix, after)
            after = batch.revision
            silent_s = NEWS_EVERY_S - (time.monotonic() - yielded_at)
            if batch.changes or not await happens_within(silent_s, changed.wait()):
                yield batch
                yielded_at = time.monotonic()

    async def lease(self, ttl_s: float) -> Lease:
        self._check_open()
        return _MemoryLease(self, ttl_s)

    async def close(self) -> None:
        self._closed = True
        self._wakeup.ring()

    def end(self, lease: Lease) -> None:
        """Remove the keys of a lease, in order."""
        for key in sorted(key for key, own_lease in self._leased.items() if own_lease is lease):
            self._remove(key)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _check(self, key: str, expected: int | None, guard: Guards) -> None:
        self._check_open()
        check_conditions(key, expected, guard, self._entries.get)

    def _own(self, lease: Lease | None) -> "_MemoryLease | None":
        if lease is None or (isinstance(lease, _MemoryLease) and lease.store is self):
            return lease
        raise ValueError("the lease is of another store")

    def _remove(self, key: str) -> bool:
        self._leased.pop(key, None)
        if self._entries.pop(key, None) is None:
            return False
        self._record(key)
        return True

    def _record(self, key: str) -> int:
        self._revision += 1
        self._changes.append((self._revision, key))
        self._wakeup.ring()
        return self._revision

    def _since(self, prefix: str, after: int) -> Batch:
        forgotten = self._changes[0][0] - 1 if self._changes else 0
        if not forgotten <= after <= self._revision:
            raise Compacted(f"revision {after} is not within {forgotten} and {self._revision}")
        newest_first: dict[str, None] = {}
        for revision, key in reversed(self._changes):
            if revision <= after:
                break
            if key.startswith(prefix):
                newest_first.setdefault(key)
        changes = [Change(key, self._entries.get(key)) for key in reversed(newest_first)]
        return Batch(tuple(changes), self._revision)


class _MemoryLease:
    """A lease that a timer of the event loop ends."""

    def __init__(self, store: MemoryStore, ttl_s: float) -> None:
        self.store = store
        self._ttl_s = ttl_s
        self._revoked = False
        self._begin()

    @property
    def ttl_s(self) -> float:
        return self._ttl_s

    @property
    def ended(self) -> bool:
        # The timer may be late when the loop is busy.
        return self._revoked or time.monotonic() >= self._ends

    async def keep_alive(self) -> bool:
        if self.ended:
            self._end()
            return False
        self._timer.cancel()
        self._begin()
        return True

    async def revoke(self) -> None:
        self._end()

    def _begin(self) -> None:
        self._ends = time.monotonic() + self._ttl_s
        self._timer = asyncio.get_running_loop().call_later(self._ttl_s, self._end)

    def _end(self) -> None:
        self._revoked = True
        self._timer.cancel()
        self.store.end(self)
