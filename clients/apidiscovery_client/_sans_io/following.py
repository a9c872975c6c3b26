"""Following what a client learns: what is new to one who watches."""

import random
from collections.abc import Iterator

from apidiscovery_client._errors import ServerUnreachable
from apidiscovery_client._sans_io.memory import Memory
from apidiscovery_client.changes import Change, changes
from apidiscovery_client.model import Snapshot

# A server shows that it is alive every 30 s (WatchDiscoveryRequest.heartbeat_interval).
PUSH_SILENCE_S = 90.0
_POLL_SLACK_S = 1.0
_JITTER = 0.1


def silence_s(interval_s: float, *, is_pushed: bool) -> float:
    """Return how long after a sign of life what is held passes for current."""
    return PUSH_SILENCE_S if is_pushed else 2 * interval_s + _POLL_SLACK_S


def even_pauses(interval_s: float) -> Iterator[float]:
    """Yield nearly the same each time, so that not all clients ask at the same time."""
    while True:
        yield interval_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret


class Follower:
    """Knows what one reader has been told of already.

    Args:
        memory: What the client knows.
        seen: What the reader knows; None for nothing.
        tells_all: Whether he wants to hear of what is there when he knows nothing.
    """

    def __init__(self, memory: Memory, seen: Snapshot | None, *, tells_all: bool) -> None:
        self._memory = memory
        self._seen = seen
        self._is_quiet = seen is None and not tells_all

    def news(self) -> tuple[Change, ...]:
        """Return what changed since the last call.

        Raises:
            DiscoveryError: The server did not answer, and nothing is held.
        """
        now = self._memory.latest
        if now is None:
            error = self._memory.error
            raise error or ServerUnreachable("no answer", url=self._memory.server)
        told = () if self._is_quiet else changes(self._seen, now)
        self._seen, self._is_quiet = now, False
        return told
