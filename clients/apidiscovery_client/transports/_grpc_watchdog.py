"""Cancels a call that blocks its reader for too long, which grpcio has no timeout for."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from typing import Protocol


class _Call(Protocol):
    def cancel(self) -> object: ...


class Watchdog:
    """Barks at a reader that has waited for too long.

    Args:
        silence_s: For how long a reader may wait.
        bark: Makes it wait no longer.
    """

    def __init__(self, silence_s: float, bark: Callable[[], object]) -> None:
        self._silence_s = silence_s
        self._bark = bark
        self._condition = threading.Condition()
        self._bark_at: float | None = None
        self._ended = False
        self.has_barked = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def awake(self) -> Generator[None]:
        """Watch for as long as this lasts; between two of these nobody waits."""
        self._set(time.monotonic() + self._silence_s)
        try:
            yield
        finally:
            self._set(None)

    def end(self) -> None:
        """Return once its thread has ended."""
        with self._condition:
            self._ended = True
            self._condition.notify()
        self._thread.join()

    def _set(self, bark_at: float | None) -> None:
        with self._condition:
            self._bark_at = bark_at
            self._condition.notify()

    def _watch(self) -> None:
        with self._condition:
            while not self._ended:
                left_s = None if self._bark_at is None else self._bark_at - time.monotonic()
                if left_s is not None and left_s <= 0:
                    self.has_barked = True
                    break
                self._condition.wait(left_s)
        if self.has_barked:
            self._bark()


@contextlib.contextmanager
def closing_silent(call: _Call, silence_s: float) -> Generator[Watchdog]:
    """Cancel a call at the end, or when its reader has waited for too long."""
    watchdog = Watchdog(silence_s, call.cancel)
    try:
        yield watchdog
    finally:
        call.cancel()
        watchdog.end()
