"""The schemas of one OpenAPI document, as pages and the search read them.

A schema is taken as a whole: references and `allOf` are resolved, as Kubernetes publishes the types
of fields by these. Recursive references and very deep schemas are cut off.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apidiscovery_formats.openapi.pointers import resolve
from apidiscovery_formats.openapi.traversal import (
    KIND_KEY,
    Component,
    Fields,
    Object,
    as_list,
    as_object,
    components,
    is_object,
)

RULES: Final = "x-kubernetes-validations"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"

_MAX_DEPTH = 32  # of lists in lists, and of allOf in allOf
_STRUCTURE = frozenset({"properties", "required", RULES, "allOf"})
_MEANS_LITTLE = frozenset({"description", "default", "title", "type", "format", "example"})


class Schemas:
    """The schemas of a document.

    Args:
        document: Anything of it but `components` is forgotten.
    """

    def __init__(self, document: Fields) -> None:
        self._named = components(document, "schemas")
        self._document: Mapping[str, object] = {"components": {"schemas": self._named}}

    def __iter__(self) -> Iterator[tuple[str, Object]]:
        """Yield each named schema."""
        for name, schema in self._named.items():
            if is_object(schema):
                yield name, schema

    def of_kind(self, group: str, version: str, kind: str) -> Object | None:
        """Return the schema of a kind; None without one."""
        wanted = {"group": group, "version": version, "kind": kind}
        for _, schema in self:
            if wanted in as_list(schema.get(KIND_KEY)):
                return schema
        return None

    def whole(self, schema: Object) -> Object:
        """Return a schema with its references and `allOf` resolved; its own keys win.

        What several parts say differently, such as their patterns, stays in `allOf`.
        """
        return self._whole(schema, set(), 0)

    def _whole(self, schema: Object, seen: set[str], depth: int) -> Object:
        parts: list[Object] = []
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            if (target := resolve(reference, self._document)) is not None:
                parts.append(target)
        if depth < _MAX_DEPTH:
            parts += objects(schema.get("allOf"))
        if not parts:
            return schema
        result = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        differing: list[Object] = []
        for part in parts:
            whole = self._whole(part, seen, depth + 1)
            differing += objects(whole.get("allOf"))
            differing += _added(result, whole)
        return {**result, "allOf": differing} if differing else result

    def outline(self, schema: Object) -> "Outline":
        """Return a field by its schema: its type, and the fields in it."""
        whole = inner = self.whole(schema)
        prefix = ""
        for _ in range(_MAX_DEPTH):
            element = element_of(inner)
            if element is None or as_object(inner.get("properties")):
                break
            prefix += "[]" if as_object(inner.get("items")) else "map[string]"
            schema, inner = element, self.whole(element)
        return Outline(
            whole, inner, prefix + (_reference_name(schema, inner) or _plain_type(inner))
        )

    def name_of(self, schema: Object) -> str:
        """Return the name of the schema that one refers to, or is; empty for one without."""
        for place in (schema, *objects(schema.get("allOf"))):
            reference = place.get("$ref")
            component = Component.of(reference) if isinstance(reference, str) else None
            if component is not None:
                return component.name
        return next((name for name, each in self if each is schema), "")


@dataclass(frozen=True, slots=True)
class Outline:
    """A field by its schema.

    Attributes:
        whole: Its schema, as `Schemas.whole` returns it.
        inner: The same of the items of a list or the values of a map, also of those within each
            other; of anything else its own.
        type_name: A short name for what the schema allows, such as `[]Container`.
    """

    whole: Object
    inner: Object
    type_name: str

    @property
    def properties(self) -> Object:
        """Return the schemas of the fields in it."""
        return as_object(self.inner.get("properties"))

    @property
    def required(self) -> list[str]:
        """Return the names of the fields in it that are required."""
        return texts(self.inner.get("required"))


def objects(value: object) -> list[Object]:
    """Return the objects of an array; nothing where there is none."""
    return [item for item in as_list(value) if is_object(item)]


def texts(value: object) -> list[str]:
    """Return the strings of an array; nothing where there is none."""
    return [item for item in as_list(value) if isinstance(item, str)]


def element_of(whole: Object) -> Object | None:
    """Return the schema of the items of a list, or of the values of a map; None for the rest."""
    return as_object(whole.get("items")) or _values(whole)


def is_int_or_string(schema: Object) -> bool:
    """Return whether a schema takes integers and strings."""
    return schema.get(INT_OR_STRING) is True or schema.get("format") == "int-or-string"


def _values(whole: Object) -> Object | None:
    values = whole.get("additionalProperties")
    return values if is_object(values) else None


def _added(result: Object, part: Object) -> list[Object]:
    """Add the keys of a part to a schema; return those that the schema has with other values."""
    differing: list[Object] = []
    for key, value in part.items():
        if key not in _STRUCTURE:
            if result.setdefault(key, value) != value and key not in _MEANS_LITTLE:
                differing.append({key: value})
        elif key == "properties":
            result[key] = {**as_object(value), **as_object(result.get(key))}
        elif key != "allOf":
            result[key] = [*as_list(result.get(key)), *as_list(value)]
    return differing


def _reference_name(schema: Object, whole: Object) -> str:
    """Return the last part of the name of an object's schema; empty for anything else."""
    if whole.get("type") not in (None, "object") or is_int_or_string(whole):
        return ""
    places = [schema, *objects(schema.get("allOf"))]
    named = (place.get("$ref") for place in places)
    reference = next((each for each in named if isinstance(each, str)), "")
    component = Component.of(reference)
    return component.name.rpartition(".")[2] if component else ""


def _plain_type(whole: Object) -> str:
    if is_int_or_string(whole):
        return "integer or string"
    kind = whole.get("type")
    if isinstance(kind, str):
        return kind
    return "object" if as_object(whole.get("properties")) else "any"
