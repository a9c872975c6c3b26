"""Going on after a server did not answer for a while."""

import time

import grpc
from apidiscovery_client import DiscoveryError, ServerUnreachable
from apidiscovery_client._grpc.calls import CallRefused

from apidiscovery_cli.output import tell

# Beside what every call waits between its attempts.
_PAUSE_S = 0.5


class Outage:
    """The time during which a server does not answer, after it has.

    A server that has never answered may be another one than is meant, so that is not waited for.

    Args:
        limit_s: How long it may last; None for ever.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._has_answered = False
        self._since: float | None = None

    def is_over(self) -> None:
        """Note that the server has answered."""
        self._has_answered = True
        self._since = None

    def bear(self, error: DiscoveryError) -> None:
        """Tell of an error, once an outage, and wait a moment; then ask again.

        Raises:
            DiscoveryError: The error itself, when it will not pass, or has lasted too long.
        """
        if not self._has_answered or not _passes(error):
            raise error
        now = time.monotonic()
        if self._since is None:
            self._since = now
            tell(f"warning: {error}; trying again")
        if self._limit_s is not None and now - self._since >= self._limit_s:
            raise error
        time.sleep(_PAUSE_S)


def _passes(error: DiscoveryError) -> bool:
    if isinstance(error, CallRefused):
        return error.code == grpc.StatusCode.UNAVAILABLE or error.retry_after_s is not None
    return isinstance(error, ServerUnreachable)
