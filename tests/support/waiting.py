"""Waiting for conditions that have no event: blocking, and in an event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

# An upper bound for a busy machine; a fraction of a second otherwise.
WITHIN_S = 30.0

# Most looks of `eventually` are requests: asked a hundred times a second, a server takes a third of
# a core.
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.01, 0.1

T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str, within_s: float = WITHIN_S) -> T:
    """Call `look` until it returns a true value, and return that value.

    Raises:
        AssertionError: It returned none in time; the message names `what` was expected.
    """
    began = time.monotonic()
    while True:
        found = look()
        if found:
            return found
        waited = time.monotonic() - began
        if waited > within_s:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(min(max(waited / 10, _LEAST_PAUSE_S), _MOST_PAUSE_S))


async def until(
    look: Callable[[], object], what: str = "the condition", within_s: float = WITHIN_S
) -> None:
    """Wait until `look`, which may be asynchronous, returns a true value.

    Raises:
        AssertionError: It returned none in time; the message names `what` was expected.
    """
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if await found if isinstance(found, Awaitable) else found:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        await asyncio.sleep(_LEAST_PAUSE_S)
