"""Garbage collections that hold the interpreter for less than 10 ms.

A collection of the oldest objects goes through everything that was ever made: with 3 000
definitions that took 130 ms, during which nobody is answered. Nearly all of that is there to stay,
and what goes, goes by its reference count. So what has survived a collection is not gone through
again, until there is so much that some of it may be garbage after all.
"""

import gc
import sys
from typing import Final, Literal, TypeAlias

# Of container objects: made before a collection of the youngest, and collections before one of the
# next age. The oldest that are not set aside are 24 000 then, which takes 3 ms.
_AFTER: Final = (2_000, 3, 2)

# Blocks of memory, of 100 bytes or so, by which a process has to grow, and by how many times.
_GROWN_BY: Final = 2_000_000
_GROWN_TIMES: Final = 2

_Phase: TypeAlias = Literal["start", "stop"]
_OLDEST: Final = 2


class _Sparing:
    """Sets aside what survives, and takes it back when memory has grown.

    Attributes:
        limit: Blocks of memory from which on everything is gone through.
    """

    def __init__(self, grown_by: int) -> None:
        self._grown_by = grown_by
        self.limit = self._next_limit()

    def _next_limit(self) -> int:
        blocks = sys.getallocatedblocks()
        return max(blocks * _GROWN_TIMES, blocks + self._grown_by)

    def __call__(self, phase: _Phase, info: dict[str, int]) -> None:
        """Take part in a collection, as `gc.callbacks` has it."""
        if info["generation"] != _OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif sys.getallocatedblocks() > self.limit:
            gc.unfreeze()
            self.limit = self._next_limit()


def collect_sparingly(grown_by: int = _GROWN_BY) -> None:
    """Collect all that is garbage now, and from now on only what is made from now on.

    Args:
        grown_by: Blocks of memory by which the process has to grow at least before everything is
            gone through once more.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.collect()  # of nothing: the oldest are collected again when they have grown by a quarter
    gc.callbacks[:] = [one for one in gc.callbacks if not isinstance(one, _Sparing)]
    gc.callbacks.append(_Sparing(grown_by))
    gc.set_threshold(*_AFTER)
