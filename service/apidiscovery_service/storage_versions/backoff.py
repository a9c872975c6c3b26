"""Pauses between attempts."""

import asyncio
import random

_FACTOR = 2.0
_JITTER = 0.5


class Backoff:
    """Each pause is longer than the one before, up to a limit, and none is quite like another.

    Args:
        first_s: The first pause, at most.
        most_s: Any pause, at most.
    """

    def __init__(self, first_s: float = 0.005, most_s: float = 0.25) -> None:
        self._first_s = first_s
        self._next_s = first_s
        self._most_s = most_s

    async def pause(self) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self._next_s * (1 - _JITTER * random.random()))  # noqa: S311 - spreads load, keeps no secret
        self._next_s = min(self._next_s * _FACTOR, self._most_s)

    def restart(self) -> None:
        """Begin with the first pause again."""
        self._next_s = self._first_s
