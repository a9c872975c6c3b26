"""YAML from strangers into values.

libyaml builds nested values by recursion in C, where too much nesting ends the process, keeps the
last of two equal keys without a word, and lets tags run constructors that fail in ways of their
own. So the events of a document are looked through first: they are flat.
"""

from typing import cast

import yaml

# Discovery documents have ten levels.
MAX_DEPTH = 64

_STRING_TAG = "tag:yaml.org,2002:str"


class Unparsable(Exception):
    """A text is not what it should be.

    Attributes:
        line: Where, counted from 0.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def load(text: str) -> object:
    """Return the value of a YAML document, None of an empty one.

    Raises:
        Unparsable: It is no YAML, nested deeper than `MAX_DEPTH`, has a key twice or a tag.
    """
    try:
        check(text)
        return cast("object", yaml.load(text, yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise Unparsable(f"no YAML: {error.problem}", mark.line if mark else 0) from None
    except (yaml.YAMLError, ValueError) as error:
        raise Unparsable(f"no YAML: {error}") from None
    except RecursionError:
        raise Unparsable("no YAML: a value contains itself") from None


def _line(event: yaml.Event) -> int:
    return event.start_mark.line if event.start_mark else 0


class _Level:
    """A mapping or sequence that is open."""

    def __init__(self, *, mapping: bool) -> None:
        self._mapping = mapping
        self._keys: set[str] = set()
        self._at_key = mapping

    def add(self, event: yaml.Event) -> None:
        """Take the next key, value or element."""
        if not self._mapping:
            return
        if self._at_key and isinstance(event, yaml.ScalarEvent):
            key: str = event.value
            if key in self._keys:
                raise Unparsable(f"the key {key[:100]!r} is there twice", _line(event))
            self._keys.add(key)
        self._at_key = not self._at_key


def check(text: str) -> None:
    """Look through a YAML text without building anything.

    Raises:
        Unparsable: As `load`.
        yaml.YAMLError: It is no YAML.
    """
    open_levels: list[_Level] = []
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            open_levels.pop()
            continue
        if isinstance(event, yaml.NodeEvent):
            tag = getattr(event, "tag", None)
            if tag not in (None, "!", _STRING_TAG):
                raise Unparsable(f"no YAML: tags are not understood, got {tag!r}", _line(event))
            if open_levels:
                open_levels[-1].add(event)
        if isinstance(event, yaml.CollectionStartEvent):
            open_levels.append(_Level(mapping=isinstance(event, yaml.MappingStartEvent)))
            if len(open_levels) > MAX_DEPTH:
                raise Unparsable(f"nested deeper than {MAX_DEPTH} levels", _line(event))
