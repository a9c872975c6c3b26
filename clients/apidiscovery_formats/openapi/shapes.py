"""What a value may be: shapes that are put together into tables, and the run that looks at one.

Values are looked at from the outermost in, by functions that call each other: the depth of what is
looked at has to be bounded before. Errors come in the order of the document; those about an object
as a whole come after those about its fields.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, cast

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.openapi.places import Place, Problem, path_of
from apidiscovery_formats.openapi.pointers import resolve

Object: TypeAlias = dict[str, JSONValue]

_SHOWN = 60

# Characters of a regular expression: prometheus-operator has one of 221.
_MAX_PATTERN = 10_000

_COMPONENT = re.compile(r"#/components/[^/]*/[^/]*")

# In place of what is not there.
_NO_FIELDS: Object = {}

# What may stand beside `$ref`, where OpenAPI 3.0 ignores everything: gnostic keeps these.
_BESIDE_REF = frozenset({"$ref", "summary", "description"})


def seen(value: object) -> str:
    """Say what a value is, in a few words."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
        case int() | float():
            return str(value)
        case dict():
            return "an object"
        case _:
            return "a list"


def as_object(value: object) -> Object:
    """Return an object; an empty one in place of anything else."""
    return cast("Object", value) if isinstance(value, dict) else _NO_FIELDS


def as_list(value: object) -> Sequence[JSONValue]:
    """Return a list; an empty one in place of anything else."""
    return cast("list[JSONValue]", value) if isinstance(value, list) else ()


class EnoughError(Exception):
    """As many problems have been found as are told."""


class Run:
    """One document that is looked at, and what was found.

    Attributes:
        published: Whether a server is to publish it.
        components: Its components, by section.
        operation_ids: The place of each operationId that was met.
        links: Links by operationId, which may name an operation that comes later.
        problems: What was found, in the order of the document.
    """

    def __init__(self, document: Object, most: int, *, published: bool) -> None:
        self.published = published
        self._document = document
        self._most = most
        self.components = {
            section: as_object(content)
            for section, content in as_object(document.get("components")).items()
        }
        self.operation_ids: dict[str, Place] = {}
        self.links: list[tuple[Place, str]] = []
        self.problems: list[Problem] = []

    def wrong(self, place: Place, message: str) -> None:
        """Note what is wrong.

        Raises:
            EnoughError: That is enough.
        """
        self.problems.append(Problem(path_of(place), message))
        if len(self.problems) >= self._most:
            raise EnoughError

    def reference(self, value: Object, section: str, place: Place) -> None:
        """Look at an object that stands for a component."""
        for name in value:
            if name not in _BESIDE_REF:
                self.wrong((place, name), "want nothing beside $ref but summary and description")
        for name in ("summary", "description"):
            if not isinstance(value.get(name, ""), str):
                self.wrong((place, name), f"want a string, got {seen(value[name])}")
        if self.component(value, section) is not None:
            return
        target = value["$ref"]
        if target_of(value, section) is None:
            message = f"want #/components/{section}/NAME, got {seen(target)}"
        else:
            message = f"{seen(target)} is not in the document"
        self.wrong((place, "$ref"), message)

    def component(self, value: Object, section: str) -> JSONValue:
        """Return the component that a reference names; None if there is none.

        What is not to be published may also refer to a part of something.
        """
        name = target_of(value, section)
        if name is not None and (self.published or "/" not in name):
            return self.components.get(section, _NO_FIELDS).get(name)
        target = value.get("$ref")
        is_of_others = isinstance(target, str) and _COMPONENT.fullmatch(target)
        if self.published or is_of_others:
            return None
        return cast("JSONValue", resolve(target, self._document))


def target_of(value: Object, section: str) -> str | None:
    """Return the name of the component that an object refers to; None if it refers to none."""
    target = value.get("$ref")
    prefix = f"#/components/{section}/"
    if isinstance(target, str) and target.startswith(prefix):
        return target[len(prefix) :]
    return None


Rule: TypeAlias = Callable[[Object, Place, Run], None]


class Shape(Protocol):
    """What a value may be.

    Attributes:
        quick: Types of values that need no closer look.
    """

    @property
    def quick(self) -> frozenset[type]: ...

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        ...


_NONE: frozenset[type] = frozenset()


@dataclass(frozen=True, slots=True)
class Scalar:
    """Any value of some types."""

    quick: frozenset[type]
    wanted: str

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if type(value) not in self.quick:
            run.wrong(place, f"want {self.wanted}, got {seen(value)}")


STRING = Scalar(frozenset({str}), "a string")
BOOLEAN = Scalar(frozenset({bool}), "true or false")
NUMBER = Scalar(frozenset({int, float}), "a number")
ANY = Scalar(frozenset({str, int, float, bool, dict, list, type(None)}), "anything")


@dataclass(frozen=True, slots=True)
class Above:
    """A number that is not too small."""

    least: int
    wanted: str
    types: frozenset[type]
    exclusive: bool = False
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if isinstance(value, int | float) and type(value) in self.types:
            enough = value > self.least if self.exclusive else value >= self.least
            if enough:
                return
        run.wrong(place, f"want {self.wanted}, got {seen(value)}")


COUNT = Above(0, "an integer of 0 or more", frozenset({int}))
POSITIVE = Above(0, "a number above 0", frozenset({int, float}), exclusive=True)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some strings."""

    values: frozenset[str]
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if not isinstance(value, str) or value not in self.values:
            run.wrong(place, f"want one of {', '.join(sorted(self.values))}, got {seen(value)}")


def choice(*values: str) -> Choice:
    """Return the shape of one of some strings."""
    return Choice(frozenset(values))


@dataclass(frozen=True, slots=True)
class Matching:
    """A string of a form."""

    pattern: re.Pattern[str]
    wanted: str
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if not isinstance(value, str) or not self.pattern.fullmatch(value):
            run.wrong(place, f"want {self.wanted}, got {seen(value)}")


@dataclass(frozen=True, slots=True)
class RegularExpression:
    """A regular expression, of the dialect of ECMA-262: it is not tried, only bounded."""

    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if not isinstance(value, str):
            run.wrong(place, f"want a regular expression, got {seen(value)}")
        elif len(value) > _MAX_PATTERN:
            run.wrong(place, f"want at most {_MAX_PATTERN} characters, got {len(value)}")


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list.

    Attributes:
        item: What each of its elements is.
        unique: Whether no two are equal; for strings.
    """

    item: Shape
    unique: bool = False
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if not isinstance(value, list):
            run.wrong(place, f"want a list, got {seen(value)}")
            return
        met: set[str] = set()
        quick = self.item.quick
        for number, item in enumerate(value):
            if type(item) not in quick:
                self.item.check(item, (place, number), run)
            if self.unique and isinstance(item, str):
                if item in met:
                    run.wrong((place, number), f"{seen(item)} stands more than once")
                met.add(item)


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose fields have free names.

    Attributes:
        item: What each field is.
        name: What a name must be like; None for anything.
        wanted: The same in words.
        extensions: Whether fields whose names begin with x- may be anything.
        section: Of the components, which a reference may stand for; empty for none.
        rule: What else must hold.
    """

    item: Shape
    name: re.Pattern[str] | None = None
    wanted: str = ""
    extensions: bool = False
    section: str = ""
    rule: Rule | None = None
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if not isinstance(value, dict):
            run.wrong(place, f"want an object, got {seen(value)}")
            return
        fields: Object = value
        if self.section and "$ref" in fields:
            run.reference(fields, self.section, place)
            return
        for name, item in fields.items():
            if self.extensions and name.startswith("x-"):
                continue
            if self.name is not None and not self.name.fullmatch(name):
                run.wrong((place, name), f"want {self.wanted} as name")
            if type(item) not in self.item.quick:
                self.item.check(item, (place, name), run)
        if self.rule is not None:
            self.rule(fields, place, run)


@dataclass(slots=True)
class Record:
    """An object with fields of its own, and extensions.

    Attributes:
        fields: What each is, by name; filled later where objects contain each other.
        required: Which must be there.
        section: Of the components, which a reference may stand for; empty for none.
        rule: What else must hold.
    """

    fields: dict[str, Shape] = field(default_factory=dict[str, Shape])
    required: tuple[str, ...] = ()
    section: str = ""
    rule: Rule | None = None
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        if not isinstance(value, dict):
            run.wrong(place, f"want an object, got {seen(value)}")
            return
        given: Object = value
        if self.section and "$ref" in given:
            run.reference(given, self.section, place)
            return
        fields = self.fields
        for name, item in given.items():
            shape = fields.get(name)
            if shape is None:
                if not name.startswith("x-"):
                    run.wrong((place, name), "OpenAPI 3.0 has no such field here")
            elif type(item) not in shape.quick:
                shape.check(item, (place, name), run)
        for name in self.required:
            if name not in given:
                run.wrong(place, f"{name} is required")
        if self.rule is not None:
            self.rule(given, place, run)


@dataclass(frozen=True, slots=True)
class NotPublished:
    """What the specification allows, but not in what is to be published."""

    shape: Shape
    reason: str
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note that it is there, or else what is wrong with it."""
        if run.published:
            run.wrong(place, f"{self.reason}, got {seen(value)}")
        elif type(value) not in self.shape.quick:
            self.shape.check(value, place, run)


@dataclass(frozen=True, slots=True)
class OrBoolean:
    """Something, or true or false."""

    shape: Shape
    quick: frozenset[type] = frozenset({bool})

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Note what is wrong with a value."""
        self.shape.check(value, place, run)
