"""The body of an answer and the JSON in it."""

import json
from typing import TypeAlias

from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed

# A large body is not copied only to change its type.
Body: TypeAlias = bytes | bytearray

_SHOWN = 20


def parsed(body: Body) -> object:
    """Return the value of JSON as Go reads it: bytes that are not UTF-8 are replaced.

    Raises:
        UpstreamFailed: It is not JSON, or nests deeper than the interpreter recurses.
    """
    text = body.decode("utf-8", "replace")
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        seen = text[error.pos : error.pos + _SHOWN]
        what = f"got {seen!r}" if seen else "it ends"
        message = f"want JSON: character {error.pos}: {error.msg}, {what}"
        raise UpstreamFailed(Reason.MALFORMED, message) from None
    except RecursionError:
        raise UpstreamFailed(Reason.MALFORMED, "a value nests too deeply") from None


def _refuse(name: str) -> object:
    raise UpstreamFailed(Reason.MALFORMED, f"want JSON: {name} is not a number")
