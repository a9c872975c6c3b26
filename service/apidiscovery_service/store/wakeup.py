"""Wakes all who wait for news, and forgets nobody who was just looking."""

import asyncio


class Wakeup:
    """Rings for everybody who took `next` before.

    A waiter takes `next`, looks at the state, and waits only if there was nothing: what happens
    between the look and the wait has set the event already.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Return what the next `ring` sets."""
        return self._event

    def ring(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()


async def rings_within(news: asyncio.Event, seconds: float | None) -> bool:
    """Wait for news, no longer than this if it is given; False when there were none."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    return True
