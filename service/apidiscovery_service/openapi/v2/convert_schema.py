"""Schemas of OpenAPI v2 as schemas of v3."""

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
    extensions,
    invalid,
)
from apidiscovery_service.openapi.v2.references import UNRESOLVED, ComponentNames, escaped, pointed

_Convert: TypeAlias = Callable[["Schemas", JSONValue, Place], JSONValue]

_DEFINITIONS: Final = "#/definitions/"
_SCHEMAS: Final = "#/components/schemas/"


class Schemas:
    """Converts schemas of one document, whose references lead to its definitions.

    Attributes:
        names: Names of the components by names of the definitions.
        deep: Schemas that refer to something within a component, that component, and the rest of
            the pointer.
    """

    def __init__(self, definitions: Mapping[str, JSONValue]) -> None:
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
        result: Object = {"$ref": _SCHEMAS + escaped(self.names[name]) + rest}
        if rest:
            self.deep.append((result, self.names[name], rest))
        return result

    def schema(self, value: JSONValue, at: Place) -> Object:
        """Return a schema as v3 has it (kube-openapi `ConvertSchema`, `WrapRefs`)."""
        source = as_object(value, at)
        result: Object = {}
        for name in key_order.SCHEMA.names(source):
            result[name] = _FIELDS.get(name, _any)(self, source[name], (at, name))
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

    def schema_map(self, value: JSONValue, at: Place) -> Object:
        """Return schemas by name, in the order of the names."""
        source = as_object(value, at)
        return {name: self.schema(source[name], (at, name)) for name in sorted(source)}

    def schema_list(self, value: JSONValue, at: Place) -> list[JSONValue]:
        return [self.schema(item, (at, i)) for i, item in enumerate(as_list(value, at))]

    def schema_or_flag(self, value: JSONValue, at: Place) -> JSONValue:
        return value if isinstance(value, bool) else self.schema(value, at)

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


def _discriminator(_: Schemas, value: JSONValue, at: Place) -> JSONValue:
    return {"propertyName": as_text(value, at)}


def _types(_: Schemas, value: JSONValue, at: Place) -> JSONValue:
    return as_texts(value, at) if isinstance(value, list) else as_text(value, at)


def _only(check: Callable[[JSONValue, Place], JSONValue]) -> _Convert:
    return lambda _, value, at: check(value, at)


_any = _only(as_is)

_FIELDS: Final[Mapping[str, _Convert]] = {
    **dict.fromkeys(("description", "format", "title", "pattern", "$ref"), _only(as_text)),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems"), _only(as_flag)),
    **dict.fromkeys(("nullable", "readOnly"), _only(as_flag)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _only(as_number)),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), _only(as_size)),
    **dict.fromkeys(("maxProperties", "minProperties"), _only(as_size)),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), Schemas.schema_map),
    **dict.fromkeys(("allOf", "oneOf", "anyOf"), Schemas.schema_list),
    **dict.fromkeys(("additionalProperties", "additionalItems"), Schemas.schema_or_flag),
    "type": _types,
    "enum": _only(as_list),
    "required": _only(as_texts),
    "items": Schemas.items,
    "not": Schemas.schema,
    "dependencies": Schemas.dependencies,
    "discriminator": _discriminator,
    "externalDocs": _only(as_object),
}

# What is a type in v2 and not in v3: that of uploaded and downloaded files, and of null.
_NO_TYPES: Final = ("file", "null")


def _of_types(fields: Object) -> Object:
    """Return a schema whose type v3 does not have: a file, null, or one of several."""
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


_SIMPLE: Final[Mapping[str, Callable[[JSONValue, Place], JSONValue]]] = {
    **dict.fromkeys(("type", "format", "pattern"), as_text),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems"), as_flag),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), as_number),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), as_size),
    "enum": as_list,
    "default": as_is,
}


def simple_schema(source: Mapping[str, JSONValue], at: Place) -> Object:
    """Return the schema of what says its type itself in v2: parameters, their items, headers."""
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


# How arrays are written, by where they stand: v3's style and whether each item is written by
# itself. v3 has nothing for items between tabs, nor for spaces and pipes outside of queries.
_STYLES: Final[Mapping[tuple[str, str], Object]] = {
    ("query", "csv"): {"style": "form", "explode": False},
    ("query", "multi"): {"style": "form", "explode": True},
    ("query", "ssv"): {"style": "spaceDelimited", "explode": False},
    ("query", "pipes"): {"style": "pipeDelimited", "explode": False},
    ("path", "csv"): {"style": "simple"},
    ("header", "csv"): {"style": "simple"},
}


def style(source: Mapping[str, JSONValue], place: str, at: Place) -> Object:
    """Return how an array is written at a place (`query`, `path`, `header`); empty for others.

    A form of v2 that v3 does not have is kept as an extension.
    """
    if source.get("type") != "array":
        return {}
    form = as_text(source.get("collectionFormat", "csv"), (at, "collectionFormat"))
    if form not in ("csv", "ssv", "tsv", "pipes", "multi"):
        raise invalid((at, "collectionFormat"), f"{form!r} is not a format of collections")
    return dict(_STYLES.get((place, form), {"x-collection-format": form}))
