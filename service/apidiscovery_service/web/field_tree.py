"""The fields of a kind as a tree: its first level, and those along one open path.

A path has the names of fields with dots between them, as `kubectl explain` takes it: fields of the
items of a list, and of the values of a map, come right after the name of the list or map.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from apidiscovery_formats.openapi.traversal import Object, as_object, is_object
from markupsafe import Markup

from apidiscovery_service.web import descriptions
from apidiscovery_service.web.descriptions import visible_text
from apidiscovery_service.web.field_facts import CelRule, Fact, facts, rules
from apidiscovery_service.web.field_schemas import Outline, Schemas

PAGE: Final = 200
"""Fields of one level that are shown at a time."""

MAX_PATH: Final = 4000
"""Characters of a path."""

# Above the last levels of an open path only the fields on it are shown.
_WHOLE_LEVELS = 8
_MAX_NAME = 120

Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field.

    Attributes:
        path: Its path, which links name.
        parent: The path of the field that it is in; empty at the top.
        name: As it is shown.
        type: Such as `[]Container`.
        facts: The constraints of a value.
        item_facts: The same of the items of a list, or the values of a map.
        rules: In CEL, of the value and of its items.
        description: Short, or whole where the field is open.
        opens: Whether a closed field hides a part of it.
        level: The fields in it; None while it is closed, or has none.
        is_open: Whether all of it is shown.
    """

    path: str
    parent: str
    name: str
    type: str
    is_required: bool
    facts: tuple[Fact, ...]
    item_facts: tuple[Fact, ...]
    rules: tuple[CelRule, ...]
    description: Markup
    opens: bool
    is_open: bool = False
    level: "Level | None" = None


@dataclass(frozen=True, slots=True)
class Level:
    """Fields beside each other, sorted by name.

    Attributes:
        path: Of the field that they are in; empty at the top.
        total: How many there are in all.
        start: How many of them come before those that are shown.
        is_cut: Whether only the field on the open path is shown.
    """

    path: str
    fields: tuple[Field, ...]
    total: int
    start: int
    is_cut: bool = False

    @property
    def previous(self) -> int | None:
        """Return where the fields before these start; None without any."""
        return max(0, self.start - PAGE) if self.start and not self.is_cut else None

    @property
    def next(self) -> int | None:
        """Return where the fields after these start; None without any."""
        end = self.start + len(self.fields)
        return end if end < self.total and not self.is_cut else None


class FieldTree:
    """The fields of one kind."""

    def __init__(self, schemas: Schemas, root: Object) -> None:
        self._schemas = schemas
        self._root = root

    def find(self, path: str) -> Names:
        """Return the names along a path, as far as there are such fields."""
        if len(path) > MAX_PATH or not path:
            return ()
        return self._longest(path.split("."))

    def _longest(self, steps: Sequence[str]) -> Names:
        """Return the names of fields along steps, of which a name with dots takes several."""
        best: Names = ()
        best_end = 0
        tried: set[tuple[int, int]] = set()
        pending: list[tuple[Object, Names, int]] = [(self._root, (), 0)]
        while pending:
            schema, names, start = pending.pop()
            if start > best_end:
                best, best_end = names, start
            if start == len(steps):
                break
            properties = self._schemas.outline(schema).properties
            longest = max((name.count(".") for name in properties), default=-1) + 1
            for end in range(min(start + longest, len(steps)), start, -1):
                inner = properties.get(name := ".".join(steps[start:end]))
                if is_object(inner) and (id(inner), end) not in tried:
                    tried.add((id(inner), end))
                    pending.append((inner, (*names, name), end))
        return best

    def tree(self, names: Names, start: int | None = None) -> Level:
        """Return the first level, with the fields open along a path.

        Args:
            names: Along the path.
            start: Where the fields of the last level that are shown start.
        """
        chain = self._chain(names)
        level: Level | None = None
        for depth in range(len(names), -1, -1):
            way = names[:depth]
            opened = names[depth] if depth < len(names) else None
            is_cut = opened is not None and depth < len(names) - _WHOLE_LEVELS
            shown = self._level(chain[depth], way, start if opened is None else None, opened)
            if is_cut:
                fields = tuple(
                    each for each in shown.fields if each.path == _path(names[: depth + 1])
                )
                shown = replace(shown, fields=fields, is_cut=True)
            level = _opened(shown, _path(names[: depth + 1]), level) if opened else shown
        if level is None:
            raise AssertionError("the first level is always made")
        return level

    def field(self, names: Names, *, is_open: bool, start: int | None = None) -> Field:
        """Return the field at a path of at least one name, without those around it."""
        chain = self._chain(names)
        value = chain[-2].properties[names[-1]]
        is_required = names[-1] in chain[-2].required
        found = self._field(value, names, is_required=is_required, is_open=is_open)
        level = self._level(chain[-1], names, start, None) if is_open else None
        return replace(found, level=level if level and level.total else None)

    def level(self, names: Names, start: int) -> Level:
        """Return some of the fields in a field; of no names, of the first level."""
        return self._level(self._chain(names)[-1], names, start, None)

    def _chain(self, names: Names) -> list[Outline]:
        """Return the kind itself, and each field along a path."""
        chain = [self._schemas.outline(self._root)]
        for name in names:
            chain.append(self._schemas.outline(as_object(chain[-1].properties[name])))
        return chain

    def _level(self, within: Outline, names: Names, start: int | None, opened: str | None) -> Level:
        """Return fields in a field: those from `start`, or those around the opened one."""
        properties = within.properties
        ordered = sorted(properties)
        if opened is not None:
            start = ordered.index(opened) // PAGE * PAGE
        start = min(max(start or 0, 0), len(ordered))
        required = frozenset(within.required)
        fields = tuple(
            self._field(
                properties[name],
                (*names, name),
                is_required=name in required,
                is_open=name == opened,
            )
            for name in ordered[start : start + PAGE]
        )
        return Level(_path(names), fields, len(ordered), start)

    def _field(self, value: object, names: Names, *, is_required: bool, is_open: bool) -> Field:
        outline = self._schemas.outline(as_object(value))
        whole = outline.whole
        item = outline.inner if outline.inner is not whole else {}
        own = whole.get("description")
        text = own if isinstance(own, str) else ""
        described = descriptions.whole(text) if is_open else descriptions.short(text)
        name = names[-1]
        return Field(
            _path(names),
            _path(names[:-1]),
            visible_text(name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"),
            visible_text(outline.type_name),
            is_required,
            tuple(facts(whole)),
            tuple(facts(item)),
            (*rules(whole), *rules(item)),
            described,
            bool(outline.properties) or not descriptions.is_short(text),
            is_open,
        )


def _opened(level: Level, path: str, inner: Level | None) -> Level:
    """Return a level in which the field with a path has others in it."""
    inner = inner if inner and inner.total else None
    fields = (replace(each, level=inner) if each.path == path else each for each in level.fields)
    return replace(level, fields=tuple(fields))


def _path(names: Names) -> str:
    return ".".join(names)
