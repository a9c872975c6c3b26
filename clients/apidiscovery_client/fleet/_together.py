"""Asks many clusters side by side, in threads."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def together(calls: Sequence[Callable[[], _T]], at_once: int) -> list[_T]:
    """Return what calls return, in their order; at most some of them run at a time.

    When one raises, those that have not begun are dropped.
    """
    if not calls:
        return []
    with ThreadPoolExecutor(min(at_once, len(calls)), "apidiscovery-fleet") as threads:
        futures = [threads.submit(call) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def pause(seconds: float) -> None:
    """Return after that many seconds."""
    time.sleep(seconds)
