"""Schemas of OpenAPI v2 as schemas of v3, and of v3 as schemas of v2."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from apidiscovery_formats.openapi.pointers import SCHEMAS, Place
from apidiscovery_formats.openapi.traversal import KIND_KEY

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.references import (
    UNRESOLVED,
    ComponentNames,
    pointed,
    pointer_token,
)
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.openapi.v2.fields import (
    Convert,
    Object,
    as_flag,
    as_is,
    as_list,
    as_number,
    as_object,
    as_size,
    as_text,
    as_texts,
    extensions,
    invalid,
)

_DEFINITIONS: Final = "#/definitions/"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"

# Fields that schemas and simple values (parameters, their items, headers) have in both versions.
_VALUES: Final[Mapping[str, Convert]] = {
    **dict.fromkeys(("format", "pattern"), as_text),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems"), as_flag),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), as_number),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), as_size),
    "enum": as_list,
}


class _Schemas(ABC):
    """Converts schemas of one document.

    Attributes:
        fields: How the fields that are known are converted.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Convert] = {
            **_VALUES,
            **dict.fromkeys(("description", "title", "$ref"), as_text),
            **dict.fromkeys(("maxProperties", "minProperties"), as_size),
            "readOnly": as_flag,
            "required": as_texts,
            "properties": self.schema_map,
            "allOf": self.schema_list,
            "additionalProperties": self.schema_or_flag,
            "externalDocs": as_object,
        }

    @abstractmethod
    def schema(self, value: JSONValue, at: Place) -> Object:
        """Return a schema as the other version has it."""

    def schema_map(self, value: JSONValue, at: Place) -> Object:
        """Return schemas by name, in the order of the names."""
        source = as_object(value, at)
        return {name: self.schema(source[name], (at, name)) for name in sorted(source)}

    def schema_list(self, value: JSONValue, at: Place) -> list[JSONValue]:
        return [self.schema(item, (at, i)) for i, item in enumerate(as_list(value, at))]

    def schema_or_flag(self, value: JSONValue, at: Place) -> JSONValue:
        return value if isinstance(value, bool) else self.schema(value, at)


class SchemasToV3(_Schemas):
    """Converts schemas of v2, whose references lead to the definitions of their document.

    Attributes:
        names: Names of the components by names of the definitions.
        deep: Schemas that refer to something within a component, that component, and the rest of
            the pointer.
    """

    def __init__(self, definitions: Mapping[str, JSONValue]) -> None:
        super().__init__()
        self.fields |= {
            "nullable": as_flag,
            **dict.fromkeys(("patternProperties", "definitions"), self.schema_map),
            **dict.fromkeys(("oneOf", "anyOf"), self.schema_list),
            "additionalItems": self.schema_or_flag,
            "type": _types,
            "items": self.items,
            "not": self.schema,
            "dependencies": self.dependencies,
            "discriminator": lambda value, at: {"propertyName": as_text(value, at)},
        }
        self.names = ComponentNames(definitions.keys())
        self.deep: list[tuple[Object, str, str]] = []
        self._unknown: dict[str, str] = {}

    def unknown(self) -> Object:
        """Return components for the definitions that were referred to and are not there.

        Each of them allows any value and says of which reference it is the target.
        """
        return {name: {UNRESOLVED: self._unknown[name]} for name in sorted(self._unknown)}

    def reference(self, reference: str) -> Object:
        """Return a schema that refers to the component of a definition.

        What does not lead to a definition becomes a schema that allows any value and says so.
        """
        target = pointed(reference, _DEFINITIONS)
        if target is None or not target[0]:
            return {UNRESOLVED: reference}
        name, rest = target
        if name not in self.names:
            self._unknown[self.names.add(name)] = reference
        result: Object = {"$ref": SCHEMAS + pointer_token(self.names[name]) + rest}
        if rest:
            self.deep.append((result, self.names[name], rest))
        return result

    def schema(self, value: JSONValue, at: Place) -> Object:
        """Return a schema as v3 has it (kube-openapi `ConvertSchema`, `WrapRefs`)."""
        source = as_object(value, at)
        result: Object = {}
        for name in key_order.SCHEMA.names(source):
            result[name] = self.fields.get(name, as_is)(source[name], (at, name))
        if not isinstance(result.get("type", ""), str) or result.get("type") in _NO_TYPES:
            result = _of_types(result)
        return self._referring(result) if "$ref" in result else result

    def _referring(self, fields: Object) -> Object:
        """Return a schema with a reference: alone, or within `allOf` beside other fields."""
        target = self.reference(str(fields.pop("$ref")))
        if not fields:
            return target
        also = fields.get("allOf", [])
        fields["allOf"] = [target, *(also if isinstance(also, list) else [])]
        return key_order.SCHEMA.arranged(fields)

    def items(self, value: JSONValue, at: Place) -> JSONValue:
        """Return the schema of items; v3 has one for all of them, so a list becomes a choice."""
        if not isinstance(value, list):
            return self.schema(value, at)
        schemas = self.schema_list(value, at)
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else {}

    def dependencies(self, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        return {
            name: as_texts(source[name], (at, name))
            if isinstance(source[name], list)
            else self.schema(source[name], (at, name))
            for name in sorted(source)
        }


def _types(value: JSONValue, at: Place) -> JSONValue:
    return as_texts(value, at) if isinstance(value, list) else as_text(value, at)


# Types of v2 that v3 does not have.
_NO_TYPES: Final = ("file", "null")


def _of_types(fields: Object) -> Object:
    """Return a schema whose type v3 cannot express as such: a file, null, or several types."""
    given = fields.pop("type")
    types = given if isinstance(given, list) else [given]
    if "file" in types:
        fields |= {"type": "string", "format": "binary"}
        return key_order.SCHEMA.arranged(fields)
    if "null" in types:
        fields["nullable"] = True
    named = [name for name in types if name != "null"]
    if len(named) == 1:
        fields["type"] = named[0]
    elif named:
        choice: Object = {"anyOf": [{"type": name} for name in named]}
        also = fields.get("allOf", [])
        fields["allOf"] = [*(also if isinstance(also, list) else []), choice]
    return key_order.SCHEMA.arranged(fields)


_SIMPLE: Final[Mapping[str, Convert]] = {**_VALUES, "type": as_text, "default": as_is}


def simple_schema(source: Mapping[str, JSONValue], at: Place) -> Object:
    """Return the schema of a simple value: v2 has its fields in the parameter, items or header."""
    result: Object = {}
    for name in key_order.SCHEMA.names(source):
        if name in _SIMPLE:
            result[name] = _SIMPLE[name](source[name], (at, name))
        elif name == "items":
            items = as_object(source[name], (at, name))
            result[name] = simple_schema(items, (at, name)) | extensions(items)
    if result.get("type") == "file":
        return _of_types(result)
    if result.get("type") == "array" and "items" not in result:
        result["items"] = {}
    return key_order.SCHEMA.arranged(result)


# Style and explode of arrays, by place and collectionFormat. v3 has none for tabs, nor for spaces
# and pipes outside of queries.
_STYLES: Final[Mapping[tuple[str, str], Object]] = {
    ("query", "csv"): {"style": "form", "explode": False},
    ("query", "multi"): {"style": "form", "explode": True},
    ("query", "ssv"): {"style": "spaceDelimited", "explode": False},
    ("query", "pipes"): {"style": "pipeDelimited", "explode": False},
    ("path", "csv"): {"style": "simple"},
    ("header", "csv"): {"style": "simple"},
}


def style(source: Mapping[str, JSONValue], place: str, at: Place) -> Object:
    """Return the style of an array in a `query`, `path` or `header`; empty for other values.

    A format that v3 does not have becomes an extension.
    """
    if source.get("type") != "array":
        return {}
    form = as_text(source.get("collectionFormat", "csv"), (at, "collectionFormat"))
    if form not in ("csv", "ssv", "tsv", "pipes", "multi"):
        raise invalid((at, "collectionFormat"), f"{form!r} is not a format of collections")
    return dict(_STYLES.get((place, form), {"x-collection-format": form}))


# Only schemas with these fields, and arrays, may mislead kubectl.
_MISLEADING: Final = frozenset(("nullable", "oneOf", "required", _PRESERVE))


class SchemasToV2(_Schemas):
    """Converts schemas of v3, as Kubernetes publishes them.

    v2 has no `nullable`, `oneOf`, `anyOf` and `not`; and kubectl takes what v2 says of a value more
    strictly than it is meant, so that Kubernetes says less of it (apiextensions-apiserver
    `openapi/v2/conversion.go: ToStructuralOpenAPIV2`, `builder.go: buildKubeNative`), and no
    defaults (kube-openapi `handler/default_pruning.go`).

    Attributes:
        referred: Names of the schemas that were referred to; the caller may clear it.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take the names of the definitions by those of the components."""
        super().__init__()
        self.fields |= {
            "type": as_text,
            "items": self.schema,
            "discriminator": _property_name,
            "example": as_is,
        }
        self.referred: set[str] = set()
        self._names = names

    def root(self, value: JSONValue, at: Place) -> Object:
        """Return the definition of a component.

        A kind that preserves unknown fields becomes an object without properties, for kubectl
        would refuse such fields.
        """
        source = as_object(value, at)
        if source.get(_PRESERVE) is True and KIND_KEY in source:
            return {"type": "object", KIND_KEY: source[KIND_KEY]}
        return self.schema(source, at)

    def schema(self, value: JSONValue, at: Place) -> Object:
        """Return a schema as v2 has it."""
        source = as_object(value, at)
        result: Object = {}
        for name in key_order.SCHEMA.names(source):
            if name in self.fields:
                result[name] = self.fields[name](source[name], (at, name))
            elif name.startswith("x-"):
                result[name] = source[name]
        if "$ref" in result:
            self._refer(result)
        if "allOf" in result:
            result = _unwrapped(result)
        if not _MISLEADING.isdisjoint(source) or result.get("type") == "array":
            _remove_misleading(source, result)
        return result

    def _refer(self, fields: Object) -> None:
        """Make a reference lead to a definition.

        A reference into a component becomes an open schema, for its target may be gone.
        """
        reference = str(fields.pop("$ref"))
        target = pointed(reference, SCHEMAS)
        if target is None or target[1] or target[0] not in self._names:
            fields[UNRESOLVED] = reference
            return
        self.referred.add(target[0])
        fields["$ref"] = _DEFINITIONS + pointer_token(self._names[target[0]])


def _property_name(value: JSONValue, at: Place) -> JSONValue:
    if isinstance(value, str):
        return value
    return as_text(as_object(value, at).get("propertyName"), (at, "propertyName"))


def _unwrapped(fields: Object) -> Object:
    """Return a schema with an only reference in `allOf` beside its other fields.

    Other `allOf` stay where they compose types. Where they only restrict values, without a type of
    their own, they are left out, as Kubernetes leaves them out of the schemas of definitions.
    """
    parts = as_list(fields.pop("allOf"), None)
    objects = [part for part in parts if isinstance(part, dict)]
    if len(objects) == 1 and objects[0].keys() == {"$ref"} and "$ref" not in fields:
        return key_order.SCHEMA.arranged(fields | objects[0])
    if any("$ref" in part or "type" in part for part in objects):
        fields["allOf"] = parts
    return key_order.SCHEMA.arranged(fields)


def _remove_misleading(source: Object, fields: Object) -> None:
    """Remove the fields that would mislead kubectl."""
    if source.get("nullable") is True:
        _drop(fields, "type", "items", "properties")
    if source.get(_PRESERVE) is True:
        _drop(fields, "items", "properties")
        if fields.get("type") == "object":
            del fields["type"]
    if fields.get("type") == "array" and "items" not in fields:
        del fields["type"]
    if "type" not in source and "oneOf" in source and _INT_OR_STRING not in source:
        _declare_string(source, fields)
    _require_no_null(source, fields)


def _drop(fields: Object, *names: str) -> None:
    for name in names:
        fields.pop(name, None)


def _declare_string(source: Object, fields: Object) -> None:
    """Declare a choice that may be a string as a string, as Kubernetes' v2 does for quantities."""
    types = [part.get("type") for part in _objects(source["oneOf"])]
    if "string" in types:
        fields["type"] = "string"
        ordered = key_order.SCHEMA.arranged(fields)
        fields.clear()
        fields.update(ordered)


def _objects(value: JSONValue) -> list[Object]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _require_no_null(source: Object, fields: Object) -> None:
    """Require no nullable property, for kubectl treats null as absent."""
    required = fields.get("required")
    if not isinstance(required, list):
        return
    properties = source.get("properties")
    known = properties if isinstance(properties, dict) else {}
    not_null = [name for name in required if not _is_nullable(known.get(str(name)))]
    if not not_null or _is_nullable(source.get("additionalProperties")):
        del fields["required"]
    else:
        fields["required"] = not_null


def _is_nullable(schema: JSONValue) -> bool:
    return isinstance(schema, dict) and schema.get("nullable") is True
