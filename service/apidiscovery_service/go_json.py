"""JSON text exactly as Go's encoding/json writes it.

Every ETag is a hash of this text, so a byte that differs is an ETag that differs. orjson writes
the same text as Go but for the five characters that Go escapes for the sake of HTML and
JavaScript (encoding/json `appendString` with escapeHTML, and `Indent` for the pretty form).
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import orjson

JSONValue: TypeAlias = (
    bool | int | float | str | Sequence["JSONValue"] | Mapping[str, "JSONValue"] | None
)

_ESCAPES = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    (b"\xe2\x80\xa8", rb"\u2028"),
    (b"\xe2\x80\xa9", rb"\u2029"),
)


def _escape(text: bytes) -> bytes:
    """Escape what Go escapes; in JSON text those characters stand in strings only."""
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def dumps(value: JSONValue) -> bytes:
    """Return compact JSON, keys in the order of the mappings, without a line feed at the end.

    Raises:
        TypeError: A string holds a lone surrogate, or an integer has more than 64 bits.
    """
    return _escape(orjson.dumps(value))


def dumps_pretty(value: JSONValue) -> bytes:
    """Return JSON indented by two spaces, without a line feed at the end, as for a browser."""
    return _escape(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def indent(text: bytes) -> bytes:
    """Return compact JSON text in the form of `dumps_pretty`."""
    return dumps_pretty(orjson.loads(text))
