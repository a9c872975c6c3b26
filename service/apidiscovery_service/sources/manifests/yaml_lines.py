"""Where fields stand in a YAML document.

Found in the events, of which each is a call of its own: composing nodes is one call for all of a
document, a second long for the largest that lines are looked for in.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import yaml

from apidiscovery_service.sources.discovery_list import Path


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
