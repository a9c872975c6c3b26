"""Finds JSON that Go and Python read differently: repeated names, large numbers, lone surrogates.

The hooks of a JSON decoder do not know positions, so they put marks into the value; the marks are
reported with their positions afterwards.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.openapi.pointers import Path, Place, Problem, path_of

Object = dict[str, JSONValue]

_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_MAX_DIGITS = 20

# Larger integers are not all exact as a double.
_MAX_EXACT = 2**53

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Repeated(dict[str, JSONValue]):
    """An object that has a name more than once."""

    def __init__(self, pairs: list[tuple[str, JSONValue]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.names = [name for name, count in counts.items() if count > 1]


@dataclass(frozen=True, slots=True)
class _NotANumber:
    """Text in place of a number that JSON or 64 bits cannot hold."""

    text: str


class Marks:
    """Reads a document and marks values that cannot be represented.

    Attributes:
        any: Whether there is a mark.
    """

    def __init__(self) -> None:
        self.any = False

    def loads(self, text: str | bytes) -> JSONValue:
        """Return the value of JSON text.

        Raises:
            ValueError: It is not JSON.
            RecursionError: It is nested too deeply.
        """
        value: JSONValue = json.loads(
            text,
            object_pairs_hook=self.members,
            parse_constant=self.constant,
            parse_int=self.integer,
            parse_float=self.fraction,
        )
        return value

    def members(self, pairs: list[tuple[str, JSONValue]]) -> Object:
        """Return an object: the decoder's `object_pairs_hook`."""
        made = dict(pairs)
        if len(made) < len(pairs):
            self.any = True
            return _Repeated(pairs)
        return made

    def constant(self, text: str) -> object:
        """Return the mark for text that is not a number: `parse_constant`."""
        self.any = True
        return _NotANumber(text)

    def integer(self, text: str) -> object:
        """Return an integer of 64 bits: `parse_int`."""
        if len(text) <= _MAX_DIGITS and _MIN_INTEGER <= (value := int(text)) <= _MAX_INTEGER:
            return value
        return self.constant(text)

    def fraction(self, text: str) -> object:
        """Return a number as Go writes it, 1.0 and 1 alike: `parse_float`."""
        value = float(text)
        if math.isinf(value):
            return self.constant(text)
        return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else value

    def problems(self, document: bytes, value: JSONValue) -> Iterator[Problem]:
        """Yield the values of a document that cannot be represented, given its text and value."""
        if self.any or _SURROGATE.search(document):
            yield from _marked(value)


def walk(value: JSONValue) -> Iterator[tuple[JSONValue, Place]]:
    """Yield every value in the order of the document, with its position."""
    stack: list[tuple[JSONValue, Place]] = [(value, None)]
    while stack:
        node, place = stack.pop()
        yield node, place
        steps: Iterable[tuple[str | int, JSONValue]] = ()
        if isinstance(node, dict):
            steps = cast("dict[str | int, JSONValue]", node).items()
        elif isinstance(node, list):
            steps = enumerate(node)
        stack += reversed([(child, (place, step)) for step, child in steps])


def _marked(value: JSONValue) -> Iterator[Problem]:
    """Yield the errors of marked values and of texts with lone surrogates."""
    for node, place in walk(value):
        if isinstance(node, _Repeated):
            for name in node.names:
                yield Problem(_sendable(path_of(place)), f"{name!a} is duplicated")
        elif isinstance(node, _NotANumber):
            message = f"want a number of 64 bits, got {node.text[:40]}"
            yield Problem(_sendable(path_of(place)), message)
        texts = cast("Iterable[str]", (node,) if isinstance(node, str) else node)
        for text in texts if isinstance(node, str | dict) else ():
            if _is_broken(text):
                message = f"want Unicode, got half of a surrogate pair in {text[:40]!a}"
                yield Problem(_sendable(path_of(place)), message)


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _sendable(path: Path) -> Path:
    return tuple(
        ascii(step)[1:-1] if isinstance(step, str) and _is_broken(step) else step for step in path
    )
