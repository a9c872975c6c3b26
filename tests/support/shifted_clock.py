"""Runs a Python program with a wrong wall clock: SECONDS PROGRAM [ARGUMENT...].

The monotonic clock stays right.
"""

import datetime as dt
import runpy
import sys
import time
from datetime import tzinfo
from typing import Self

_EXACT = dt.datetime


def shift(seconds: float) -> None:
    """Set the clock of this process forward."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)

    class SameKind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _EXACT)

    class Shifted(_EXACT, metaclass=SameKind):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(time.time(), tz)

    dt.datetime = Shifted  # type: ignore[misc]


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
