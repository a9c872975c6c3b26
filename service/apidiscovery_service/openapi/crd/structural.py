"""Validation of the schemas of CustomResourceDefinitions (apiextensions.k8s.io/v1).

In a structural schema every value is described outside of logical conditions too. Schemas are as
`schema_fields.read` returns them. Patterns are not compiled: Go's RE2 and Python's `re` differ.

Source: apiextensions-apiserver pkg/apiserver/schema/validation.go:ValidateStructural and
complete.go.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from apidiscovery_service.kube.field_messages import forbidden, required
from apidiscovery_service.openapi.crd import rules, schema_fields
from apidiscovery_service.openapi.crd.problems import (
    MAX_PROBLEMS,
    Problem,
    field_path,
    invalid,
)
from apidiscovery_service.openapi.crd.schema_fields import Reading, Schema
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path
from apidiscovery_service.openapi.json_text import is_object

INT_OR_STRING: list[dict[str, Any]] = [{"type": "integer"}, {"type": "string"}]

_CONDITIONS = frozenset({"allOf", "anyOf", "oneOf", "not"})
_RARE = frozenset({"x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"})
_MEMBERS = frozenset({"items", "properties", "additionalProperties"})
# Fields that logical conditions must not have, and what they must be instead.
_OUTSIDE_ONLY = (
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
)
_FORBIDDEN_INSIDE = frozenset(name for name, _ in _OUTSIDE_ONLY)


class _Level(Enum):
    ROOT = auto()
    ITEM = auto()
    FIELD = auto()


_MISSING_TYPE = {
    _Level.ROOT: "must not be empty at the root",
    _Level.ITEM: "must not be empty for specified array items",
    _Level.FIELD: "must not be empty for specified object fields",
}


def _invariant_problems(schema: Schema, path: Path = ()) -> list[Problem]:
    """Return why a schema is not structural, in no particular order.

    There are a little more than `MAX_PROBLEMS` at most.
    """
    found: list[Problem] = []
    _check(schema, _Level.ROOT, path, found)
    _check_complete(schema, schema, path, path, found)
    return found


def is_int_or_string(several: list[Schema] | None) -> bool:
    """Return whether alternatives are those of `x-kubernetes-int-or-string`."""
    return several == INT_OR_STRING


def _check(schema: Schema, level: _Level, path: Path, found: list[Problem]) -> None:
    if len(found) >= MAX_PROBLEMS:
        return
    kind = schema.get("type")
    if kind == "array" or not _MEMBERS.isdisjoint(schema):
        _check_members(schema, level, path, found)
    if not _CONDITIONS.isdisjoint(schema):
        _check_conditions(
            schema,
            path,
            found,
            skip_any_of=is_int_or_string(schema.get("anyOf")),
            skip_first=is_int_or_string(_first_any_of(schema)),
        )
    if kind and level is not _Level.ROOT and _RARE.isdisjoint(schema):
        return
    _check_extensions(schema, path, found)
    _check_type(schema, level, path, found)
    if level is _Level.ROOT or "x-kubernetes-embedded-resource" in schema:
        _check_meta(schema, path, found)
    if level is _Level.ROOT:
        _check_root(schema, path, found)


def _check_members(schema: Schema, level: _Level, path: Path, found: list[Problem]) -> None:
    items = schema.get("items")
    if items is not None:
        _check(items, _Level.ITEM, (*path, "items"), found)
    elif schema.get("type") == "array":
        found.append(((*path, "items"), required("must be specified")))
    for name, member in schema.get("properties", {}).items():
        _check(member, _Level.FIELD, (*path, "properties", name), found)
    additional = schema.get("additionalProperties")
    if additional is not None and level is _Level.ROOT:
        text = forbidden("must not be used at the root")
        found.append(((*path, "additionalProperties"), text))
    if is_object(additional):
        _check(additional, _Level.FIELD, (*path, "additionalProperties"), found)


def _first_any_of(schema: Schema) -> list[Schema] | None:
    all_of = schema.get("allOf")
    return all_of[0].get("anyOf") if all_of else None


def _check_extensions(schema: Schema, path: Path, found: list[Problem]) -> None:
    if "x-kubernetes-int-or-string" not in schema:
        return
    for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if name in schema:
            detail = "must be false if x-kubernetes-int-or-string is true"
            found.append(((*path, name), invalid(schema[name], detail)))


def _check_type(schema: Schema, level: _Level, path: Path, found: list[Problem]) -> None:
    kind = schema.get("type", "")
    at_type = (*path, "type")
    if "x-kubernetes-embedded-resource" in schema and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        found.append((at_type, invalid(kind, detail) if kind else required(detail)))
    elif (
        not kind
        and "x-kubernetes-int-or-string" not in schema
        and "x-kubernetes-preserve-unknown-fields" not in schema
    ):
        found.append((at_type, required(_MISSING_TYPE[level])))
    if level is _Level.ROOT and kind not in {"", "object"}:
        found.append((at_type, invalid(kind, "must be object at the root")))


def _check_meta(schema: Schema, path: Path, found: list[Problem]) -> None:
    """Check `kind`, `apiVersion` and `metadata`, where a schema has them."""
    members = schema.get("properties", {})
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        kind = members[name].get("type", "") if name in members else wanted
        if kind != wanted:
            at_type = (*path, "properties", name, "type")
            found.append((at_type, invalid(kind, f"must be {wanted}")))
    if "x-kubernetes-embedded-resource" not in schema:
        return
    if "additionalProperties" in schema:
        text = forbidden("must not be used if x-kubernetes-embedded-resource is set")
        found.append(((*path, "additionalProperties"), text))
    if "x-kubernetes-preserve-unknown-fields" not in schema and not members:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true"
            " without x-kubernetes-preserve-unknown-fields"
        )
        found.append(((*path, "properties"), required(detail)))


def _check_root(schema: Schema, path: Path, found: list[Problem]) -> None:
    metadata = schema.get("properties", {}).get("metadata", {})
    restricted = metadata.get("properties", {}).keys() <= {"name", "generateName"}
    if not restricted or not metadata.keys() <= {"type", "default", "properties"}:
        detail = (
            "must not specify anything other than name and generateName,"
            " but metadata is implicitly specified"
        )
        found.append(((*path, "properties", "metadata"), forbidden(detail)))


def _check_conditions(
    schema: Schema, path: Path, found: list[Problem], *, skip_any_of: bool, skip_first: bool
) -> None:
    """Check logical conditions.

    Args:
        schema: Whose conditions.
        path: Where it is.
        found: Problems are added here.
        skip_any_of: Skip its `anyOf`, for it says integer or string.
        skip_first: Skip the `anyOf` of the first of its `allOf`, for the same reason.
    """
    if not skip_any_of:
        for index, one in enumerate(schema.get("anyOf", ())):
            _check_condition(one, (*path, "anyOf", index), found)
    for index, one in enumerate(schema.get("allOf", ())):
        skip = skip_first and index == 0
        _check_condition(one, (*path, "allOf", index), found, skip_any_of=skip)
    for index, one in enumerate(schema.get("oneOf", ())):
        _check_condition(one, (*path, "oneOf", index), found)
    if "not" in schema:
        _check_condition(schema["not"], (*path, "not"), found)


def _check_condition(
    schema: Schema, path: Path, found: list[Problem], *, skip_any_of: bool = False
) -> None:
    if len(found) >= MAX_PROBLEMS:
        return
    _check_conditions(schema, path, found, skip_any_of=skip_any_of, skip_first=False)
    if "items" in schema:
        _check_condition(schema["items"], (*path, "items"), found)
    members = schema.get("properties", {})
    for name, member in members.items():
        _check_condition(member, (*path, "properties", name), found)
    if not _FORBIDDEN_INSIDE.isdisjoint(schema):
        _check_outside_only(schema, path, found)
    if "metadata" in members:
        text = forbidden("must not be specified in a nested context")
        found.append(((*path, "properties", "metadata"), text))


def _check_outside_only(schema: Schema, path: Path, found: list[Problem]) -> None:
    for name, wanted in _OUTSIDE_ONLY:
        if name in schema:
            text = forbidden(f"must be {wanted} to be structural")
            found.append(((*path, name), text))


def _check_complete(
    condition: Schema, schema: Schema, at: Path, path: Path, found: list[Problem]
) -> None:
    """Check that all fields in the conditions of a schema are described outside of them too.

    Kubernetes follows the conditions of the root alone.

    Args:
        condition: Whose conditions.
        schema: Describes the same value outside of conditions.
        at: Where `schema` is.
        path: Where `condition` is.
        found: Problems are added here.
    """
    if "not" in condition:
        _check_described(condition["not"], schema, at, (*path, "not"), found)
    for word in ("allOf", "anyOf", "oneOf"):
        for index, one in enumerate(condition.get(word, ())):
            _check_described(one, schema, at, (*path, word, index), found)


def _check_described(
    condition: Schema, schema: Schema | None, at: Path, path: Path, found: list[Problem]
) -> None:
    if len(found) >= MAX_PROBLEMS:
        return
    if schema is None:
        found.append((at, required(f"because it is defined in {field_path(path)}")))
        return
    _check_complete(condition, schema, at, path, found)
    if "items" in condition:
        _check_described(
            condition["items"], schema.get("items"), (*at, "items"), (*path, "items"), found
        )
    members = schema.get("properties", {})
    for name, member in condition.get("properties", {}).items():
        steps = ("properties", name)
        _check_described(member, members.get(name), (*at, *steps), (*path, *steps), found)


__all__ = ["field_path", "is_structural", "violations"]


def violations(
    schema: object, path: Path = (), *, status: bool = False, takes_null: bool = True
) -> Iterator[Problem]:
    """Yield the problems for which Kubernetes would refuse a schema: place and message.

    `field_path` writes the place as Kubernetes does. Nothing is evaluated: neither regular
    expressions and CEL rules, nor whether defaults are valid.

    Args:
        schema: An `openAPIV3Schema` as JSON values.
        path: Where it is.
        status: Whether its version has the status subresource, which allows less at the root.
        takes_null: Whether a field that is null counts as absent, as in Kubernetes.
    """
    try:
        reading = schema_fields.read(schema, path)
    except InvalidOpenAPI as error:
        yield error.path, error.message
        return
    for place, names in reading.unknown:
        for name in names:
            yield (*place, name), f'unknown field "{field_path((*place, name))}"'
    if malformed := reading.malformed + ([] if takes_null else reading.nulls):
        yield from malformed
        return
    found = reading.types + reading.unstructural + reading.unsupported
    if not reading.unstructural:
        found += _invariant_problems(reading.schema, path)
    found += rules.problems(reading.schema, path, status=status)
    yield from sorted(
        dict.fromkeys(found), key=lambda problem: (field_path(problem[0]), problem[1])
    )


def is_structural(reading: Reading) -> bool:
    """Return whether Kubernetes publishes the fields of a schema.

    It publishes structural schemas, even with `violations`: it may have accepted them before it
    looked for these.

    Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go:generateBuilder.
    """
    if reading.malformed or reading.types or reading.unstructural:
        return False
    return not _invariant_problems(reading.schema)
