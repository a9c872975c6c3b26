"""Reads untrusted YAML into values that JSON can represent.

libyaml parses events, from which values are built without recursion. PyYAML's own constructors
recurse in C, where deep nesting crashes the process, silently keep the last of two equal keys, turn
dates into objects, and let tags run code.

Plain scalars have kubectl's meaning: YAML 1.1 as sigs.k8s.io/yaml reads it, in which `y` and `n`
are booleans, dates and numbers of base 60 are text, and keys become text, `on` as much as `true`.
Sources: goyaml.v2/resolve.go, yaml.go:convertToJSONableObject.
"""

import math
import re
from collections.abc import Callable
from typing import TypeAlias, TypeGuard

import yaml

# Schemas have two levels for each field; the deepest CRD of the golden files has 38.
MAX_DEPTH = 128

# Including the values behind aliases: nine lines can expand to a thousand million values.
MAX_VALUES = 5_000_000

STRING_TAGS = ("!", "tag:yaml.org,2002:str")
MERGE = "<<"

_WORDS: tuple[tuple[str, bool | None], ...] = (
    ("null", None),
    ("true", True),
    ("yes", True),
    ("y", True),
    ("on", True),
    ("false", False),
    ("no", False),
    ("n", False),
    ("off", False),
)
CONSTANTS: dict[str, bool | None] = {
    form: value for word, value in _WORDS for form in (word, word.capitalize(), word.upper())
}
CONSTANTS.update(dict.fromkeys(("", "~")))
_INTEGERS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"[-+]?0b[01_]+"), 2),
    (re.compile(r"[-+]?0x[0-9a-fA-F_]+"), 16),
    (re.compile(r"[-+]?0o?[0-7_]+"), 8),
    (re.compile(r"[-+]?[0-9][0-9_]*"), 10),
)
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
MAX_DIGITS = 400
_INTEGER_LIMIT = 2**64
_BEYOND_FLOATS = (math.inf, -math.inf)

_Scalar: TypeAlias = str | int | float | bool | None


class Unparsable(Exception):
    """A text is not YAML that JSON can represent.

    Attributes:
        line: Counted from 0.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class Budget:
    """The number of values that several texts may have together.

    Attributes:
        values: The whole budget.
        left: The rest of it.
    """

    def __init__(self, values: int = MAX_VALUES) -> None:
        self.values = values
        self.left = values

    def spend(self, count: int, line: Callable[[], int] = lambda: 0) -> None:
        """Count values.

        Raises:
            Unparsable: The budget is exceeded.
        """
        self.left -= count
        if self.left < 0:
            raise Unparsable(f"more than {self.values} values", line())


def load(text: str, budget: Budget | None = None) -> object:
    """Return the value of a YAML document, None for an empty one.

    Args:
        text: The document.
        budget: The number of values that it may have, by default `MAX_VALUES`.

    Raises:
        Unparsable: It is not YAML, nested deeper than `MAX_DEPTH`, or exceeds the budget; it has a
            duplicate key, a tag, a number that JSON cannot represent, or a second document.
    """
    try:
        return _Builder(text, budget or Budget()).build()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise Unparsable(f"no YAML: {error.problem}", mark.line if mark else 0) from None
    except (yaml.YAMLError, ValueError) as error:
        raise Unparsable(f"no YAML: {error}") from None


def plain(text: str) -> _Scalar:
    """Return the value of an unquoted scalar.

    Raises:
        ValueError: It is infinite, not a number, or longer than `MAX_DIGITS`.
    """
    if text in CONSTANTS:
        return CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    if NO_NUMBER.fullmatch(text):
        raise ValueError(f"{text} is nothing that JSON has")
    number = _number(text)
    return text if number is None or number in _BEYOND_FLOATS else number


def _number(text: str) -> int | float | None:
    """Return the number in a text, None for none; infinite where it exceeds floats, text to Go."""
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(text):
            return _integer(text.replace("_", ""), base)
    return float(text.replace("_", "")) if _FLOAT.fullmatch(text) else None


def _integer(digits: str, base: int) -> int | float:
    """Return an integer, as a float beyond 64 bits, as in Go."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    number = int(digits.replace("0o", "0") if base == 8 else digits, base)  # noqa: PLR2004
    if -_INTEGER_LIMIT // 2 <= number < _INTEGER_LIMIT:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _is_mapping(value: object) -> TypeGuard[dict[object, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


class _Level:
    """An open mapping or sequence.

    Attributes:
        anchor: Its name for aliases, None for none.
        before: The number of values of the document when it began.
    """

    __slots__ = ("_at_key", "_key", "_merged", "anchor", "before", "value")

    def __init__(
        self, value: "dict[object, object] | list[object]", anchor: str | None, before: int
    ) -> None:
        self.value = value
        self.anchor = anchor
        self.before = before
        self._at_key = True
        self._key: object = None
        self._merged: list[dict[object, object]] = []

    def add(self, value: object, line: Callable[[], int], *, merge: bool = False) -> None:
        """Add the next key, value or element; `merge` marks a merge key (`<<`)."""
        container = self.value
        if isinstance(container, list):
            container.append(value)
        elif self._at_key:
            self._take_key(container, _MERGE_KEY if merge else value, line)
        else:
            if self._key is _MERGE_KEY:
                self._merge(value, line)
            else:
                container[self._key] = value
            self._at_key = True

    def _take_key(
        self, container: dict[object, object], key: object, line: Callable[[], int]
    ) -> None:
        hint = ""
        if key is not _MERGE_KEY and not isinstance(key, str):
            if isinstance(key, bool):
                hint = "; unquoted, y, yes and on are true, n, no and off are false"
            key = _key_text(key, line)
        if key in container:
            raise Unparsable(f"the key {str(key)[:100]!r} is there twice{hint}", line())
        if key is not _MERGE_KEY:
            container[key] = None
        self._key = key
        self._at_key = False

    def _merge(self, value: object, line: Callable[[], int]) -> None:
        found = value if _is_list(value) else [value]
        for one in found:
            if not _is_mapping(one):
                raise Unparsable("no YAML: want an object to merge", line())
            self._merged.append(one)

    def end(self) -> object:
        """Return the finished value; its own keys override merged ones."""
        if isinstance(self.value, dict):
            for merged in self._merged:
                for key, value in merged.items():
                    self.value.setdefault(key, value)
        return self.value


_MERGE_KEY = object()


def _key_text(key: object, line: Callable[[], int]) -> str:
    """Return a key as JSON has it: text."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and -_INTEGER_LIMIT // 2 <= key < _INTEGER_LIMIT // 2:
        return str(key)
    # Go writes a key with the precision of 32 bits, %g with six digits.
    if isinstance(key, float) and float(text := f"{key:g}") == key:
        return text
    if isinstance(key, int | float):
        seen = f"the number {key}"
    else:
        seen = "null" if key is None else "an object or a list"
    raise Unparsable(f"no YAML: a key is {seen}; want text", line())


class _Builder:
    """Builds the value of one document."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._budget = budget
        self._parser = yaml.CSafeLoader(text)
        self._open: list[_Level] = []
        # By anchor: the value and the number of values in it; None while it is open.
        self._anchors: dict[str, tuple[object, int] | None] = {}
        self._count = 0
        self._result: object = None
        self._event: yaml.Event | None = None

    def build(self) -> object:
        """Return the value of the document."""
        try:
            return self._build()
        finally:
            self._parser.dispose()

    def _build(self) -> object:
        get_event = self._parser.get_event
        documents = 0
        while not isinstance(event := get_event(), yaml.StreamEndEvent):
            self._event = event
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._begin(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise Unparsable("no YAML: a second document begins", self._line())
        return self._result

    def _line(self) -> int:
        mark = self._event.start_mark if self._event else None
        return mark.line if mark else 0

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        tag = event.tag
        value: _Scalar = event.value
        merge = False
        if tag is not None:
            self._check_tag(tag)
        elif event.implicit[0]:
            merge = value == MERGE
            try:
                value = plain(event.value)
            except ValueError as error:
                raise Unparsable(f"no YAML: {error}", self._line()) from None
        self._add(value, 1, merge=merge)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)

    def _check_tag(self, tag: str) -> None:
        if tag not in STRING_TAGS:
            raise Unparsable(f"no YAML: tags are not understood, got {tag!r}", self._line())

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if event.tag is not None and event.tag != "!":
            raise Unparsable(f"no YAML: tags are not understood, got {event.tag!r}", self._line())
        if len(self._open) == MAX_DEPTH:
            raise Unparsable(f"nested deeper than {MAX_DEPTH} levels", self._line())
        value: dict[object, object] | list[object] = (
            {} if isinstance(event, yaml.MappingStartEvent) else []
        )
        self._open.append(_Level(value, event.anchor, self._count))
        self._take(1)
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _end(self) -> None:
        level = self._open.pop()
        value = level.end()
        if level.anchor is not None:
            self._anchors[level.anchor] = (value, self._count - level.before)
        self._add(value, 0)

    def _alias(self, event: yaml.AliasEvent) -> None:
        name = event.anchor or ""
        if name not in self._anchors:
            raise Unparsable(f"no YAML: found undefined alias {name!r}", self._line())
        found = self._anchors[name]
        if found is None:
            raise Unparsable("no YAML: a value contains itself", self._line())
        self._add(*found)

    def _add(self, value: object, count: int, *, merge: bool = False) -> None:
        """Add a value to the open collection; `count` values of it are not yet counted."""
        self._take(count)
        if self._open:
            self._open[-1].add(value, self._line, merge=merge)
        else:
            self._result = value

    def _take(self, count: int) -> None:
        self._count += count
        self._budget.spend(count, self._line)
