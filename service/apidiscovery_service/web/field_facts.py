"""The constraints of a schema besides its type, in words."""

from collections.abc import Iterator
from dataclasses import dataclass

from apidiscovery_formats.go_json import dumps
from apidiscovery_formats.openapi.traversal import Object, as_list

from apidiscovery_service.web.descriptions import visible_text
from apidiscovery_service.web.field_schemas import RULES, objects, texts

_MAX_VALUES = 40
_MAX_CHARACTERS = 400
_UNCHANGED = frozenset({"self==oldSelf", "oldSelf==self"})


@dataclass(frozen=True, slots=True)
class Fact:
    """One demand or property: a label, and its values as code; no value where the label says all.

    Attributes:
        more: How many values are left out.
    """

    label: str
    values: tuple[str, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class CelRule:
    """A validation rule in CEL, and the message of an API server if it does not hold."""

    rule: str
    message: str


# Keys whose value is shown as it is.
_VALUES = (
    ("default", "default"),
    ("format", "format"),
    ("pattern", "pattern"),
    ("multipleOf", "multiple of"),
    ("x-kubernetes-list-type", "list type"),
    ("x-kubernetes-map-type", "map type"),
    ("x-kubernetes-patch-strategy", "patch strategy"),
    ("x-kubernetes-patch-merge-key", "patch merge key"),
    ("anyOf", "any of"),
    ("oneOf", "exactly one of"),
    ("allOf", "all of"),
    ("not", "not"),
)
# Boolean keys shown without a value.
_FLAGS = (
    ("nullable", "may be null"),
    ("uniqueItems", "items are unique"),
    ("x-kubernetes-preserve-unknown-fields", "keeps unknown fields"),
    ("x-kubernetes-embedded-resource", "holds a whole object"),
    ("readOnly", "read only"),
    ("writeOnly", "write only"),
    ("deprecated", "deprecated"),
)
_RANGES = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "items"),
    ("minProperties", "maxProperties", "entries"),
)


def facts(whole: Object) -> Iterator[Fact]:
    """Yield the constraints of a schema, without its rules."""
    if values := as_list(whole.get("enum")):
        shown = tuple(map(as_code, values[:_MAX_VALUES]))
        yield Fact("one of", shown, len(values) - len(shown))
    yield from _bounds(whole)
    for low, high, unit in _RANGES:
        if low in whole or high in whole:
            yield Fact(unit, (_range(whole.get(low), whole.get(high)),))
    for key, label in _VALUES:
        if whole.get(key) not in (None, {}) and not (
            key == "anyOf" and "x-kubernetes-int-or-string" in whole
        ):
            yield Fact(label, (as_code(whole[key]),))
    if keys := texts(whole.get("x-kubernetes-list-map-keys")):
        yield Fact("list keys", tuple(map(visible_text, keys)))
    for key, label in _FLAGS:
        if whole.get(key) is True:
            yield Fact(label)
    if any(_is_unchanged(rule) for rule in rules(whole)):
        yield Fact("immutable")


def rules(whole: Object) -> list[CelRule]:
    """Return the validation rules of a schema."""
    return [
        CelRule(_cut(str(each.get("rule", ""))), _cut(str(each.get("message", ""))))
        for each in objects(whole.get(RULES))
    ]


def as_code(value: object) -> str:
    """Return a JSON value as text, strings without quotes unless they would not be seen."""
    if isinstance(value, str) and value.strip():
        return _cut(value)
    return _cut(dumps(value))


def _cut(text: str) -> str:
    short = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
    return visible_text(short)


def _bounds(whole: Object) -> Iterator[Fact]:
    for bound, exclusive, signs in (
        ("minimum", "exclusiveMinimum", ("at least", "greater than")),
        ("maximum", "exclusiveMaximum", ("at most", "less than")),
    ):
        if bound in whole:
            yield Fact(signs[whole.get(exclusive) is True], (as_code(whole[bound]),))


def _range(low: object, high: object) -> str:
    """Return a range of counts in words.

    >>> _range(1, None)
    'at least 1'
    """
    if high is None:
        return f"at least {as_code(low)}"
    if low in (None, 0):
        return f"at most {as_code(high)}"
    return as_code(low) if low == high else f"{as_code(low)} to {as_code(high)}"


def _is_unchanged(rule: CelRule) -> bool:
    return rule.rule.replace(" ", "") in _UNCHANGED
