"""Asks many clusters side by side, in threads."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

_T = TypeVar("_T")


def together(
    calls: Sequence[Callable[[], _T]],
    at_once: int,
    progress: Callable[[int, int], object] | None = None,
) -> list[_T]:
    """Return what calls return, in their order; at most some of them run at a time.

    When one raises, those that have not begun are dropped.

    Args:
        calls: The calls.
        at_once: How many run at a time.
        progress: Called after each call, in its thread, with how many have returned, and of how
            many.
    """
    if not calls:
        return []
    done = count(1)

    def told(call: Callable[[], _T]) -> _T:
        result = call()
        if progress:
            progress(next(done), len(calls))
        return result

    with ThreadPoolExecutor(min(at_once, len(calls)), "apidiscovery-fleet") as threads:
        futures = [threads.submit(told, call) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def pause(seconds: float) -> None:
    """Return after that many seconds."""
    time.sleep(seconds)


def aside(call: Callable[[], _T]) -> _T:
    """Return what a call returns that computes for long."""
    return call()
