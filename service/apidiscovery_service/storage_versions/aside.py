"""Work on large objects, beside the event loop.

What an object costs to read, judge and write grows with it, to a fifth of a second for the largest.
Two threads do that, so that the loop never waits behind many for the interpreter.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")

AT_ONCE_BYTES = 8 * 1024
"""What is about less is done at once, which takes less than a millisecond."""

_THREADS = ThreadPoolExecutor(2, "objects")


async def aside(size: int, work: Callable[[], _T]) -> _T:
    """Return what some work comes to, done in a thread if it is about much.

    Args:
        size: Bytes of what it is about.
        work: Shares nothing that changes with the event loop.
    """
    if size <= AT_ONCE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
