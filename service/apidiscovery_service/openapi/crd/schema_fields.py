"""Reads the schema of a CustomResourceDefinition as Kubernetes does: unknown fields are dropped.

The result has fields of the right type only, none with a zero value, in the order in which
Kubernetes publishes them.

Source: apiextensions-apiserver pkg/apis/apiextensions/v1/types_jsonschema.go:JSONSchemaProps and
marshal.go (reading); kube-openapi pkg/validation/spec/schema.go:Schema.MarshalJSONTo (order, and
what is left out).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from apidiscovery_service.kube.field_messages import forbidden
from apidiscovery_service.openapi import json_text
from apidiscovery_service.openapi.crd.problems import (
    MAX_PROBLEMS,
    Problem,
    check_limits,
    invalid,
    unsupported,
)
from apidiscovery_service.openapi.errors import Path

Schema: TypeAlias = dict[str, Any]
# Returns what is published of a field; `_ABSENT` when it is left out.
_Read: TypeAlias = Callable[["Reading", str, Any, Path], object]
_ABSENT = object()

TYPES = ("array", "boolean", "integer", "number", "object", "string")

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@dataclass(slots=True)
class Reading:
    """A schema as it was read, and its problems.

    Attributes:
        schema: The known fields. The caller may change it.
        malformed: Values of the wrong type; Kubernetes refuses to decode them.
        types: Unknown types.
        unstructural: Fields for which the schema is not structural.
        unsupported: Fields that Kubernetes accepts in no schema, even empty.
        nulls: Fields that are null, which count as absent; not where any value may be.
        unknown: Places, and the names of unknown fields there, which Kubernetes drops.
        int_or_string: The schemas in it that have `x-kubernetes-int-or-string`.
        embedded: The schemas in it that have `x-kubernetes-embedded-resource`.
        conditions: The number of logical conditions around the schema that is being read.
    """

    schema: Schema = field(default_factory=dict[str, Any])
    malformed: list[Problem] = field(default_factory=list[Problem])
    types: list[Problem] = field(default_factory=list[Problem])
    unstructural: list[Problem] = field(default_factory=list[Problem])
    unsupported: list[Problem] = field(default_factory=list[Problem])
    nulls: list[Problem] = field(default_factory=list[Problem])
    unknown: list[tuple[Path, list[str]]] = field(default_factory=list[tuple[Path, list[str]]])
    int_or_string: list[Schema] = field(default_factory=list[Schema])
    embedded: list[Schema] = field(default_factory=list[Schema])
    conditions: int = 0

    def wrong_type(self, path: Path, value: object, wanted: str) -> object:
        """Note a value of the wrong type; return that its field is left out."""
        note(self.malformed, path, invalid(_scalar(value), f"must be {wanted}"))
        return _ABSENT


def note(problems: list[Problem], path: Path, message: str) -> None:
    """Add a problem, unless there are enough of them already."""
    if len(problems) < MAX_PROBLEMS:
        problems.append((path, message))


def read(raw: object, path: Path = ()) -> Reading:
    """Read a schema.

    Args:
        raw: The schema as JSON values.
        path: Where it is; the paths of problems begin with it.

    Raises:
        InvalidOpenAPI: It is nested too deeply or has too many values.
    """
    check_limits(raw, path)
    reading = Reading()
    reading.schema = _schema(reading, raw, path)
    return reading


def ordered(schema: Schema) -> Schema:
    """Return a schema with its fields in the order of publishing."""
    return {name: schema[name] for name in sorted(schema, key=_ORDER.__getitem__)}


def _schema(reading: Reading, raw: object, path: Path) -> Schema:
    if not json_text.is_object(raw):
        if raw is not None:
            reading.wrong_type(path, raw, "an object")
        return {}
    if len(raw) == 1 and raw.get("type") in TYPES:  # every other schema of real definitions
        return dict(raw)
    known = raw.keys() & FIELD_NAMES
    if len(known) != len(raw):
        reading.unknown.append((path, [name for name in raw if name not in known]))
    schema = _read_fields(reading, raw, path, _plan(frozenset(known)))
    if "x-kubernetes-int-or-string" in schema:
        reading.int_or_string.append(schema)
    if "x-kubernetes-embedded-resource" in schema:
        reading.embedded.append(schema)
    return schema


def _read_fields(
    reading: Reading, raw: Mapping[str, Any], path: Path, plan: Iterable[tuple[str, _Read]]
) -> dict[str, Any]:
    """Return the fields that are published, in the order of a plan."""
    found: dict[str, Any] = {}
    for name, read_field in plan:
        value = raw[name]
        if value is not None:
            published = read_field(reading, name, value, path)
            if published is not _ABSENT:
                found[name] = published
        elif name not in _ANY_VALUE:
            message = invalid(None, "must not be null: leave the field out")
            note(reading.nulls, (*path, name), message)
    return found


def _text(reading: Reading, name: str, value: object, path: Path) -> object:
    return _present_text(reading, name, value, path) or _ABSENT


def _present_text(reading: Reading, name: str, value: object, path: Path) -> object:
    """Read a text that may be empty."""
    if type(value) is str:
        return value
    return reading.wrong_type((*path, name), value, "a string")


def _type(reading: Reading, name: str, value: object, path: Path) -> object:
    found = _text(reading, name, value, path)
    if found is not _ABSENT and found not in TYPES:
        note(reading.types, (*path, name), unsupported(found, TYPES))
    return found


def _flag(reading: Reading, name: str, value: object, path: Path) -> object:
    return _present_flag(reading, name, value, path) or _ABSENT


def _present_flag(reading: Reading, name: str, value: object, path: Path) -> object:
    """Read a flag that may be false."""
    if type(value) is bool:
        return value
    return reading.wrong_type((*path, name), value, "a boolean")


def _preserve(reading: Reading, name: str, value: object, path: Path) -> object:
    if value is False:
        note(reading.unstructural, (*path, name), invalid(value, "must be true or undefined"))
    return _flag(reading, name, value, path)


def _integer(reading: Reading, name: str, value: object, path: Path) -> object:
    if type(value) is int and INT64_MIN <= value <= INT64_MAX:
        return value
    return reading.wrong_type((*path, name), value, "an integer of 64 bits")


def _number(reading: Reading, name: str, value: object, path: Path) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json_text.number(value)
    return reading.wrong_type((*path, name), value, "a number")


def _texts(reading: Reading, name: str, value: object, path: Path) -> object:
    items = _list(reading, name, value, path)
    for index, item in enumerate(items):
        if type(item) is not str:
            reading.wrong_type((*path, name, index), item, "a string")
    return items or _ABSENT


def _list(reading: Reading, name: str, value: object, path: Path) -> list[Any]:
    if json_text.is_array(value):
        return value
    reading.wrong_type((*path, name), value, "an array")
    return []


def _default(_reading: Reading, _name: str, value: object, _path: Path) -> object:
    return json_text.arbitrary(value)


def _example(_reading: Reading, _name: str, value: object, _path: Path) -> object:
    return _ABSENT if value in ("", {}, []) else json_text.arbitrary(value)


def _enum(reading: Reading, name: str, value: object, path: Path) -> object:
    return [json_text.arbitrary(item) for item in _list(reading, name, value, path)] or _ABSENT


def _nested(reading: Reading, name: str, value: object, path: Path) -> object:
    return _schema(reading, value, (*path, name))


def _not(reading: Reading, name: str, value: object, path: Path) -> object:
    reading.conditions += 1
    condition = _nested(reading, name, value, path)
    reading.conditions -= 1
    return condition


def _several(reading: Reading, name: str, value: object, path: Path) -> object:
    reading.conditions += 1
    items = _list(reading, name, value, path)
    schemas = [_schema(reading, item, (*path, name, index)) for index, item in enumerate(items)]
    reading.conditions -= 1
    return schemas or _ABSENT


def _items(reading: Reading, name: str, value: object, path: Path) -> object:
    if type(value) is not list:
        return _nested(reading, name, value, path)
    if value:
        text = "items must be a schema object and not an array"
        note(reading.unstructural, (*path, name), forbidden(text))
    return _ABSENT


def _properties(reading: Reading, name: str, value: object, path: Path) -> object:
    if not json_text.is_object(value):
        return reading.wrong_type((*path, name), value, "an object")
    return {
        key: _schema(reading, value[key], (*path, name, key)) for key in sorted(value)
    } or _ABSENT


def _additional(reading: Reading, name: str, value: object, path: Path) -> object:
    if type(value) is bool:
        # Kubernetes does not keep `false` in conditions: schema/convert.go:newNestedValueValidation
        return value if value or not reading.conditions else _ABSENT
    if json_text.is_object(value):
        return _nested(reading, name, value, path)
    return reading.wrong_type((*path, name), value, "a boolean or a schema")


def _object(
    reading: Reading, value: object, path: Path, fields: Mapping[str, _Read]
) -> dict[str, Any]:
    """Return an object that is not a schema, with its fields in the order of `fields`."""
    if not json_text.is_object(value):
        reading.wrong_type(path, value, "an object")
        return {}
    if not value.keys() <= fields.keys():
        reading.unknown.append((path, [name for name in value if name not in fields]))
    return _read_fields(reading, value, path, ((n, r) for n, r in fields.items() if n in value))


def _docs(reading: Reading, name: str, value: object, path: Path) -> object:
    return _object(reading, value, (*path, name), {"description": _text, "url": _text})


def _validations(reading: Reading, name: str, value: object, path: Path) -> object:
    items = _list(reading, name, value, path)
    rules = (_object(reading, item, (*path, name, i), _RULE) for i, item in enumerate(items))
    return [{"rule": ""} | rule for rule in rules] or _ABSENT


def _unsupported(reading: Reading, name: str, value: object, path: Path) -> object:
    """Note a field of JSON Schema that definitions must not have.

    A schema with an empty one is published all the same, but for additionalItems.
    """
    message = forbidden(f"{name} is not supported")
    if value not in ("", {}) or name == "additionalItems":
        note(reading.unstructural, (*path, name), message)
    elif name not in _EMPTY_ALLOWED:
        note(reading.unsupported, (*path, name), message)
    return _ABSENT


_ANY_VALUE = frozenset({"default", "example"})
_EMPTY_ALLOWED = frozenset({"id", "$schema", "patternProperties", "definitions"})

# pkg/apis/apiextensions/v1/types_jsonschema.go:ValidationRule
_RULE: dict[str, _Read] = {
    "rule": _text,
    "message": _text,
    "messageExpression": _text,
    "reason": _text,
    "fieldPath": _text,
    "optionalOldSelf": _present_flag,
}

# In the order of kube-openapi's structs; extensions by name at the end.
_FIELDS: dict[str, _Read] = {
    "id": _unsupported,
    "description": _text,
    "type": _type,
    "nullable": _flag,
    "format": _text,
    "title": _text,
    "default": _default,
    "maximum": _number,
    "exclusiveMaximum": _flag,
    "minimum": _number,
    "exclusiveMinimum": _flag,
    "maxLength": _integer,
    "minLength": _integer,
    "pattern": _text,
    "maxItems": _integer,
    "minItems": _integer,
    "uniqueItems": _flag,
    "multipleOf": _number,
    "enum": _enum,
    "maxProperties": _integer,
    "minProperties": _integer,
    "required": _texts,
    "items": _items,
    "allOf": _several,
    "oneOf": _several,
    "anyOf": _several,
    "not": _not,
    "properties": _properties,
    "additionalProperties": _additional,
    "patternProperties": _unsupported,
    "dependencies": _unsupported,
    "additionalItems": _unsupported,
    "definitions": _unsupported,
    "externalDocs": _docs,
    "example": _example,
    "$schema": _unsupported,
    "$ref": _unsupported,
    "x-kubernetes-embedded-resource": _flag,
    "x-kubernetes-int-or-string": _flag,
    "x-kubernetes-list-map-keys": _texts,
    "x-kubernetes-list-type": _present_text,
    "x-kubernetes-map-type": _present_text,
    "x-kubernetes-preserve-unknown-fields": _preserve,
    "x-kubernetes-validations": _validations,
}
# The fields of schemas that Kubernetes knows.
FIELD_NAMES = _FIELDS.keys()
_ADDED = ("x-kubernetes-group-version-kind", "x-kubernetes-selectable-fields")
_EXTENSIONS = sorted([*_ADDED, *(name for name in _FIELDS if name.startswith("x-"))])
_ORDER = {
    name: rank
    for rank, name in enumerate(
        [*(name for name in _FIELDS if not name.startswith("x-")), *_EXTENSIONS]
    )
}


@lru_cache(maxsize=1024)
def _plan(known: frozenset[str]) -> tuple[tuple[str, _Read], ...]:
    """Return how to read each of the fields, in the order of publishing."""
    return tuple((name, _FIELDS[name]) for name in sorted(known, key=_ORDER.__getitem__))


def _scalar(value: object) -> object:
    """Return a scalar itself, and only the type of an object or array, which may be large."""
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else value
