"""The text of manifests: documents, duplicate keys of JSON, and the lines of fields and errors."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import yaml

from apidiscovery_formats.openapi.pointers import Path
from apidiscovery_formats.yaml_text import Unparsable

# The rest of the line belongs to the document.
_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
# Empty lines and comments; lines end as in str.splitlines.
_EMPTY = re.compile(r"(?:\s++|#[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*+)*+\Z")
_LIKE_JSON = re.compile(r"\s*+[\[{]")


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

    def line_of(self, error: Unparsable) -> int:
        """Return the line of an error in the file, from 1: at most the last that is not blank.

        A parser reports what is missing at the end of the text.
        """
        last = self.text.count("\n", 0, len(self.text.rstrip()))
        return self.first_line + min(error.line, last)


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
    """Return whether a text begins like JSON."""
    return bool(_LIKE_JSON.match(text))


def members(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return the JSON object of keys and values, as the `object_pairs_hook` of a decoder.

    Raises:
        Unparsable: It has a duplicate key; the line is not known.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                raise Unparsable(f"the key {name[:100]!r} is there twice")
            seen.add(name)
    return found


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
