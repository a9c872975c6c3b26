"""Asks many clusters side by side, as tasks."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

_T = TypeVar("_T")


async def together(
    calls: Sequence[Callable[[], Coroutine[None, None, _T]]], at_once: int
) -> list[_T]:
    """Return what calls return, in their order; at most some of them run at a time.

    When one raises, the others are cancelled.
    """
    turns = asyncio.Semaphore(at_once)

    async def in_turn(call: Callable[[], Coroutine[None, None, _T]]) -> _T:
        async with turns:
            return await call()

    tasks = [asyncio.get_running_loop().create_task(in_turn(call)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def pause(seconds: float) -> None:
    """Return after that many seconds."""
    await asyncio.sleep(seconds)
