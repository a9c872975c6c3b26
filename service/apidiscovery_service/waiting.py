"""Waiting: for changes without a lost wake-up, with a timeout, for the first of several tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


class Wakeup:
    """Wakes all waiters.

    A waiter takes `next`, checks the state, and waits only if there is nothing new: a change
    between the check and the wait has set the event already.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Return the event that the next `ring` sets."""
        return self._event

    def ring(self) -> None:
        """Wake all who took `next` before."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked at once, and after each `ring`."""
        while True:
            news = self.next()
            if holds():
                return
            await news.wait()


async def happens_within(seconds: float | None, event: Awaitable[object]) -> bool:
    """Wait for an event, with a timeout unless it is None; return False when it has passed."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return False
    return True


async def run_until_one_ends(*work: Coroutine[Any, Any, object]) -> None:
    """Run all concurrently until one ends or fails; cancel the rest, and raise its error."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
