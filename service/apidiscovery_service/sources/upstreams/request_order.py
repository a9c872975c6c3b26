"""The order of requests to the servers of one process: discovery first, then details.

Details are the unaggregated lists and the dialect of a server: about forty requests, while
discovery takes two.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

DETAILS_AT_ONCE = 8
"""Servers whose details are requested at the same time.

A thousand servers at once would take all connections, and none would answer in time.
"""

FIRST_ROUNDS_AT_ONCE = 32
"""First rounds of discovery at the same time.

A thousand at once would exceed the time limit of an exchange, and begin again. A server that hangs
keeps its turn for the time of one exchange, so the number must not be too small either. Later
rounds are spread over the poll interval, and no server waits for another.
"""


class RequestOrder:
    """Limits requests for details, which begin after the first round of every server.

    Servers are compared by identity.
    """

    def __init__(self) -> None:
        self._first_rounds = asyncio.Semaphore(FIRST_ROUNDS_AT_ONCE)
        self._free = asyncio.Semaphore(DETAILS_AT_ONCE)
        self._beginning: set[object] = set()
        self._all_begun = asyncio.Event()
        self._all_begun.set()

    def begin(self, server: object) -> None:
        """Have details wait until the first round of a server has ended."""
        self._beginning.add(server)
        self._all_begun.clear()

    def end(self, server: object) -> None:
        """Stop waiting for the first round of a server."""
        self._beginning.discard(server)
        if not self._beginning:
            self._all_begun.set()

    @asynccontextmanager
    async def discovery(self, server: object) -> AsyncGenerator[None]:
        """Wait for the turn of a server, if this is its first round; the block is the round."""
        if server not in self._beginning:
            yield
            return
        async with self._first_rounds:
            yield
        self.end(server)

    @asynccontextmanager
    async def details(self, within_s: float) -> AsyncGenerator[bool]:
        """Yield whether the turn of a server came in time; the turn ends with the block."""
        try:
            async with asyncio.timeout(within_s):
                await self._all_begun.wait()
                await self._free.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            self._free.release()
