"""Shapes of values, which tables combine, and the state of one validation.

Shapes call each other from the outermost value in, so the depth of a document must be bounded
before. Errors are in the order of the document; errors of an object follow those of its fields.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, cast

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.json_values import as_object
from apidiscovery_formats.openapi.pointers import Place, Problem, path_of, resolve

Object: TypeAlias = dict[str, JSONValue]

_SHOWN = 60

# Characters of a regular expression; prometheus-operator has one of 221.
_MAX_PATTERN = 10_000

_COMPONENT = re.compile(r"#/components/[^/]*/[^/]*")

# Fields beside `$ref`: OpenAPI 3.0 ignores all of them, gnostic keeps these.
_BESIDE_REF = frozenset({"$ref", "summary", "description"})


def seen(value: object) -> str:
    """Return a short description of a value."""
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


class LimitReachedError(Exception):
    """The maximum number of errors was reached."""


class Run:
    """The state of the validation of one document.

    Attributes:
        published: Whether a server is to publish it.
        components: Its components, by section.
        operation_ids: The position of each operationId so far.
        links: Links by operationId, which may precede the operation.
        problems: The errors so far, in the order of the document.
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
        """Report an error.

        Raises:
            LimitReachedError: There are enough.
        """
        self.problems.append(Problem(path_of(place), message))
        if len(self.problems) >= self._most:
            raise LimitReachedError

    def reference(self, value: Object, section: str, place: Place) -> None:
        """Check an object that refers to a component."""
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

        A document that is not published may also refer to a part of a component.
        """
        name = target_of(value, section)
        if name is not None and (self.published or "/" not in name):
            return self.components.get(section, {}).get(name)
        target = value.get("$ref")
        is_other_component = isinstance(target, str) and _COMPONENT.fullmatch(target)
        if self.published or is_other_component:
            return None
        return cast("JSONValue", resolve(target, self._document))


def target_of(value: Object, section: str) -> str | None:
    """Return the name of the component of a section that an object refers to, or None."""
    target = value.get("$ref")
    prefix = f"#/components/{section}/"
    if isinstance(target, str) and target.startswith(prefix):
        return target[len(prefix) :]
    return None


Rule: TypeAlias = Callable[[Object, Place, Run], None]


class Shape(Protocol):
    """The values that are allowed somewhere.

    Attributes:
        quick: Types whose values are always allowed; callers skip `check` for them.
    """

    @property
    def quick(self) -> frozenset[type]: ...

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report the errors of a value."""
        ...


_NONE: frozenset[type] = frozenset()


@dataclass(frozen=True, slots=True)
class Scalar:
    """Any value of some types."""

    quick: frozenset[type]
    wanted: str

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report the errors of a value."""
        if type(value) not in self.quick:
            run.wrong(place, f"want {self.wanted}, got {seen(value)}")


STRING = Scalar(frozenset({str}), "a string")
BOOLEAN = Scalar(frozenset({bool}), "true or false")
NUMBER = Scalar(frozenset({int, float}), "a number")
ANY = Scalar(frozenset({str, int, float, bool, dict, list, type(None)}), "anything")


@dataclass(frozen=True, slots=True)
class Where:
    """A value that passes a test."""

    test: Callable[[JSONValue], bool]
    wanted: str
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report a value that does not pass."""
        if not self.test(value):
            run.wrong(place, f"want {self.wanted}, got {seen(value)}")


COUNT = Where(lambda value: type(value) is int and value >= 0, "an integer of 0 or more")
POSITIVE = Where(
    lambda value: (type(value) is int or type(value) is float) and value > 0, "a number above 0"
)


def choice(*values: str) -> Where:
    """Return the shape of one of some strings."""
    return Where(
        lambda value: isinstance(value, str) and value in values,
        f"one of {', '.join(sorted(values))}",
    )


def matching(pattern: re.Pattern[str], wanted: str) -> Where:
    """Return the shape of a string that matches a pattern as a whole."""
    return Where(
        lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None, wanted
    )


@dataclass(frozen=True, slots=True)
class RegularExpression:
    """A regular expression in the dialect of ECMA-262, which is bounded but not compiled."""

    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report the errors of a value."""
        if not isinstance(value, str):
            run.wrong(place, f"want a regular expression, got {seen(value)}")
        elif len(value) > _MAX_PATTERN:
            run.wrong(place, f"want at most {_MAX_PATTERN} characters, got {len(value)}")


PATTERN = RegularExpression()


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list.

    Attributes:
        item: The shape of its elements.
        unique: Whether elements must differ; for strings.
    """

    item: Shape
    unique: bool = False
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report the errors of a value."""
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
                    run.wrong((place, number), f"{seen(item)} is duplicated")
                met.add(item)


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with arbitrary names of fields.

    Attributes:
        item: The shape of its fields.
        name: The pattern of names; None for any name.
        wanted: The pattern in words.
        extensions: Whether fields whose names begin with x- may have any value.
        section: The section of components that references may name; empty for no references.
        rule: Runs after the fields were checked.
    """

    item: Shape
    name: re.Pattern[str] | None = None
    wanted: str = ""
    extensions: bool = False
    section: str = ""
    rule: Rule | None = None
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report the errors of a value."""
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
    """An object with fixed names of fields, and extensions.

    Attributes:
        fields: The shape of each field; filled later where objects contain each other.
        required: Fields that must be present.
        section: The section of components that references may name; empty for no references.
        rule: Runs after the fields were checked.
    """

    fields: dict[str, Shape] = field(default_factory=dict[str, Shape])
    required: tuple[str, ...] = ()
    section: str = ""
    rule: Rule | None = None
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report the errors of a value."""
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
    """A shape that the specification allows, but not in published documents."""

    shape: Shape
    reason: str
    quick: frozenset[type] = _NONE

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report its presence in a published document, otherwise its errors."""
        if run.published:
            run.wrong(place, f"{self.reason}, got {seen(value)}")
        elif type(value) not in self.shape.quick:
            self.shape.check(value, place, run)


@dataclass(frozen=True, slots=True)
class OrBoolean:
    """A shape, or true or false."""

    shape: Shape
    quick: frozenset[type] = frozenset({bool})

    def check(self, value: JSONValue, place: Place, run: Run) -> None:
        """Report the errors of a value."""
        self.shape.check(value, place, run)
