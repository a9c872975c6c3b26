"""Why a request to an upstream failed, in a form that can be counted and shown."""

import re
from enum import StrEnum

from apidiscovery_service.errors import DiscoveryError

_MAX_SHOWN = 300
_CONTROL = re.compile(r"[^\x20-\x7e]+")


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
        reason: What kind of failure it is.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(shown(message))
        self.reason = reason


def shown(text: str, most: int = _MAX_SHOWN) -> str:
    """Return one bounded line of printable ASCII: the text may come from an upstream."""
    line = _CONTROL.sub(" ", text[: 4 * most]).strip()
    return line if len(line) <= most else f"{line[: most - 3]}..."
