"""The follow loop: the entries below a prefix of a store, through all its outages."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store import Batch, Compacted, Store, StoreError

# Pause after a failure of the store.
PAUSE_S = 1.0

_log = structlog.get_logger(__name__)


async def follow(  # noqa: PLR0913 - those behind the star have names
    store: Store,
    prefix: str,
    load: Callable[[], Awaitable[int]],
    take: Callable[[Batch], Awaitable[None]],
    *,
    after: int | None = None,
    lost: Callable[[], None] | None = None,
    pause_s: float | None = None,
) -> None:
    """Load the entries, then hand over every change, until cancelled or the store is closed.

    After every interruption all entries are loaded again: the store that comes back may be a
    backup, with the same revisions for other content.

    Args:
        store: The store.
        prefix: Prefix of the keys.
        load: Reads all entries; returns the revision of that state.
        take: Takes a batch of changes, which may be empty.
        after: The revision that has been loaded already; None when nothing has.
        lost: Called when changes may be missed from now on, until all is loaded again.
        pause_s: Pause after a failure, PAUSE_S if not given.
    """
    while True:
        try:
            revision, after = (await load() if after is None else after), None
            async with aclosing(store.watch(prefix, revision)) as batches:
                async for batch in batches:
                    await take(batch)
        except DiscoveryError as error:
            if lost is not None:
                lost()
            if isinstance(error, Compacted):
                _log.info("store is listed again", prefix=prefix, reason=str(error))
                continue
            if not isinstance(error, StoreError):  # ObservedStore logs those
                _log.warning("changes not applied, trying again", prefix=prefix, error=str(error))
            await asyncio.sleep(PAUSE_S if pause_s is None else pause_s)
        else:
            return
