"""Background work: following events, running tasks together, pauses between attempts."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing

import structlog

from apidiscovery_service.storage_versions.collection import Collection, Event, Expired
from apidiscovery_service.store import StoreUnavailable

_FACTOR = 2.0
_JITTER = 0.5

_log = structlog.get_logger(__name__)


class Backoff:
    """Exponential backoff with jitter.

    Args:
        first_s: The longest first pause.
        most_s: The longest pause.
    """

    def __init__(self, first_s: float = 0.005, most_s: float = 0.25) -> None:
        self._first_s = first_s
        self._next_s = first_s
        self._most_s = most_s

    async def pause(self) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self._next_s * (1 - _JITTER * random.random()))  # noqa: S311 - spreads load, keeps no secret
        self._next_s = min(self._next_s * _FACTOR, self._most_s)

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next_s = self._first_s


async def follow_events(collection: Collection, handle: Callable[[Event], None]) -> None:
    """Hand over the objects of a collection, then all events, until cancelled.

    After missed events all objects are handed over again, as ADDED, with the BOOKMARK that ends
    them: no event reports the removals among the missed events.
    """
    backoff = Backoff(0.1, 5.0)
    while True:
        try:
            async with aclosing(collection.events(None)) as events:
                async for event in events:
                    backoff.reset()
                    handle(event)
        except (Expired, StoreUnavailable) as error:
            _log.warning(
                "events missed, reading the state again", kind=collection.kind.kind, why=str(error)
            )
            await backoff.pause()


async def for_each(
    items: Sequence[str], do: Callable[[str], Coroutine[None, None, None]], concurrency: int
) -> None:
    """Do something for each item, with bounded concurrency; cancel the rest when one fails."""
    remaining = iter(items)

    async def work() -> None:
        for item in remaining:
            await do(item)
            # A store in memory never waits; other tasks need a turn.
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(work()) for _ in range(min(concurrency, len(items)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
