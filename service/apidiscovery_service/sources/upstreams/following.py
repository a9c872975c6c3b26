"""Following what stands below a prefix of the store, whatever becomes of the store."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.storage import Compacted, Entry, Store

RETRY_S = 1.0

_log = structlog.get_logger(__name__)


async def follow_prefix(
    store: Store,
    prefix: str,
    listed: Callable[[], Awaitable[int]],
    changed: Callable[[Mapping[str, Entry | None]], Awaitable[None]],
) -> None:
    """Hand over what changes, until cancelled.

    Args:
        store: What is followed.
        prefix: What all keys begin with.
        listed: Takes everything that is there; returns the revision at which that was.
        changed: Takes what has changed since, by key; None for what was removed.
    """
    while True:
        try:
            revision = await listed()
            async with aclosing(store.watch(prefix, revision)) as batches:
                async for batch in batches:
                    await changed({change.key: change.entry for change in batch.changes})
        except Compacted:
            continue
        except DiscoveryError as error:
            _log.warning("upstreams cannot be followed", prefix=prefix, reason=str(error))
            await asyncio.sleep(RETRY_S)
