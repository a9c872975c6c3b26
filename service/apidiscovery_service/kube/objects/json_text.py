"""Parses JSON as sigs.k8s.io/json does: with repeated keys, and numbers as they are written.

Source: sigs.k8s.io/json internal/golang/encoding/json/scanner.go, also for the messages.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from apidiscovery_formats.go_text import quote

MAX_DEPTH = 100
"""Levels of objects and lists. Go stops at 10 000; no document of these kinds has ten."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Pairs(list[tuple[str, "Tree"]]):
    """An object with all its keys in order, including repeated ones."""

    __slots__ = ()


Tree: TypeAlias = (
    "Pairs | Mapping[str, Tree] | Sequence[Tree] | str | Number | bool | int | float | None"
)
"""A parsed value; plain mappings and numbers are those of values that were never text."""


class NotJSON(ValueError):
    """A text is not JSON; the message is Go's."""


# What json.JSONDecodeError says, and what Go says after the character.
_CONTEXTS = (
    ("Expecting value", "looking for beginning of value"),
    ("Expecting property name", "looking for beginning of object key string"),
    ("Illegal trailing comma before end of object", "looking for beginning of object key string"),
    ("Illegal trailing comma before end of array", "looking for beginning of value"),
    ("Expecting ':'", "after object key"),
    ("Extra data", "after top-level value"),
    ("Invalid control character", "in string literal"),
    ("Invalid \\escape", "in string escape code"),
    ("Invalid \\uXXXX", "in \\u hexadecimal character escape"),
)
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_LITERALS = ("true", "false", "null")
_BLANKS = " \t\r\n"


def parse(body: bytes) -> Tree:
    """Return the value of JSON text.

    Bytes that are not UTF-8 are read as U+FFFD, as in Go.

    Raises:
        NotJSON: It is not JSON, or has more than `MAX_DEPTH` levels.
    """
    text = body.decode("utf-8", "replace")
    _check_depth(text)
    try:
        tree: Tree = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _in_go_words(text, error) from None
    return tree


def _no_constant(name: str) -> NoReturn:
    raise NotJSON(f"invalid character {_go_character(name[0])} looking for beginning of value")


_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_no_constant
)


def _check_depth(text: str) -> None:
    """Check the nesting of a text before the parser recurses into it."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _STRUCTURE.finditer(text):
        character = match[0]
        if character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise NotJSON(f"invalid character {_go_character(character)} exceeded max depth")
        elif character in "]}":
            depth -= 1


def _in_go_words(text: str, error: json.JSONDecodeError) -> NotJSON:
    at = error.pos
    if error.msg.startswith("Illegal trailing comma"):  # since Python 3.13
        at += 1
    while at < len(text) and text[at] in _BLANKS and not error.msg.startswith("Invalid"):
        at += 1
    if at >= len(text) or error.msg.startswith("Unterminated"):
        return NotJSON("unexpected end of JSON input")
    for word in _LITERALS:
        if text[at] == word[0] and error.msg.startswith("Expecting value"):
            return _bad_literal(text[at:], word)
    context = next((go for ours, go in _CONTEXTS if error.msg.startswith(ours)), None)
    if context is None:  # Expecting ',' delimiter
        inside = _innermost(text[:at])
        context = "after array element" if inside == "[" else "after object key:value pair"
    return NotJSON(f"invalid character {_go_character(text[at])} {context}")


def _bad_literal(text: str, word: str) -> NotJSON:
    """Return Go's error for a text that begins like a literal and continues otherwise."""
    same = next(i for i, letter in enumerate(word) if text[i : i + 1] != letter)
    if same == len(text):
        return NotJSON("unexpected end of JSON input")
    context = f"in literal {word} (expecting '{word[same]}')"
    return NotJSON(f"invalid character {_go_character(text[same])} {context}")


def _innermost(text: str) -> str:
    """Return the innermost bracket that is open at the end of a text."""
    opened: list[str] = []
    for match in _STRUCTURE.finditer(text):
        if match[0] in "[{":
            opened.append(match[0])
        elif match[0] in "]}" and opened:
            opened.pop()
    return opened[-1] if opened else ""


def _go_character(character: str) -> str:
    """Return a character in single quotes (scanner.go, quoteChar)."""
    if character == "'":
        return r"'\''"
    return "'\"'" if character == '"' else f"'{quote(character)[1:-1]}'"
