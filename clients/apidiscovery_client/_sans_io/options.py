"""Cache lifetimes and retries of a client, and its clock, which tests replace."""

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Settings of both clients; all times are in seconds.

    Attributes:
        max_age_s: The age of a snapshot after which the server is asked again.
        unaggregated_max_age_s: The same for servers without aggregated discovery, which need a
            request for each group-version.
        miss_recheck_s: The age of a snapshot up to which a name that is not found causes no
            request.
        negative_ttl_s: How long a name that was not found causes no further request, unless
            anything changes.
        negative_names: How many such names are remembered, the latest ones.
        first_retry_s: The pause after the first failed attempt; it doubles with each.
        longest_retry_s: The longest pause.
        save_interval_s: An unchanged snapshot is written to the cache again, with the time of the
            last check, when that is newer by more than this.
    """

    max_age_s: float = 60.0
    unaggregated_max_age_s: float = 600.0
    miss_recheck_s: float = 0.5
    negative_ttl_s: float = 5.0
    negative_names: int = 1000
    first_retry_s: float = 1.0
    longest_retry_s: float = 30.0
    save_interval_s: float = 60.0


DEFAULT_OPTIONS = ClientOptions()


class Clock(Protocol):
    """The time, and waiting, for both clients."""

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
        import asyncio  # noqa: PLC0415 - callers have imported it; others need not

        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
