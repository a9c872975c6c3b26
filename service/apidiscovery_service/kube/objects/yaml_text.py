"""Parses YAML as sigs.k8s.io/yaml does before it decodes JSON, and reports repeated keys.

libyaml parses events, and values are built from them without recursion. Scalars are those of
YAML 1.1 as go-yaml sees them; dates are text. Sources: sigs.k8s.io/yaml yaml.go (YAMLToJSON,
YAMLToJSONStrict) and goyaml.v2/resolve.go.
"""

import math
import re
from dataclasses import dataclass, field
from operator import itemgetter

import yaml
from apidiscovery_formats.go_text import quote
from apidiscovery_formats.yaml_text import CONSTANTS, MAX_DIGITS, MERGE, NO_NUMBER, STRING_TAGS

from apidiscovery_service.kube.objects import limits
from apidiscovery_service.kube.objects.json_text import MAX_DEPTH, Number, Pairs, Tree

_INTEGER = re.compile(r"([-+]?)(?:0([xX][0-9a-fA-F]+|[oO]?[0-7]+|[bB][01]+)|(0|[1-9][0-9]{0,18}))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_VALUES = 2 * limits.MAX_VALUES  # keys and values
_EXPONENT = 1e21  # from here on Go writes a float with an exponent


class NotYAML(ValueError):
    """A text is not YAML, or its value is not possible in JSON; the message is like go-yaml's."""


def parse(body: bytes) -> tuple[Tree, tuple[str, ...]]:
    """Return the value of a YAML document, and its problem for strict decoding, if any.

    A repeated key has its last value; keys are sorted, as Go sorts them in JSON. A second document
    is ignored.

    Raises:
        NotYAML: It is not YAML, its value is not possible in JSON, it has more than `MAX_DEPTH`
            levels, or too many values because of aliases.
        ObjectError: It is too long, or has too many values without aliases; 413.
    """
    limits.check_size(body, limits.MAX_YAML_BYTES)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise NotYAML("yaml: invalid leading UTF-8 octet") from None
    builder = _Builder()
    try:
        tree = builder.build(yaml.CSafeLoader(text))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise NotYAML(f"yaml: line {line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise NotYAML(f"yaml: {error}") from None
    if not builder.duplicates:
        return tree, ()
    return tree, ("\n  ".join(["yaml: unmarshal errors:", *builder.duplicates]),)


@dataclass(slots=True)
class _Open:
    """A mapping or sequence that is open.

    Attributes:
        is_mapping: Whether it is a mapping.
        anchor: Its name for aliases.
        before: The number of values before it.
        items: The elements; of a mapping, keys and values in turn.
    """

    is_mapping: bool
    anchor: str | None
    before: int
    items: list[Tree] = field(default_factory=list["Tree"])
    keys: set[str] = field(default_factory=set[str])

    @property
    def at_key(self) -> bool:
        return self.is_mapping and len(self.items) % 2 == 0


class _Merge(str):
    """The unquoted key `<<`, which merges the keys of other mappings."""

    __slots__ = ()


class _Builder:
    """Builds the value of one document.

    Attributes:
        duplicates: The message of go-yaml for each repeated key.
    """

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self._open: list[_Open] = []
        # The value of a name and the number of values in it; None while it is open.
        self._anchors: dict[str, tuple[Tree, int] | None] = {}
        self._count = 0
        self._result: Tree = None

    def build(self, parser: yaml.CSafeLoader) -> Tree:
        """Return the value of the first document, null of an empty text."""
        try:
            while (event := parser.get_event()) and not isinstance(event, _ENDS):
                self._take(event, event.start_mark.line + 1 if event.start_mark else 1)
        finally:
            parser.dispose()
        return self._result

    def _take(self, event: yaml.Event, line: int) -> None:
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event, line)
            self._add(value, 1, line)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._begin(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end(line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", line)

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        if len(self._open) == MAX_DEPTH:
            raise NotYAML(f"yaml: line {line}: exceeded max depth")
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if self._open and self._open[-1].at_key:
            raise NotYAML(f"yaml: line {line}: invalid map key")
        self._open.append(_Open(is_mapping, event.anchor, self._count))
        self._spend(1, line)
        if event.anchor:
            self._anchors[event.anchor] = None

    def _end(self, line: int) -> None:
        level = self._open.pop()
        value: Tree = _mapping(level.items, line) if level.is_mapping else level.items
        if level.anchor:
            self._anchors[level.anchor] = (value, self._count - level.before)
        self._add(value, 0, line)

    def _alias(self, name: str, line: int) -> None:
        found = self._anchors.get(name)
        if found is None:
            what = f"anchor '{name}' value contains itself"
            raise NotYAML(
                f"yaml: {what if name in self._anchors else f'unknown anchor {name!r} referenced'}"
            )
        self._add(*found, line)

    def _add(self, value: Tree, count: int, line: int) -> None:
        """Add a value to the innermost open collection, and count its values."""
        self._spend(count, line)
        if not self._open:
            self._result = value
            return
        level = self._open[-1]
        if level.at_key:
            value = _key(value, line)
            if value in level.keys:
                self.duplicates.append(f"line {line}: key {quote(value)} already set in map")
            level.keys.add(value)
        level.items.append(value)

    def _spend(self, count: int, line: int) -> None:
        self._count += count
        if self._count > _MAX_VALUES:
            if count > 1:  # by an alias: nine lines can be a thousand million values
                raise NotYAML(f"yaml: line {line}: document contains excessive aliasing")
            raise limits.too_much()


_ENDS = (yaml.StreamEndEvent, yaml.DocumentEndEvent)


def _mapping(items: list[Tree], line: int) -> Pairs:
    """Return an object of keys and values in turn, sorted; the last value of a key counts."""
    own: dict[str, Tree] = {}
    merged: dict[str, Tree] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        if isinstance(key, _Merge):
            for source in [value] if isinstance(value, Pairs) else _sources(value, line):
                for name, item in source:
                    merged.setdefault(name, item)
        else:
            own[str(key)] = value
    return Pairs(sorted((merged | own).items(), key=itemgetter(0)))


def _sources(value: Tree, line: int) -> list[Pairs]:
    sources = value if isinstance(value, list) else [value]
    found = [source for source in sources if isinstance(source, Pairs)]
    if len(found) < len(sources):
        raise NotYAML(f"yaml: line {line}: map merge requires map or sequence of maps as the value")
    return found


def _key(value: Tree, line: int) -> str:
    """Return a scalar as a key of JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    raise NotYAML(f"yaml: line {line}: unsupported map key")


def _scalar(event: yaml.ScalarEvent, line: int) -> Tree:
    text: str = event.value
    if event.tag is not None:
        if event.tag not in STRING_TAGS:
            raise NotYAML(f"yaml: line {line}: tag {event.tag} is not supported")
        return text
    if not event.implicit[0]:
        return text
    if text == MERGE:
        return _Merge(text)
    return CONSTANTS[text] if text in CONSTANTS else _number(text, line)


def _number(text: str, line: int) -> str:
    """Return a plain scalar, as a number if it is one."""
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if NO_NUMBER.fullmatch(text) or len(plain) > MAX_DIGITS:
        raise NotYAML(f"yaml: line {line}: {text[:20]} is not a number that JSON has")
    match = _INTEGER.fullmatch(plain)
    if match:
        return Number(_integer(match))
    if not _FLOAT.fullmatch(plain):
        return text
    number = float(plain)
    if not math.isfinite(number):  # too large for go-yaml, which leaves it text
        return text
    return Number(int(number) if number.is_integer() and abs(number) < _EXPONENT else number)


def _integer(match: re.Match[str]) -> int:
    sign, prefixed, decimal = match.groups()
    if decimal is None:
        base = {"x": 16, "b": 2}.get(prefixed[0].lower(), 8)
        value = int(prefixed.lstrip("xXbBoO"), base)
    else:
        value = int(decimal)
    return -value if sign == "-" else value
