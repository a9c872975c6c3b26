"""The rules of Kubernetes' API validation for schemas, beside that they be structural.

Schemas are as `schema_fields.read` returns them; problems that it reports are not repeated here.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go:
validateCustomResourceDefinitionValidation and ValidateCustomResourceDefinitionOpenAPISchema.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

from apidiscovery_service.kube.field_messages import forbidden, required
from apidiscovery_service.openapi.crd.problems import (
    MAX_PROBLEMS,
    Problem,
    invalid,
    unsupported,
)
from apidiscovery_service.openapi.crd.schema_fields import Schema
from apidiscovery_service.openapi.errors import Path
from apidiscovery_service.openapi.json_text import is_object

_META = frozenset({"metadata", "kind", "apiVersion"})
_LIST_TYPES = ("atomic", "set", "map")
_MAP_TYPES = ("atomic", "granular")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LINE_BREAK = re.compile(r"[\n\r]")
_DEFAULT_OF_MAP_KEY = (
    "this property is in x-kubernetes-list-map-keys,"
    " so it must have a default or be a required property"
)
# Fields of the root when the status subresource is on, in the words of the message.
_AT_ROOT = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


@dataclass(frozen=True, slots=True)
class _Context:
    """The context of a schema.

    Attributes:
        is_root: Whether it is the outermost schema.
        in_meta: Whether it is in the kind, apiVersion or metadata of an object.
        no_default: Why it must not have a default; empty when it may.
    """

    is_root: bool = False
    in_meta: bool = False
    no_default: str = ""


def problems(schema: Schema, path: Path, *, status: bool) -> list[Problem]:
    """Return violations, in no particular order; twice `MAX_PROBLEMS` at most.

    Args:
        schema: The outermost schema.
        path: Where it is.
        status: Whether its version has the status subresource.
    """
    found: list[Problem] = list(_root(schema, path, status=status))
    _check(schema, path, _Context(is_root=True), found)
    return found


def _check(schema: Schema, path: Path, context: _Context, found: list[Problem]) -> None:
    if len(found) < MAX_PROBLEMS:
        found += islice(_rules(schema, path, context), MAX_PROBLEMS)
        for member, at, inside in _members(schema, path, context):
            _check(member, at, inside, found)


def _root(schema: Schema, path: Path, *, status: bool) -> Iterator[Problem]:
    if "nullable" in schema:
        yield (*path, "nullable"), forbidden("nullable cannot be true at the root")
    if not status:
        return
    kind = schema.get("type", "object")
    if kind != "object":
        detail = (
            'only "object" is allowed as the type at the root of the schema'
            " if the status subresource is enabled"
        )
        yield (*path, "type"), invalid(kind, detail)
    elif not schema.keys() <= _AT_ROOT.keys():
        detail = (
            f"only [{' '.join(_AT_ROOT.values())}] fields are allowed at the root of the schema"
            " if the status subresource is enabled"
        )
        yield path, invalid(sorted(schema.keys() - _AT_ROOT.keys()), detail)


def _members(
    schema: Schema, path: Path, context: _Context
) -> Iterator[tuple[Schema, Path, _Context]]:
    """Yield the schemas directly in a schema, with their paths and contexts."""
    inside = replace(context, is_root=False)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        narrower = replace(inside, no_default=reason) if context.in_meta else inside
        yield additional, (*path, "additionalProperties"), narrower
    of_object = context.is_root or "x-kubernetes-embedded-resource" in schema
    for name, member in schema.get("properties", {}).items():
        narrower = inside
        if of_object and name in _META:
            reason = f"in top-level {name}" if context.is_root else inside.no_default
            narrower = replace(inside, in_meta=True, no_default=reason)
        yield member, (*path, "properties", name), narrower
    for word in ("not", "items"):
        if word in schema:
            yield schema[word], (*path, word), inside
    for word in ("allOf", "oneOf", "anyOf"):
        for index, one in enumerate(schema.get(word, ())):
            yield one, (*path, word, index), inside


def _rules(schema: Schema, path: Path, context: _Context) -> Iterator[Problem]:
    if "default" in schema and context.no_default:
        yield (*path, "default"), forbidden(f"must not be set {context.no_default}")
    if schema.get("type") == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield (*path, "type"), forbidden(detail)
    if context.in_meta and "x-kubernetes-embedded-resource" in schema:
        at = (*path, "x-kubernetes-embedded-resource")
        yield at, forbidden("must not be used inside of resource meta")
    if "uniqueItems" in schema:
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield (*path, "uniqueItems"), forbidden(detail)
    if "properties" in schema and schema.get("additionalProperties", True) is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        yield (*path, "additionalProperties"), forbidden(detail)
    if "x-kubernetes-map-type" in schema:
        yield from _map_type(schema, path)
    if "x-kubernetes-list-type" in schema:
        yield from _list_type(schema, path)
    if "x-kubernetes-list-map-keys" in schema:
        yield from _map_keys_of_map(schema, path)
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        yield from _rule(schema, rule, (*path, "x-kubernetes-validations", index))


def _needs_type(schema: Schema, path: Path, wanted: str, extension: str) -> Iterator[Problem]:
    kind = schema.get("type", "")
    detail = f"must be {wanted} if {extension} is specified"
    if kind != wanted:
        yield (*path, "type"), invalid(kind, detail) if kind else required(detail)


def _map_type(schema: Schema, path: Path) -> Iterator[Problem]:
    name = "x-kubernetes-map-type"
    yield from _needs_type(schema, path, "object", name)
    if schema[name] not in _MAP_TYPES:
        yield (*path, name), unsupported(schema[name], _MAP_TYPES)


def _list_type(schema: Schema, path: Path) -> Iterator[Problem]:
    name = "x-kubernetes-list-type"
    list_type = schema[name]
    yield from _needs_type(schema, path, "array", name)
    if list_type not in _LIST_TYPES:
        yield (*path, name), unsupported(list_type, _LIST_TYPES)
    items = schema.get("items")
    if list_type in {"set", "map"} and items is not None and "nullable" in items:
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield (*path, "items", "nullable"), forbidden(detail)
    if list_type == "map":
        yield from _map_list(schema, path)
    elif list_type == "set" and items is not None and schema.get("type") == "array":
        yield from _set_items(items, (*path, "items"))


def _set_items(items: Schema, path: Path) -> Iterator[Problem]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("x-kubernetes-list-type", "atomic")
    if items.get("type") == "array" and inner != "atomic":
        yield (*path, "x-kubernetes-list-type"), invalid(inner, detail)
    inner = items.get("x-kubernetes-map-type")
    if items.get("type") == "object" and inner != "atomic":
        yield (*path, "x-kubernetes-map-type"), invalid(inner, detail)


def _map_keys_of_map(schema: Schema, path: Path) -> Iterator[Problem]:
    list_type = schema.get("x-kubernetes-list-type")
    detail = "must be map if x-kubernetes-list-map-keys is non-empty"
    if list_type != "map":
        message = required(detail) if list_type is None else invalid(list_type, detail)
        yield (*path, "x-kubernetes-list-type"), message


def _map_list(schema: Schema, path: Path) -> Iterator[Problem]:
    if "x-kubernetes-list-map-keys" not in schema:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield (*path, "x-kubernetes-list-map-keys"), required(detail)
    items = schema.get("items")
    if items is None:
        detail = "must have a schema if x-kubernetes-list-type is map"
        yield (*path, "items"), required(detail)
    elif items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield (*path, "items", "type"), invalid(items.get("type", ""), detail)
    else:
        yield from _map_keys(schema.get("x-kubernetes-list-map-keys", []), items, path)


def _map_keys(keys: list[str], items: Schema, path: Path) -> Iterator[Problem]:
    at_keys = (*path, "x-kubernetes-list-map-keys")
    members = items.get("properties", {})
    needed = frozenset(items.get("required", ()))
    if len(set(keys)) != len(keys):
        yield at_keys, invalid(keys, "must not contain duplicate entries")
    if not members.keys() >= set(keys):
        yield at_keys, invalid(keys, "entries must all be names of item properties")
    for key in dict.fromkeys(key for key in keys if key in members):
        yield from _map_key(members[key], (*path, "items", "properties", key), key in needed)


def _map_key(member: Schema, path: Path, is_required: bool) -> Iterator[Problem]:  # noqa: FBT001 - one caller
    if member.get("type") in {"array", "object"}:
        detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        yield (*path, "type"), invalid(member["type"], detail)
    if not is_required and "default" not in member:
        yield (*path, "default"), required(_DEFAULT_OF_MAP_KEY)
    if "nullable" in member:
        detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        yield (*path, "nullable"), forbidden(detail)


def _rule(schema: Schema, rule: dict[str, Any], path: Path) -> Iterator[Problem]:
    """Check the fields of a CEL rule, but not the expression."""
    yield from _rule_text(rule, path)
    if "messageExpression" in rule and not rule["messageExpression"].strip():
        detail = "messageExpression must be non-empty if specified"
        yield (*path, "messageExpression"), required(detail)
    if rule.get("reason", "FieldValueInvalid") not in _REASONS:
        yield (*path, "reason"), unsupported(rule["reason"], _REASONS)
    if (at := rule.get("fieldPath")) is None:
        return
    if not at.strip():
        yield (*path, "fieldPath"), invalid(at, "must be non-empty if specified")
    if _LINE_BREAK.search(at):
        yield (*path, "fieldPath"), invalid(at, "must not contain line breaks")
    if not is_field_path(at, schema):
        yield (*path, "fieldPath"), invalid(at, "must be a valid path")


def _rule_text(rule: dict[str, Any], path: Path) -> Iterator[Problem]:
    text, message = rule["rule"].strip(), rule.get("message", "").strip()
    at_message = (*path, "message")
    if not text:
        yield (*path, "rule"), required("rule is not specified")
    elif "message" in rule and not message:
        yield at_message, invalid(rule["message"], "must be non-empty if specified")
    elif _LINE_BREAK.search(message):
        yield at_message, invalid(rule["message"], "must not contain line breaks")
    elif _LINE_BREAK.search(text) and not message:
        yield at_message, required("message must be specified if rule contains line breaks")


# Quoted text ends at a quote without backslash, other text at a delimiter.
_PART = re.compile(r"'[^']*(?:(?<=\\)'[^']*)*'?|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


def is_field_path(text: str, schema: Schema) -> bool:
    """Return whether a path leads to a field that a schema describes.

    Paths are those of the `fieldPath` of validation rules, such as `.spec['a.b'].replicas`. Source:
    apiextensions-apiserver pkg/apiserver/schema/cel/validation.go:ValidFieldPath.
    """
    place: object = schema
    try:
        for name in _names(text):
            place = _member(place, name)
    except ValueError:
        return False
    return True


def _names(text: str) -> Iterator[str]:
    """Yield the names of a path.

    Raises:
        ValueError: It is malformed.
    """
    parts = iter(_PART.findall(text))
    for part in parts:
        if part == ".":
            yield next(parts, "")
        elif part == "[":
            yield _unquoted(next(parts, ""))
            if next(parts, "") != "]":
                raise ValueError("expected ]")
        else:
            raise ValueError("expected [ or .")


def _unquoted(part: str) -> str:
    if len(part) < len("''") or not (part.startswith("'") and part.endswith("'")):
        raise ValueError("expected single quoted string")
    inner = part[1:-1]
    if not _ESCAPES.keys() >= set(_ESCAPED.findall(inner)):
        raise ValueError("invalid string literal")
    return _ESCAPED.sub(lambda match: _ESCAPES[match[1]], inner)


def _member(place: object, name: str) -> object:
    """Return the schema of a field.

    Raises:
        ValueError: There is none.
    """
    if is_object(place):
        if "properties" in place:
            if name in place["properties"]:
                return cast("object", place["properties"][name])
        elif "additionalProperties" in place:
            return cast("object", place["additionalProperties"])
    raise ValueError("does not refer to a valid field")
