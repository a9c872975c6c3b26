"""Answers that would take away what is known of an upstream: believed only when repeated.

A server that starts may have nothing yet, one that has lost its storage or another one at its
address answers so, too, and one of several may be older than the others during an upgrade.
"""

import math
import time
from http import HTTPStatus

from apidiscovery_formats.media_types import JSON

from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.spec import Timing

# The pause between two polls may be shorter than configured by this factor, because of jitter.
_ALMOST = 0.8


class Doubts:
    """Counts such answers in a row; those within one poll interval count once.

    Args:
        timing: How many are needed, and how far apart.
        exchange: Sends requests to the upstream.
    """

    def __init__(self, timing: Timing, exchange: Exchange) -> None:
        self._timing = timing
        self._exchange = exchange
        # By path, how often such an answer came, and when it was counted last.
        self._seen: dict[str, tuple[int, float]] = {}

    def raise_unless_believed(self, path: str, seen: str) -> None:
        """Count an answer that would take away what is known.

        Args:
            path: What was requested.
            seen: What was answered.

        Raises:
            UpstreamFailed: It has not been repeated often enough; its reason is EMPTIED.
        """
        now, wanted = time.monotonic(), self._timing.empty_answers
        times, last = self._seen.get(path, (0, -math.inf))
        if now - last >= self._timing.poll_s * _ALMOST:
            times, last = times + 1, now
        if times >= wanted:
            self.end(path)
            return
        self._seen[path] = (times, last)
        text = f"GET {path}: {seen}; believed when said {wanted} times, this is time {times}"
        raise UpstreamFailed(Reason.EMPTIED, text)

    async def check(self, path: str, seen: str, known: str) -> None:
        """Count an answer as `raise_unless_believed` if the upstream itself answers meanwhile.

        A proxy in front of a server that is down answers 404 to everything.

        Args:
            path: What was requested.
            seen: What was answered.
            known: A path that the upstream serves.

        Raises:
            UpstreamFailed: It does not serve that path now, or has not repeated its answer.
        """
        answer = await self._exchange.get(known, JSON)
        if answer.status != HTTPStatus.OK:
            raise answer.wrong("200")
        self.raise_unless_believed(path, seen)

    def end(self, *paths: str) -> None:
        """Begin to count anew: something else was answered. Without arguments, for all paths."""
        for path in paths or tuple(self._seen):
            self._seen.pop(path, None)
