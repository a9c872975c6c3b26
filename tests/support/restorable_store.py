"""A store that can be put back to a backup, as an etcd can, while others follow it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from apidiscovery_service.store import Batch, Entry, Guards, Lease, Listing, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore


class _LosingStore(MemoryStore):
    def lose(self, key: str) -> None:
        """Have something be gone without a write, which would be told."""
        del self._entries[key]


class RestorableStore:
    """Stands before a store in memory.

    Attributes:
        behind: Where everything is now.
    """

    def __init__(self) -> None:
        self._first = _LosingStore()
        self.behind: MemoryStore = self._first
        self._interrupted = asyncio.Event()
        self._watched = asyncio.Event()

    async def restore(self, backup: MemoryStore) -> None:
        """Let the backup take the place of what was there; watches, once there are some, break."""
        await self._watched.wait()
        self.behind = backup
        self._interrupted.set()
        self._interrupted = asyncio.Event()

    async def lose(self, key: str) -> None:
        """Restore a backup that differs in one key alone, which is not in it."""
        self._first.lose(key)
        await self.restore(self._first)

    async def get(self, key: str) -> Entry | None:
        return await self.behind.get(key)

    async def list(self, prefix: str) -> Listing:
        return await self.behind.list(prefix)

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        return await self.behind.put(key, value, expected=expected, guard=guard, lease=lease)

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        return await self.behind.delete(key, expected=expected, guard=guard)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        self._watched.set()
        stop = asyncio.ensure_future(self._interrupted.wait())
        async with aclosing(self.behind.watch(prefix, after)) as batches:
            while True:
                batch = asyncio.ensure_future(anext(batches))
                try:
                    await asyncio.wait((batch, stop), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if stop.done() or not batch.done():
                        batch.cancel()
                        await asyncio.gather(batch, return_exceptions=True)
                if stop.done():
                    raise StoreUnavailable("connection reset")
                yield batch.result()

    async def lease(self, ttl_s: float) -> Lease:
        return await self.behind.lease(ttl_s)

    async def close(self) -> None:
        await self.behind.close()
