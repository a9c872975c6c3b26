"""Following what stands below a prefix of a store, whatever becomes of the store."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store import Batch, Compacted, Store, StoreError

# From a failure of the store to the next attempt.
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
    """Hand over what stands there, then every change, until cancelled or the store is closed.

    Whenever changes may have been missed, all is loaded again: what comes back after an outage may
    be a backup, in which the same revisions stand for other content.

    Args:
        store: What is followed.
        prefix: What all keys begin with.
        load: Takes everything that is there; returns the revision at which that was.
        take: Takes what has changed since, perhaps nothing.
        after: The revision up to which it has been loaded; None when it has not.
        lost: Called when changes may be missed from now on, until all is loaded again.
        pause_s: From a failure of the store to the next attempt, PAUSE_S if not given.
    """
    while True:
        try:
            revision, after = (await load() if after is None else after), None
            async with aclosing(store.watch(prefix, revision)) as batches:
                async for batch in batches:
                    await take(batch)
        except Compacted as error:
            _tell(lost)
            _log.info("store is listed again", prefix=prefix, reason=str(error))
        except DiscoveryError as error:
            _tell(lost)
            if not isinstance(error, StoreError):  # those are noted where the store is observed
                _log.warning("changes not taken, trying again", prefix=prefix, error=str(error))
            await asyncio.sleep(PAUSE_S if pause_s is None else pause_s)
        else:
            return


def _tell(lost: Callable[[], None] | None) -> None:
    if lost is not None:
        lost()
