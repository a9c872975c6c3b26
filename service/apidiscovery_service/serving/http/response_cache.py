"""A cache of answers ready to send, valid until the served state changes."""

from time import monotonic
from typing import Generic, TypeVar

from apidiscovery_service.serving.http.messages import PreparedResponse

K = TypeVar("K")

# Most cached answers share their bodies and take some hundred bytes; real clients of one server
# send a handful of different requests.
_MAX_ANSWERS = 1024


class ResponseCache(Generic[K]):
    """Answers by all parts of the request that they depend on.

    Args:
        max_bytes: Limit of their bodies, for answers whose bodies nothing else keeps.
        max_age_s: Seconds after which all answers expire; None for never.
    """

    def __init__(self, max_bytes: int | None = None, max_age_s: float | None = None) -> None:
        self._answers: dict[K, PreparedResponse] = {}
        self._max_bytes = max_bytes
        self._bytes = 0
        self._max_age_s = max_age_s
        self._expires = 0.0
        self._state: object = None

    def get(self, key: K, state: object) -> PreparedResponse | None:
        """Return the cached answer to a request, None if there is none.

        Args:
            key: The parts of the request.
            state: The served state; another one than before invalidates all answers.
        """
        if state != self._state or (self._max_age_s is not None and monotonic() > self._expires):
            self._clear(state)
        return self._answers.get(key)

    def put(self, key: K, state: object, answer: PreparedResponse) -> None:
        """Cache an answer, unless the served state has changed meanwhile."""
        if state != self._state:
            return
        size = len(answer.body["body"])
        if self._max_bytes is not None and self._bytes + size > self._max_bytes:
            if size > self._max_bytes:
                return
            self._clear(state)
        if len(self._answers) >= _MAX_ANSWERS:
            self._clear(state)  # a client varies its requests; the usual ones are soon cached again
        self._answers[key] = answer
        self._bytes += size

    def _clear(self, state: object) -> None:
        self._answers, self._bytes, self._state = {}, 0, state
        if self._max_age_s is not None:
            self._expires = monotonic() + self._max_age_s
