"""The text of manifests: its documents, their values, and the lines of fields."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, cast

import orjson
import yaml
from apidiscovery_formats import yaml_text
from apidiscovery_formats.yaml_text import Budget, Unparsable

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.fields import Path

# What begins like JSON and is longer is JSON or nothing, and has no lines for its errors: read as
# YAML it would take a hundred times as long.
MAX_FLOW_CHARACTERS: Final = 256 * 1024

# What follows on the line belongs to the document.
_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
# Empty lines and comments; lines end where str.splitlines has them end.
_NOTHING = re.compile(r"(?:\s++|#[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*+)*+\Z")
_LIKE_JSON = re.compile(r"\s*+[\[{]")

_JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a document.

    Attributes:
        number: Counted from 1.
        first_line: Line of the file where it begins, counted from 1.
    """

    number: int
    first_line: int
    text: str


def documents(text: str) -> Iterator[Text]:
    """Yield the documents that hold anything; empty ones count for the number all the same."""
    start, number, line = 0, 1, 1
    breaks = [match.span() for match in _SEPARATOR.finditer(text)]
    for end, after in [*breaks, (len(text), 0)]:
        part = text[start:end]
        if not _NOTHING.match(part):
            yield Text(number, line, part)
            number += 1
        elif start:
            number += 1
        line += text.count("\n", start, end)
        start = after


def is_like_json(text: str) -> bool:
    """Tell whether a text begins like JSON."""
    return bool(_LIKE_JSON.match(text))


def parse(text: str, budget: Budget | None) -> object:
    """Return the value of a document.

    Args:
        text: JSON or YAML.
        budget: How many values it may have; None for what is not from strangers.

    Raises:
        Unparsable: It is neither, has a key twice or more than it may.
    """
    if not is_like_json(text):
        return yaml_text.load(text, budget)
    if budget is not None:
        _count_json(text, budget)
    try:
        value = cast("object", orjson.loads(text))
        json.loads(text, object_pairs_hook=_see_that_none_is_twice)  # orjson keeps the last
    except orjson.JSONDecodeError as error:
        if len(text) <= MAX_FLOW_CHARACTERS:
            with suppress(Unparsable):  # YAML in flow style begins like JSON
                return yaml_text.load(text)
        raise Unparsable(f"no JSON: {error.msg}", error.lineno - 1) from None
    except RecursionError:
        raise Unparsable("nested too deeply") from None
    except _KeyTwice as error:
        if len(text) <= MAX_FLOW_CHARACTERS:
            _raise_with_line(text)
        raise Unparsable(str(error)) from None
    return value


class _KeyTwice(Exception):
    """An object has a key twice."""


def _see_that_none_is_twice(members: list[tuple[str, JSONValue]]) -> None:
    if len(dict(members)) == len(members):
        return
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise _KeyTwice(f"the key {name[:100]!r} is there twice")
        seen.add(name)


def _raise_with_line(text: str) -> None:
    """Raise what is wrong with a JSON text as YAML, which it mostly is: that has lines."""
    try:
        yaml_text.load(text)
    except Unparsable as error:
        if error.line:
            raise


def _count_json(text: str, budget: Budget) -> None:
    """See that a JSON text has no more values than it may, before they are made.

    Each value but the first of an array or object comes after a comma, each key before a colon.
    Where there are too many such characters, those in strings are left out, which takes longer.
    """
    count = 1 + _marks(text)
    budget.spend(count if count <= budget.left else 1 + _marks(_JSON_STRING.sub("", text)))


def _marks(text: str) -> int:
    return sum(map(text.count, ",:[{"))


@dataclass(slots=True)
class _Wanted:
    """Fields that are looked for, below each other.

    Attributes:
        line: Where it was found, from 0.
    """

    below: "dict[str | int, _Wanted]" = field(default_factory=dict[str | int, "_Wanted"])
    line: int | None = None


def lines(text: str, paths: Sequence[Path]) -> list[int]:
    """Return the line, from 0, where each field begins, or the closest that is there.

    What an alias stands for is not looked into: its own line is the closest.

    Raises:
        yaml.YAMLError: It is no YAML.
    """
    root = _Wanted()
    for path in paths:
        wanted = root
        for step in path:
            wanted = wanted.below.setdefault(step, _Wanted())
    events = yaml.parse(text, yaml.CSafeLoader)
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            _walk(event, events, root)
            break
    return [_line(root, path) for path in paths]


def _line(root: _Wanted, path: Iterable[str | int]) -> int:
    line, wanted = 0, root
    for step in path:
        wanted = wanted.below[step]
        if wanted.line is None:
            break
        line = wanted.line
    return line


def _walk(first: yaml.Event, events: Iterator[yaml.Event], root: _Wanted) -> None:
    """Go through a node, no deeper than something is wanted."""
    if isinstance(first, yaml.MappingStartEvent):
        for key in events:
            if isinstance(key, yaml.MappingEndEvent):
                return
            wanted = root.below.get(key.value) if isinstance(key, yaml.ScalarEvent) else None
            if not isinstance(key, yaml.ScalarEvent):
                _skip(key, events)
            _take(key, next(events), events, wanted)
    elif isinstance(first, yaml.SequenceStartEvent):
        for place, item in enumerate(events):
            if isinstance(item, yaml.SequenceEndEvent):
                return
            _take(item, item, events, root.below.get(place))


def _take(
    begin: yaml.Event, value: yaml.Event, events: Iterator[yaml.Event], wanted: _Wanted | None
) -> None:
    """Go through a value that begins with an event; note where its name or it itself does."""
    if wanted is None or wanted.line is not None:
        _skip(value, events)
        return
    wanted.line = begin.start_mark.line if begin.start_mark else 0
    _walk(value, events, wanted)


def _skip(first: yaml.Event, events: Iterator[yaml.Event]) -> None:
    """Go through a node of which nothing is wanted."""
    depth = int(isinstance(first, yaml.CollectionStartEvent))
    while depth > 0:
        event = next(events)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
