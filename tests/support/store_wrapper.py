"""Stores that wrap another one, and with which tests interfere."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from apidiscovery_service.store import Batch, Entry, Guards, Lease, Listing, Store, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore

Disturbance = Callable[[str, str], Awaitable[None]]
"""Called with the name of an operation and its key or prefix. It may raise."""


class StoreWrapper:
    """Forwards every operation.

    Attributes:
        store: The wrapped store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    async def disturb(self, operation: str, key: str) -> None:
        """Run before every operation but `watch` and `close`; it may raise."""

    async def get(self, key: str) -> Entry | None:
        await self.disturb("get", key)
        return await self.store.get(key)

    async def list(self, prefix: str) -> Listing:
        await self.disturb("list", prefix)
        return await self.store.list(prefix)

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        await self.disturb("put", key)
        return await self.store.put(key, value, expected=expected, guard=guard, lease=lease)

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        await self.disturb("delete", key)
        return await self.store.delete(key, expected=expected, guard=guard)

    def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        return self.store.watch(prefix, after)

    async def lease(self, ttl_s: float) -> Lease:
        await self.disturb("lease", "")
        return await self.store.lease(ttl_s)

    async def close(self) -> None:
        await self.store.close()


class DisturbedStore(StoreWrapper):
    """A store with hooks, which may fail, around every operation.

    Attributes:
        before: Called before each operation; None for no hook.
        after: Called after each successful write; None for no hook.
        puts: Keys that were written, in order.
        reads: Keys and prefixes that were read, in order.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.before: Disturbance | None = None
        self.after: Disturbance | None = None
        self.puts: list[str] = []
        self.reads: list[str] = []

    async def disturb(self, operation: str, key: str) -> None:
        if self.before is not None:
            await self.before(operation, key)
        if operation in ("get", "list"):
            self.reads.append(key)

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        entry = await super().put(key, value, expected=expected, guard=guard, lease=lease)
        self.puts.append(key)
        if self.after is not None:
            await self.after("put", key)
        return entry

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        is_removed = await super().delete(key, expected=expected, guard=guard)
        if self.after is not None:
            await self.after("delete", key)
        return is_removed


class InterruptedStore(StoreWrapper):
    """A store whose watches break on demand, and whose reads may fail.

    Attributes:
        away: Whether lists and watches fail.
        read: Set by a list or a watch.
        watched: Set by a watch.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.away = False
        self.read = asyncio.Event()
        self.watched = asyncio.Event()
        self._interruption = asyncio.Event()

    async def disturb(self, operation: str, key: str) -> None:
        del key
        if operation == "list":
            self._reach()

    def _reach(self) -> None:
        self.read.set()
        if self.away:
            raise StoreUnavailable("no route to host")

    async def interrupt(self) -> None:
        """Break all watches, and wait for the next list or watch."""
        self.read.clear()
        self.break_watches()
        await self.read.wait()

    def break_watches(self) -> None:
        """Break all watches."""
        interruption, self._interruption = self._interruption, asyncio.Event()
        interruption.set()

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        self._reach()
        self.watched.set()
        stop = asyncio.ensure_future(self._interruption.wait())
        async with aclosing(self.store.watch(prefix, after)) as batches:
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


class _LosingStore(MemoryStore):
    def lose(self, key: str) -> None:
        """Remove a key without a write, which watches would report."""
        del self._entries[key]


class RestorableStore(InterruptedStore):
    """A store in memory that can be restored from a backup, as etcd can, while others follow it.

    Attributes:
        behind: The store in use.
    """

    def __init__(self) -> None:
        self._first = _LosingStore()
        self.behind: MemoryStore = self._first
        super().__init__(self._first)

    async def restore(self, backup: MemoryStore) -> None:
        """Replace the store by a backup once it is watched; its watches break."""
        await self.watched.wait()
        self.store = self.behind = backup
        self.break_watches()

    async def lose(self, key: str) -> None:
        """Restore a backup that lacks just this key."""
        self._first.lose(key)
        await self.restore(self._first)


def once(operation: str, key: str, action: Callable[[], Awaitable[object]]) -> Disturbance:
    """Return a disturbance that acts before the first such operation."""
    pending = [True]

    async def before(current: str, at: str) -> None:
        if (current, at) == (operation, key) and pending:
            pending.clear()
            await action()

    return before


def failing(operation: str, prefix: str, error: Exception | None = None) -> Disturbance:
    """Return a disturbance that makes every such operation below a prefix fail."""

    async def before(current: str, at: str) -> None:
        if current == operation and at.startswith(prefix):
            raise error or StoreUnavailable(f"{operation} {at} fails, as the test wants")

    return before
