"""Waits while a server that has answered before does not answer."""

import time

import grpc
from apidiscovery_client import DiscoveryError, ServerUnreachable
from apidiscovery_client._grpc.calls import CallRefused

from apidiscovery_cli.output import tell

# In addition to the pauses between attempts of a call.
_PAUSE_S = 0.5


class Outage:
    """An outage of a server that has answered before.

    A server that never answered may be the wrong one, so an error is raised at once.

    Args:
        limit_s: The longest outage; None for no limit.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._has_answered = False
        self._since: float | None = None

    def end(self) -> None:
        """Record that the server has answered."""
        self._has_answered = True
        self._since = None

    def wait(self, error: DiscoveryError) -> None:
        """Report an error once per outage, and wait before the next attempt.

        Raises:
            DiscoveryError: The error, where it is permanent or the outage too long.
        """
        if not self._has_answered or not _is_temporary(error):
            raise error
        now = time.monotonic()
        if self._since is None:
            self._since = now
            tell(f"warning: {error}; trying again")
        if self._limit_s is not None and now - self._since >= self._limit_s:
            raise error
        time.sleep(_PAUSE_S)


def _is_temporary(error: DiscoveryError) -> bool:
    if isinstance(error, CallRefused):
        return error.code == grpc.StatusCode.UNAVAILABLE or error.retry_after_s is not None
    return isinstance(error, ServerUnreachable)
