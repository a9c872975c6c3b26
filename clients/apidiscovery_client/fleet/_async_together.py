"""Asks many clusters side by side, as tasks."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import TypeVar

_T = TypeVar("_T")


async def together(
    calls: Sequence[Callable[[], Coroutine[None, None, _T]]],
    at_once: int,
    progress: Callable[[int, int], object] | None = None,
) -> list[_T]:
    """Return what calls return, in their order; at most some of them run at a time.

    When one raises, the others are cancelled.

    Args:
        calls: The calls.
        at_once: How many run at a time.
        progress: Called after each call, with how many have returned, and of how many.
    """
    turns = asyncio.Semaphore(at_once)
    done = count(1)

    async def in_turn(call: Callable[[], Coroutine[None, None, _T]]) -> _T:
        async with turns:
            result = await call()
        if progress:
            progress(next(done), len(calls))
        return result

    tasks = [asyncio.get_running_loop().create_task(in_turn(call)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def pause(seconds: float) -> None:
    """Return after that many seconds."""
    await asyncio.sleep(seconds)


async def aside(call: Callable[[], _T]) -> _T:
    """Return what a call returns that computes for long, and let other tasks go on."""
    return await asyncio.to_thread(call)
