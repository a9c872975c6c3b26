"""The time, and waiting for it; tests put another clock in its place."""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time and lets it pass, for both clients."""

    def now(self) -> datetime:
        """Return the time of day, with its zone."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    def wait(self, ended: threading.Event, seconds: float) -> None:
        """Block until that many seconds have passed or the event is set."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, ended: threading.Event, seconds: float) -> None:
        ended.wait(seconds)

    async def sleep(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - whoever awaits this has imported it; others need not

        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
