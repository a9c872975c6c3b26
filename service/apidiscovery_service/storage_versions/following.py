"""Work that goes on beside the events of collections."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing

import structlog

from apidiscovery_service.storage_versions.backoff import Backoff
from apidiscovery_service.storage_versions.collection import Collection, Event, Expired
from apidiscovery_service.store import StoreUnavailable

_log = structlog.get_logger(__name__)


async def note_events(collection: Collection, note: Callable[[Event], None]) -> None:
    """Tell what stands in a collection and whatever happens to it, until cancelled.

    What stands there is told again, as ADDED, after events have been missed: removals among them
    are told by nothing else.
    """
    backoff = Backoff(0.1, 5.0)
    while True:
        try:
            async with aclosing(collection.events(None)) as events:
                async for event in events:
                    backoff.restart()
                    note(event)
        except (Expired, StoreUnavailable) as error:
            _log.warning("events missed, beginning anew", kind=collection.kind.kind, why=str(error))
            await backoff.pause()


async def beside(work: Coroutine[None, None, None], *others: Coroutine[None, None, None]) -> None:
    """Do all at once until one ends or fails; the rest is cancelled, and its error raised."""
    tasks = [asyncio.ensure_future(doing) for doing in (work, *others)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def for_each(
    items: Iterable[str], do: Callable[[str], Coroutine[None, None, None]], at_once: int
) -> None:
    """Do something for each item, for so many at once; when one fails the rest is cancelled."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)
            # Where nothing is waited for, as in memory, others would have to.
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(work()) for _ in range(at_once)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
