"""Accepts answers that remove what is known of an upstream only when they are repeated.

A server that has just started may have nothing yet. So may a server that has lost its storage,
another server at the same address, or an older replica during an upgrade.
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


class RepeatedAnswers:
    """Counts such answers in a row; several within one poll interval count as one.

    Args:
        timing: The number of answers that are needed, and their distance.
        exchange: Sends requests to the upstream.
    """

    def __init__(self, timing: Timing, exchange: Exchange) -> None:
        self._timing = timing
        self._exchange = exchange
        # By path: the number of such answers, and the time of the last that was counted.
        self._counts: dict[str, tuple[int, float]] = {}

    def raise_unless_repeated(self, path: str, seen: str) -> None:
        """Count an answer that removes what is known.

        Args:
            path: The path of the request.
            seen: The answer, in words.

        Raises:
            UpstreamFailed: It has not been repeated often enough; its reason is EMPTIED.
        """
        now, wanted = time.monotonic(), self._timing.empty_answers
        times, last = self._counts.get(path, (0, -math.inf))
        if now - last >= self._timing.poll_s * _ALMOST:
            times, last = times + 1, now
        if times >= wanted:
            self.end(path)
            return
        self._counts[path] = (times, last)
        text = f"GET {path}: {seen}; accepted after {wanted} such answers, this is number {times}"
        raise UpstreamFailed(Reason.EMPTIED, text)

    async def check(self, path: str, seen: str, known: str) -> None:
        """Count an answer as `raise_unless_repeated`, if the upstream serves another path.

        A proxy in front of a server that is down answers 404 to everything.

        Args:
            path: The path of the request.
            seen: The answer, in words.
            known: A path that the upstream serves.

        Raises:
            UpstreamFailed: It does not serve that path now, or has not repeated its answer.
        """
        answer = await self._exchange.get(known, JSON)
        if answer.status != HTTPStatus.OK:
            raise answer.wrong("200")
        self.raise_unless_repeated(path, seen)

    def end(self, *paths: str) -> None:
        """Count from 0 after another answer. Without arguments, for all paths."""
        for path in paths or tuple(self._counts):
            self._counts.pop(path, None)
