"""Ends streams whose callers may no longer have them."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.waiting import happens_within

T = TypeVar("T")

# Interval of checks, since the end of a certificate's validity is not announced.
CHECK_EVERY_S: Final = 10.0


async def revoked(access: Access, refusal: Callable[[], T | None]) -> T:
    """Return the refusal of a stream as soon as its caller may no longer have it.

    Args:
        access: Announces that admissions may have changed.
        refusal: Returns why the caller may not have the stream now; None if it may.
    """
    changed = asyncio.Event()
    unsubscribe = access.subscribe(changed.set)
    try:
        while (found := refusal()) is None:
            changed.clear()
            await happens_within(CHECK_EVERY_S, changed.wait())
        return found
    finally:
        unsubscribe()
