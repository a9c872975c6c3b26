"""Cancels a call that blocks its reader for too long, which grpcio has no timeout for."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import Protocol


class _Call(Protocol):
    def cancel(self) -> object: ...


class Watchdog:
    """Barks at a reader that has waited for too long.

    The reader tells its thread through a queue, for a KeyboardInterrupt may come anywhere in the
    reader's thread: between taking a lock and the block that releases it, the lock would never be
    released, and the end, which waits for the other thread, never come.

    Args:
        silence_s: For how long a reader may wait.
        bark: Makes it wait no longer.
    """

    def __init__(self, silence_s: float, bark: Callable[[], object]) -> None:
        self._silence_s = silence_s
        self._bark = bark
        # When to bark, on the monotonic clock; infinity for not now, None for the end.
        self._told: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self.has_barked = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def awake(self) -> Generator[None]:
        """Watch for as long as this lasts; between two of these nobody waits."""
        self._told.put(time.monotonic() + self._silence_s)
        try:
            yield
        finally:
            self._told.put(float("inf"))

    def end(self) -> None:
        """Return once its thread has ended."""
        self._told.put(None)
        self._thread.join()

    def _watch(self) -> None:
        bark_at: float | None = float("inf")
        while bark_at is not None:
            left_s = min(bark_at - time.monotonic(), threading.TIMEOUT_MAX)
            try:
                bark_at = self._told.get(timeout=max(left_s, 0))
            except queue.Empty:
                break
        if bark_at is not None:
            self.has_barked = True
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
