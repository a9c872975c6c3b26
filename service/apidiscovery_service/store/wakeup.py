"""An event that can be set again and again, without a lost wake-up."""

import asyncio
from collections.abc import Callable


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


async def rings_within(news: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event, with a timeout unless it is None; return False when it has passed."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    return True
