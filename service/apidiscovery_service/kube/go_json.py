"""JSON text exactly as Go's encoding/json writes it, by orjson: for documents that are large.

Every ETag is a hash of this text, so a byte that differs is an ETag that differs. orjson writes
the same text as Go but for the characters that Go escapes for the sake of HTML and JavaScript.
"""

from collections.abc import Iterator

import orjson
from apidiscovery_formats.go_json import ESCAPES, JSONValue

__all__ = ["JSONValue", "dumps", "dumps_pretty", "indent"]

_ESCAPES = tuple((character.encode(), escape.encode()) for character, escape in ESCAPES)

# What is looked through at once, in bytes; each step holds the interpreter.
_AT_ONCE = 64 * 1024
# The first two bits of a byte that goes on with a character of UTF-8, and what they are then.
_UTF8_MASK, _UTF8_GOES_ON = 0xC0, 0x80


def _escape(text: bytes) -> bytes:
    """Escape what Go escapes; in JSON text those characters stand in strings only."""
    if len(text) > _AT_ONCE:
        return b"".join(map(_escape, _slices(text)))
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def _slices(text: bytes) -> Iterator[bytes]:
    """Yield slices of UTF-8 that cut no character into two."""
    begin = 0
    while begin < len(text):
        end = min(begin + _AT_ONCE, len(text))
        while end < len(text) and text[end] & _UTF8_MASK == _UTF8_GOES_ON:
            end -= 1
        yield text[begin:end]
        begin = end


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
