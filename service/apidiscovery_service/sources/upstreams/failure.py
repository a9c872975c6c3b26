"""Why a request to an upstream failed, in a form that can be counted and shown."""

import re
from collections.abc import Awaitable
from enum import StrEnum
from typing import TypeVar

import structlog

from apidiscovery_service.errors import DiscoveryError

_MAX_SHOWN = 300
_CONTROL = re.compile(r"[^\x20-\x7e]+")

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Reason(StrEnum):
    """The kinds of failure, as metrics count them."""

    UNREACHABLE = "Unreachable"
    TIMEOUT = "Timeout"
    STATUS = "UnexpectedStatus"
    NOT_SERVED = "NotServed"
    CONTENT_TYPE = "UnexpectedContentType"
    MALFORMED = "MalformedAnswer"
    TOO_LARGE = "TooLarge"
    EMPTIED = "Emptied"
    NOT_READY = "NotReady"
    NOT_CACHED = "NotModifiedWithoutCache"
    CREDENTIALS = "Credentials"
    INTERNAL = "Internal"


class UpstreamFailed(DiscoveryError):
    """An upstream did not answer as it should.

    Attributes:
        reason: The kind of failure.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(shown(message))
        self.reason = reason


def shown(text: str, most: int = _MAX_SHOWN) -> str:
    """Return one bounded line of printable ASCII: the text may come from an upstream."""
    line = _CONTROL.sub(" ", text[: 4 * most]).strip()
    return line if len(line) <= most else f"{line[: most - 3]}..."


async def attempt(work: Awaitable[T], upstream: str, what: str) -> T | UpstreamFailed:
    """Return the result of requests to an upstream, or why they failed.

    One odd answer must not end the polling: an unexpected error is logged, and counts as a failure.

    Args:
        work: Sends the requests; errors of the store are raised.
        upstream: The name of the upstream.
        what: The request, for the message.
    """
    try:
        return await work
    except UpstreamFailed as failure:
        return failure
    except DiscoveryError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        _log.exception("upstream cannot be polled", upstream=upstream, request=what)
        return UpstreamFailed(Reason.INTERNAL, f"{what}: {type(error).__name__}, see the log")
