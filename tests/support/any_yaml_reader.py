"""Reads the YAML text inside gnostic's `Any` as JSON values.

Scalars without quotes are what JSON takes them for, not YAML 1.1: `yes` and `0x1F` are strings, as
they are to the library that wrote the text. Numbers beyond a double are strings to it, too.
"""

import math
import re
from collections.abc import Iterator

import yaml
from apidiscovery_service.kube.go_json import JSONValue

MAX_DEPTH = 200

_CONSTANTS: dict[str, bool | None] = {"null": None, "true": True, "false": False}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_MAX_INT_DIGITS = 20  # a longer one is a float to the library


class Unreadable(Exception):
    """A text is not YAML, or more than JSON can say."""


def load(text: str) -> JSONValue:
    """Return the value that *text* holds.

    Raises:
        Unreadable: It is not YAML, nests deeper than `MAX_DEPTH`, or has aliases, tags, keys that
            are not scalars, or more than one document.
    """
    try:
        return _document(_events(text))
    except yaml.YAMLError as error:
        raise Unreadable(f"want YAML: {' '.join(str(error).split())}") from None


def _events(text: str) -> Iterator[yaml.Event]:
    # Its stubs type neither the function's loader nor its result; libyaml's parser is iterative.
    return yaml.parse(text, Loader=yaml.CSafeLoader)  # type: ignore[no-any-return,unused-ignore]


def _document(events: Iterator[yaml.Event]) -> JSONValue:
    """Build the value in one flat pass: what is open stands in a list, the innermost last."""
    values: list[JSONValue] = []
    opened: list[_Open] = []
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable("want no aliases")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if len(opened) == MAX_DEPTH:
                raise Unreadable(f"want at most {MAX_DEPTH} levels")
            opened.append(_Open(is_mapping=isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            (opened[-2].add if len(opened) > 1 else values.append)(opened.pop().value())
        elif isinstance(event, yaml.ScalarEvent):
            (opened[-1].add if opened else values.append)(_scalar(event))
    if len(values) != 1:
        raise Unreadable(f"want one document, got {len(values)}")
    return values[0]


class _Open:
    """A collection whose end has not come yet."""

    def __init__(self, *, is_mapping: bool) -> None:
        self._is_mapping = is_mapping
        self._parts: list[JSONValue] = []

    def add(self, part: JSONValue) -> None:
        if self._is_mapping and len(self._parts) % 2 == 0 and not isinstance(part, str):
            raise Unreadable("want keys that are strings")
        self._parts.append(part)

    def value(self) -> JSONValue:
        if not self._is_mapping:
            return self._parts
        keys = (str(part) for part in self._parts[::2])
        return dict(zip(keys, self._parts[1::2], strict=True))


def _scalar(event: yaml.ScalarEvent) -> JSONValue:
    if event.tag is not None:
        raise Unreadable(f"want no tags, got {event.tag}")
    text: str = event.value
    if event.style:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if number[1] is None and number[2] is None and len(text) <= _MAX_INT_DIGITS:
        return int(text)
    amount = float(text)
    return amount if math.isfinite(amount) else text
