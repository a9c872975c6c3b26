"""Schemas of OpenAPI v3 as schemas of v2, as Kubernetes publishes them.

v2 has no `nullable`, `oneOf`, `anyOf` and `not`; and kubectl takes what v2 says of a value more
strictly than it is meant, so that Kubernetes says less of it (apiextensions-apiserver
`openapi/v2/conversion.go: ToStructuralOpenAPIV2`, `builder.go: buildKubeNative`), and no defaults
(kube-openapi `handler/default_pruning.go`).
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.openapi.v2.places import (
    Object,
    Place,
    as_flag,
    as_is,
    as_list,
    as_number,
    as_object,
    as_size,
    as_text,
    as_texts,
)
from apidiscovery_service.openapi.v2.references import UNRESOLVED, escaped, pointed

_Convert: TypeAlias = Callable[["Schemas", JSONValue, Place], JSONValue]

KINDS: Final = "x-kubernetes-group-version-kind"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"

_SCHEMAS: Final = "#/components/schemas/"
_DEFINITIONS: Final = "#/definitions/"


class Schemas:
    """Converts schemas of one document.

    Attributes:
        referred: Names of the schemas that were referred to; the caller may clear it.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take the names of the definitions by those of the components."""
        self.referred: set[str] = set()
        self._names = names

    def root(self, value: JSONValue, at: Place) -> Object:
        """Return the definition of a component.

        A kind of which fields are kept that its schema does not name is an object of which nothing
        is said, for kubectl would refuse such fields.
        """
        source = as_object(value, at)
        if source.get(_PRESERVE) is True and KINDS in source:
            return {"type": "object", KINDS: source[KINDS]}
        return self.schema(source, at)

    def schema(self, value: JSONValue, at: Place) -> Object:
        """Return a schema as v2 has it."""
        source = as_object(value, at)
        result: Object = {}
        for name in key_order.SCHEMA.names(source):
            if name in _FIELDS:
                result[name] = _FIELDS[name](self, source[name], (at, name))
            elif name.startswith("x-"):
                result[name] = source[name]
        if "$ref" in result:
            self._refer(result)
        if "allOf" in result:
            result = _unwrapped(result)
        if not _LESS.isdisjoint(source) or result.get("type") == "array":
            _say_less(source, result)
        return result

    def _refer(self, fields: Object) -> None:
        """Make a reference one to a definition.

        What refers to something within a component is left open, for it need not be there any more.
        """
        reference = str(fields.pop("$ref"))
        target = pointed(reference, _SCHEMAS)
        if target is None or target[1] or target[0] not in self._names:
            fields[UNRESOLVED] = reference
            return
        self.referred.add(target[0])
        fields["$ref"] = _DEFINITIONS + escaped(self._names[target[0]])

    def schema_map(self, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        return {name: self.schema(source[name], (at, name)) for name in sorted(source)}

    def schema_list(self, value: JSONValue, at: Place) -> list[JSONValue]:
        return [self.schema(item, (at, i)) for i, item in enumerate(as_list(value, at))]

    def schema_or_flag(self, value: JSONValue, at: Place) -> JSONValue:
        return value if isinstance(value, bool) else self.schema(value, at)


def _unwrapped(fields: Object) -> Object:
    """Return a schema whose `allOf` is a reference as one with that reference beside the rest.

    `allOf` is kept where it composes types, and left out where it only restricts values, as
    Kubernetes leaves it out of the schemas of definitions: what restricts has no type of its own.
    """
    parts = as_list(fields.pop("allOf"), None)
    objects = [part for part in parts if isinstance(part, dict)]
    if len(objects) == 1 and objects[0].keys() == {"$ref"} and "$ref" not in fields:
        return key_order.SCHEMA.arranged(fields | objects[0])
    if any("$ref" in part or "type" in part for part in objects):
        fields["allOf"] = parts
    return key_order.SCHEMA.arranged(fields)


def _say_less(source: Object, fields: Object) -> None:
    """Take from a schema what kubectl would take amiss."""
    if source.get("nullable") is True:
        _drop(fields, "type", "items", "properties")
    if source.get(_PRESERVE) is True:
        _drop(fields, "items", "properties")
        if fields.get("type") == "object":
            del fields["type"]
    if fields.get("type") == "array" and "items" not in fields:
        del fields["type"]
    if "type" not in source and "oneOf" in source and _INT_OR_STRING not in source:
        _say_type_of_choice(source, fields)
    _require_no_null(source, fields)


def _drop(fields: Object, *names: str) -> None:
    for name in names:
        fields.pop(name, None)


def _say_type_of_choice(source: Object, fields: Object) -> None:
    """Say that a choice that may be a string is one: so is a quantity in Kubernetes' v2."""
    types = [part.get("type") for part in _objects(source["oneOf"])]
    if "string" in types:
        fields["type"] = "string"
        ordered = key_order.SCHEMA.arranged(fields)
        fields.clear()
        fields.update(ordered)


def _objects(value: JSONValue) -> list[Object]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _require_no_null(source: Object, fields: Object) -> None:
    """Require no property that may be null, for kubectl takes null for absent."""
    required = fields.get("required")
    if not isinstance(required, list):
        return
    properties = source.get("properties")
    known = properties if isinstance(properties, dict) else {}
    kept = [name for name in required if not _is_nullable(known.get(str(name)))]
    if not kept or _is_nullable(source.get("additionalProperties")):
        del fields["required"]
    else:
        fields["required"] = kept


def _is_nullable(schema: JSONValue) -> bool:
    return isinstance(schema, dict) and schema.get("nullable") is True


def _discriminator(_: Schemas, value: JSONValue, at: Place) -> JSONValue:
    if isinstance(value, str):
        return value
    return as_text(as_object(value, at).get("propertyName"), (at, "propertyName"))


def _only(check: Callable[[JSONValue, Place], JSONValue]) -> _Convert:
    return lambda _, value, at: check(value, at)


_FIELDS: Final[Mapping[str, _Convert]] = {
    **dict.fromkeys(("description", "type", "format", "title", "pattern", "$ref"), _only(as_text)),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems"), _only(as_flag)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _only(as_number)),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), _only(as_size)),
    **dict.fromkeys(("maxProperties", "minProperties"), _only(as_size)),
    "readOnly": _only(as_flag),
    "enum": _only(as_list),
    "required": _only(as_texts),
    "properties": Schemas.schema_map,
    "allOf": Schemas.schema_list,
    "items": Schemas.schema,
    "additionalProperties": Schemas.schema_or_flag,
    "discriminator": _discriminator,
    "externalDocs": _only(as_object),
    "example": _only(as_is),
}

# Schemas without these say nothing that kubectl would take amiss, unless they are arrays.
_LESS: Final = frozenset(("nullable", "oneOf", "required", _PRESERVE))
