"""Locks for those who write to the same API group, in this process."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary


class GroupLocks:
    """Lets one at a time have a group; of different groups nobody waits for another."""

    def __init__(self) -> None:
        # As long as somebody has or wants them.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, groups: Iterable[str]) -> AsyncGenerator[None]:
        """Have all of these groups; whoever has some must not ask for others."""
        async with AsyncExitStack() as stack:
            for group in sorted(set(groups)):  # in one order, lest two wait for each other
                lock = self._locks.setdefault(group, asyncio.Lock())
                await stack.enter_async_context(lock)
            yield
