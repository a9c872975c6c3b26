"""JSON text exactly as Go's encoding/json writes it, by orjson.

Every ETag is a hash of this text. orjson writes the same text as Go but for the characters that Go
escapes for HTML and JavaScript.
"""

import orjson
from apidiscovery_formats.go_json import ESCAPES, JSONValue

__all__ = ["JSONValue", "dumps", "dumps_pretty", "indent"]

_ESCAPES = tuple((character.encode(), escape.encode()) for character, escape in ESCAPES)


def _escape(text: bytes) -> bytes:
    """Escape as Go does; in JSON text those characters are in strings only."""
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def dumps(value: object) -> bytes:
    """Return compact JSON, keys in the order of the mappings, without a line feed at the end.

    Args:
        value: A JSON value; `orjson.Fragment` in it is JSON text, written as it is.

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
