"""Work that may hold the event loop for too long runs in a thread."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

_T = TypeVar("_T")

INLINE_BYTES: Final = 32 * 1024
"""Reading, checking and writing a smaller object takes a few milliseconds: it runs inline."""


async def run_sized(size: int, work: Callable[[], _T]) -> _T:
    """Return the result of some work, done in a thread if it is about much.

    Args:
        size: Bytes of what it is about.
        work: Shares nothing that changes with the event loop.
    """
    return work() if size <= INLINE_BYTES else await asyncio.to_thread(work)
