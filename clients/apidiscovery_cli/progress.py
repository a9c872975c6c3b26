"""Tells on a terminal how far long work is; where there is none, nothing is told."""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

_SHORT = 3  # two documents are there before anybody has read how far it is
_CLEAR = "\r\x1b[K"

Step = Callable[[int, int], None]


@contextmanager
def told_of(label: str) -> Generator[Step | None]:
    """Give what is to be called with how many of how many are done, from any thread.

    It gives None where stderr is no terminal. The line is gone at the end.
    """
    if not sys.stderr.isatty():
        yield None
        return
    line = _Line(label)
    try:
        yield line.step
    finally:
        line.clear()


class _Line:
    def __init__(self, label: str) -> None:
        self._label = label
        self._lock = threading.Lock()
        self._is_there = False

    def step(self, done: int, total: int) -> None:
        if total < _SHORT:
            return
        with self._lock:
            self._is_there = True
            sys.stderr.write(f"{_CLEAR}{self._label}: {done} of {total}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._is_there:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
