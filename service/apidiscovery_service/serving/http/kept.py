"""Answers that are kept, ready to send, for as long as they are true."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

from apidiscovery_service.metrics import RequestStats

Message: TypeAlias = MutableMapping[str, Any]

K = TypeVar("K")

# Kept answers mostly share their bodies, so this bounds some hundred bytes each; real clients of
# one server differ in a handful of ways.
_MAX_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Ready:
    """An answer as the messages that send it, and where it is counted.

    Attributes:
        body: Its body, or a packed one in place of that, which is sent in pieces.
        size: Bytes of the body.
    """

    start: Message
    body: Message
    stats: RequestStats
    size: int = 0


class Kept(Generic[K]):
    """Answers by everything that they depend on besides what is served.

    Args:
        max_bytes: Of their bodies, for those whose bodies would not be there without them.
        lasting_s: How long they may be told; for ever if None.
    """

    def __init__(self, max_bytes: int | None = None, lasting_s: float | None = None) -> None:
        self._answers: dict[K, Ready] = {}
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lasting_s = lasting_s
        self._until = 0.0
        self._state: object = None

    def get(self, key: K, state: object) -> Ready | None:
        """Return the answer to a request; None if it has to be made.

        Args:
            key: All of the request that the answer depends on.
            state: What is served; with another one nothing holds any more.
        """
        if state != self._state or (self._lasting_s is not None and monotonic() > self._until):
            self._begin(state)
        return self._answers.get(key)

    def keep(self, key: K, state: object, answer: Ready) -> None:
        """Keep an answer, unless something else is served by now."""
        if state != self._state:
            return
        size = len(answer.body["body"])
        if self._max_bytes is not None and self._bytes + size > self._max_bytes:
            if size > self._max_bytes:
                return
            self._begin(state)
        if len(self._answers) >= _MAX_KEPT:
            self._begin(state)  # somebody makes up requests; the usual ones are soon back
        self._answers[key] = answer
        self._bytes += size

    def _begin(self, state: object) -> None:
        self._answers, self._bytes, self._state = {}, 0, state
        if self._lasting_s is not None:
            self._until = monotonic() + self._lasting_s
