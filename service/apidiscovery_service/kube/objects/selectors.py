r"""Label and field selectors: what a list, a watch or a deletion of many is narrowed to.

Label selectors, such as `app=web,tier in (front, back),!canary`: k8s.io/apimachinery
pkg/labels/selector.go. What it takes is a little wider than it says: `in ()` is the empty value,
`x=` too, and `in` and `notin` are identifiers where a value stands.

Field selectors, such as `metadata.name=apps.deployments,metadata.namespace!=kube-system`: in a
value `\,`, `\=` and `\\` stand for the characters themselves. k8s.io/apimachinery
pkg/fields/selector.go; pkg/runtime/conversion.go:DefaultMetaV1FieldSelectorConversion for which
fields there are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube.objects import errors, field_errors, formats, json_fields
from apidiscovery_service.kube.objects.errors import Cause
from apidiscovery_service.kube.objects.kinds import Object

_SYMBOL_CHARACTERS = "=!(),><"
_TOKEN = re.compile(
    rf"[ \t\r\n]*(?:(==|!=|[{_SYMBOL_CHARACTERS}])|([^{_SYMBOL_CHARACTERS} \t\r\n\0]+))"
)
_INT64 = re.compile(r"[+-]?[0-9]+")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Operator(StrEnum):
    """How a label is compared, as Kubernetes spells it in messages."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_BINARY = tuple(Operator)[:7]
_SYMBOLS = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a selector.

    Attributes:
        values: In ascending order, each once; none for `EXISTS` and `DOES_NOT_EXIST`, one for all
            others but `IN` and `NOT_IN`.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.NOT_IN | Operator.NOT_EQUALS:
                return value not in self.values
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                return self._compares(value)
            case _:
                return value in self.values

    def _compares(self, value: str | None) -> bool:
        seen, wanted = _int64(value or ""), _int64(self.values[0])
        if seen is None or wanted is None:
            return False
        return seen > wanted if self.operator is Operator.GREATER_THAN else seen < wanted


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all be met, sorted by key; without any, all objects match."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_labels(selector: str) -> LabelSelector:
    """Parse the query parameter `labelSelector`.

    Raises:
        ObjectError: It is malformed; 400, with what was found and what was expected.
    """
    try:
        requirements = _Parser(selector).requirements()
    except _Malformed as malformed:
        raise errors.bad_request(str(malformed)) from None
    return LabelSelector(tuple(sorted(requirements, key=lambda one: one.key)))


class _Malformed(Exception):
    """A selector is malformed."""


def _int64(text: str) -> int | None:
    """Read an integer as Go's ParseInt does in base 10."""
    if _INT64.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > len(str(_INT64_MAX)):
        return None
    number = int(text)
    return number if _INT64_MIN <= number <= _INT64_MAX else None


_END = ""


def _is_word(item: str) -> bool:
    return item != _END and item[0] not in _SYMBOL_CHARACTERS


def _scan(selector: str) -> list[str]:
    """Return the words and symbols of a selector, then the empty text that ends it."""
    items: list[str] = []
    position = 0
    # A NUL ends the text, as in the original.
    while match := _TOKEN.match(selector, position):
        items.append(match[1] or match[2])
        position = match.end()
    return [*items, _END]


class _Parser:
    """Parses one selector from left to right; each method consumes what it returns."""

    def __init__(self, selector: str) -> None:
        self._items = _scan(selector)
        self._position = 0

    def _peek(self) -> str:
        return self._items[min(self._position, len(self._items) - 1)]

    def _next(self) -> str:
        item = self._peek()
        self._position += 1
        return item

    def requirements(self) -> list[Requirement]:
        found = list[Requirement]()
        while self._peek() != _END:
            if not _begins_requirement(self._peek()):
                raise _Malformed(
                    f"found '{self._peek()}', expected: !, identifier, or 'end of string'"
                )
            try:
                found.append(self._requirement())
            except _Malformed as malformed:
                raise _Malformed(f"unable to parse requirement: {malformed}") from None
            self._separator()
        return found

    def _separator(self) -> None:
        item = self._next()
        if item == _END:
            return
        if item != ",":
            raise _Malformed(f"found '{item}', expected: ',' or 'end of string'")
        if not _begins_requirement(self._peek()):
            raise _Malformed(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._word()
        wrong = formats.qualified_name(key)
        if wrong:
            raise _Malformed(str(field_errors.invalid("<nil>", key, "; ".join(wrong))))
        if absent:
            return _label_requirement(key, Operator.DOES_NOT_EXIST, set())
        if self._peek() in (_END, ","):
            return _label_requirement(key, Operator.EXISTS, set())
        operator = self._operator()
        if operator in (Operator.IN, Operator.NOT_IN):
            return _label_requirement(key, operator, self._values())
        return _label_requirement(key, operator, {self._exact_value()})

    def _operator(self) -> Operator:
        item = self._next()
        operator = _SYMBOLS.get(item)
        if operator is None:
            raise _Malformed(f"found '{item}', expected: {', '.join(_BINARY)}")
        return operator

    def _exact_value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        return self._word()

    def _word(self) -> str:
        item = self._next()
        if not _is_word(item):
            raise _Malformed(f"found '{item}', expected: identifier")
        return item

    def _values(self) -> set[str]:
        item = self._next()
        if item != "(":
            raise _Malformed(f"found '{item}' expected: '('")
        first = self._peek()
        if first == ")":
            self._next()
            return {""}
        if not _is_word(first) and first != ",":
            raise _Malformed(f"found '{first}', expected: ',', ')' or identifier")
        values = self._list()
        self._next()  # the `)` that ends every list
        return values

    def _list(self) -> set[str]:
        values = set[str]()
        while True:
            item = self._next()
            following = self._peek()
            if _is_word(item):
                values.add(item)
                if following not in (",", ")"):
                    raise _Malformed(f"found '{following}', expected: ',' or ')'")
            elif item == ",":
                # An empty value stands before the first comma and after any that nothing follows.
                if not values or following in (",", ")"):
                    values.add("")
            else:
                raise _Malformed(f"found '{item}', expected: ',', or identifier")
            if following == ")":
                return values


def _begins_requirement(item: str) -> bool:
    return _is_word(item) or item == "!"


def _label_requirement(key: str, operator: Operator, values: set[str]) -> Requirement:
    ordered = tuple(sorted(values))
    causes = [*_operand_errors(operator, ordered)]
    for index, value in enumerate(ordered):
        wrong = formats.label_value(value)
        if wrong:
            place = f"values[{index}][{key}]"
            causes.append(field_errors.invalid(place, value, "; ".join(wrong)))
    if causes:
        raise _Malformed(errors.aggregate([str(cause) for cause in causes]))
    return Requirement(key, operator, ordered)


def _operand_errors(operator: Operator, values: tuple[str, ...]) -> list[Cause]:
    if operator not in (Operator.GREATER_THAN, Operator.LESS_THAN):
        return []
    detail = "for 'Gt', 'Lt' operators, the value must be an integer"
    return [
        field_errors.invalid(f"values[{index}]", value, detail)
        for index, value in enumerate(values)
        if _int64(value) is None
    ]


NAME = "metadata.name"
NAMESPACE = "metadata.namespace"

_TERM = re.compile(r"((?:[^\\,]|\\.)*\\?)(?:,|\Z)", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition: the field equals the value, or does not."""

    field: str
    value: str
    equal: bool = True

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether fields meet the requirement; a missing field is empty."""
        return (fields.get(self.field, "") == self.value) is self.equal


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Requirements that must all be met; without any, all objects match."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether fields, named as in selectors, meet all requirements."""
        return all(requirement.matches(fields) for requirement in self.requirements)

    def exact(self, field: str) -> str | None:
        """Return the value that a field must have; None when any other is possible."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.equal:
                return requirement.value
        return None


def parse_fields(selector: str) -> FieldSelector:
    """Parse the query parameter `fieldSelector`.

    Raises:
        ObjectError: It is malformed, or names a field that is not supported; 400.
    """
    # Upstream sorts the terms before it reads them, which decides what error comes first.
    terms = sorted(match[1] for match in _TERM.finditer(selector))
    read = [_field_requirement(selector, term) for term in terms if term]
    for requirement in read:
        if requirement.field not in {NAME, NAMESPACE}:
            raise errors.bad_request(
                f"{quote(requirement.field)} is not a known field selector: "
                f"only {quote(NAME)}, {quote(NAMESPACE)}"
            )
    return FieldSelector(tuple(read))


def _field_requirement(selector: str, term: str) -> FieldRequirement:
    operator = _OPERATOR.search(term)
    if operator is None:
        raise errors.bad_request(f"invalid selector: '{selector}'; can't understand '{term}'")
    value = _unescaped(term[operator.end() :])
    return FieldRequirement(term[: operator.start()], value, equal=operator[0] != "!=")


def _unescaped(value: str) -> str:
    literal = list[str]()
    characters = iter(value)
    for character in characters:
        if character in ",=":
            # Upstream prints the number of the character.
            raise errors.bad_request(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        if character != "\\":
            literal.append(character)
            continue
        escaped = next(characters, "")
        if escaped not in {"\\", ",", "="}:
            raise errors.bad_request(
                f"invalid field selector: invalid escape sequence: \\{escaped}"
            )
        literal.append(escaped)
    return "".join(literal)


_ALL_LABELS = LabelSelector()
_ALL_FIELDS = FieldSelector()


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects objects by labels and fields."""

    labels: LabelSelector = _ALL_LABELS
    fields: FieldSelector = _ALL_FIELDS

    @property
    def is_everything(self) -> bool:
        """Whether all objects match."""
        return not self.labels.requirements and not self.fields.requirements

    @property
    def name(self) -> str | None:
        """The name that an object must have; None when the fields require none."""
        return self.fields.exact(NAME)

    def matches(self, candidate: Object) -> bool:
        """Return whether an object matches."""
        metadata = json_fields.mapping(candidate, "metadata")
        names = {
            NAME: json_fields.text(metadata, "name"),
            NAMESPACE: json_fields.text(metadata, "namespace"),
        }
        return self.fields.matches(names) and self.labels.matches(
            json_fields.string_map(metadata, "labels")
        )


def parse(label_selector: str = "", field_selector: str = "") -> Selection:
    """Return the selection of the query parameters `labelSelector` and `fieldSelector`.

    Raises:
        ObjectError: One of them is malformed, or names a field that is not supported; 400.
    """
    return Selection(parse_labels(label_selector), parse_fields(field_selector))
