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

# Longer text that begins like JSON is read as JSON only, and its errors have no lines: as YAML it
# takes a hundred times as long.
MAX_FLOW_CHARACTERS: Final = 256 * 1024

# The rest of the line belongs to the document.
_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
# Empty lines and comments; lines end as in str.splitlines.
_EMPTY = re.compile(r"(?:\s++|#[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*+)*+\Z")
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
    """Yield the documents that are not empty; empty ones count for the number."""
    start, number, line = 0, 1, 1
    breaks = [match.span() for match in _SEPARATOR.finditer(text)]
    for end, after in [*breaks, (len(text), 0)]:
        part = text[start:end]
        if not _EMPTY.match(part):
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
        budget: The number of values it may have; None for trusted text.

    Raises:
        Unparsable: It is neither, has a duplicate key or too many values.
    """
    if not is_like_json(text):
        return yaml_text.load(text, budget)
    if budget is not None:
        _count_json(text, budget)
    try:
        value = cast("object", orjson.loads(text))
        json.loads(text, object_pairs_hook=_refuse_duplicates)  # orjson keeps the last
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
    """An object has a duplicate key."""


def _refuse_duplicates(members: list[tuple[str, JSONValue]]) -> None:
    if len(dict(members)) == len(members):
        return
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise _KeyTwice(f"the key {name[:100]!r} is there twice")
        seen.add(name)


def _raise_with_line(text: str) -> None:
    """Raise the error of JSON text as YAML, which most JSON is: it has a line."""
    try:
        yaml_text.load(text)
    except Unparsable as error:
        if error.line:
            raise


def _count_json(text: str, budget: Budget) -> None:
    """Take the values of a JSON text from a budget, before they are created.

    Each value but the first of an array or object follows a comma, each key precedes a colon. If
    there are too many such characters, those in strings are not counted, which takes longer.
    """
    count = 1 + _marks(text)
    budget.spend(count if count <= budget.left else 1 + _marks(_JSON_STRING.sub("", text)))


def _marks(text: str) -> int:
    return sum(map(text.count, ",:[{"))


@dataclass(slots=True)
class _Wanted:
    """A field to find, and fields below it.

    Attributes:
        line: Its line, from 0; None until it is found.
    """

    below: "dict[str | int, _Wanted]" = field(default_factory=dict[str | int, "_Wanted"])
    line: int | None = None


def lines(text: str, paths: Sequence[Path]) -> list[int]:
    """Return the line, from 0, of each field in YAML text, or of the closest field around it.

    Fields below an alias have the line of the alias. Events are read, of which each is a call of
    its own. Composing nodes is a single call for the whole document, which blocks all threads for
    a second with the largest documents.

    Raises:
        yaml.YAMLError: The text is not YAML.
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
    """Read a node, no deeper than wanted fields are."""
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
    """Read a value; note the line where its name or, in a list, the value itself begins."""
    if wanted is None or wanted.line is not None:
        _skip(value, events)
        return
    wanted.line = begin.start_mark.line if begin.start_mark else 0
    _walk(value, events, wanted)


def _skip(first: yaml.Event, events: Iterator[yaml.Event]) -> None:
    """Read a node without wanted fields."""
    depth = int(isinstance(first, yaml.CollectionStartEvent))
    while depth > 0:
        event = next(events)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
