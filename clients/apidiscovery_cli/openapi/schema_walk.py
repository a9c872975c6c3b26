"""Walks the schemas of a document as kubectl's explain does, within bounds.

Source: kubectl pkg/explain/v2/templates/plaintext.tmpl (`output`, `fieldList`, `typeGuess`,
`description`) and funcs.go, release 1.32. Other than there, whatever a document says ends: what is
nested through references deeper or is larger than any real schema is an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from apidiscovery_client._fields import name_of
from apidiscovery_client.openapi.json_documents import (
    Fields,
    Object,
    UnsoundDocument,
    as_list,
    is_list,
    is_object,
)
from apidiscovery_formats.openapi.pointers import resolve

MAX_SCHEMA_DEPTH = 128  # of schemas within schemas, through references too
MAX_VISITS = 200_000  # of schemas for one answer; all fields of all of Prometheus are 8 000
MAX_CHARACTERS = 64 << 20  # of descriptions in one answer

_NO_REFERENCES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Field:
    """A property of a schema.

    Attributes:
        level: 1 for the schema's own, one more for each property above it.
    """

    level: int
    name: str
    schema: Object
    required: bool


class SchemaWalk:
    """Reads the schemas of one document for one answer.

    Every method raises `UnsoundDocument` for what is not shaped as a schema, or beyond the bounds.
    """

    def __init__(self, document: Fields) -> None:
        self._document = document
        self._visits = 0
        self._characters = 0

    def resolved(self, schema: Object) -> Object:
        """Return what a schema's `$ref` means; the schema itself where that is nothing."""
        return resolve(schema.get("$ref"), self._document) or schema

    def find(self, schema: Object, path: Sequence[str]) -> Object | None:
        """Return the schema of the property that a path of names leads to; None without one."""
        return self._find(schema, path, _NO_REFERENCES, 0)

    def _find(
        self, schema: Object, path: Sequence[str], seen: frozenset[str], depth: int
    ) -> Object | None:
        if not path:
            return schema
        self._visit(depth)
        reference = _reference(schema)
        if reference in seen:
            return None
        resolved = self.resolved(schema)
        if inner := _object(_object(resolved, "properties") or {}, path[0]):
            return self._find(inner, path[1:], _NO_REFERENCES, depth + 1)
        seen = seen | {reference} if reference else seen
        if inner := _object(resolved, "items") or _values(resolved):
            return self._find(inner, path, seen, depth + 1)
        found = (self._find(part, path, seen, depth + 1) for part in _parts(resolved))
        return next((schema for schema in found if schema is not None), None)

    def fields(self, schema: Object, levels: float = 1) -> Iterator[Field]:
        """Yield the properties of a schema, each followed by its own, down to a number of levels.

        Sorted by name within each schema; those of `allOf` come after a schema's own. A reference
        is not followed again below itself.
        """
        return self._fields(schema, Field(1, "", schema, required=False), levels, _NO_REFERENCES, 0)

    def _fields(
        self, schema: Object, place: Field, levels: float, seen: frozenset[str], depth: int
    ) -> Iterator[Field]:
        self._visit(depth)
        reference = _reference(schema)
        if reference in seen:
            return
        seen = seen | {reference} if reference else seen
        resolved = self.resolved(schema)
        required = as_list(resolved.get("required"))
        properties = _object(resolved, "properties") or {}
        for name in sorted(properties):
            inner = _required_object(properties, name)
            found = Field(place.level, name, inner, name in required)
            yield found
            if found.level < levels:
                below = replace(found, level=found.level + 1)
                yield from self._fields(inner, below, levels, seen, depth + 1)
        for inner in _inner(resolved):
            yield from self._fields(inner, place, levels, seen, depth + 1)

    def description(self, schema: Object) -> str:
        """Return the descriptions of a schema and of what it is made of, each with a line feed."""
        return "".join(self._descriptions(schema, 0))

    def _descriptions(self, schema: Object, depth: int) -> Iterator[str]:
        self._visit(depth)
        resolved = self.resolved(schema)
        if own := self.own_description(resolved):
            yield f"{own}\n"
        for inner in _inner(resolved):
            yield from self._descriptions(inner, depth + 1)

    def own_description(self, schema: Object) -> str:
        """Return a schema's own description; empty without one."""
        own = schema.get("description") or ""
        if not isinstance(own, str):
            raise UnsoundDocument(f"a description is {name_of(own)}, not a string")
        self._characters += len(own)
        if self._characters > MAX_CHARACTERS:
            raise UnsoundDocument(f"the descriptions exceed {MAX_CHARACTERS} characters")
        return own

    def type_name(self, schema: Object, depth: int = 0) -> str:
        """Return a short name for what a schema allows, such as `[]Container`."""
        self._visit(depth)
        if items := _object(schema, "items"):
            return f"[]{self.type_name(items, depth + 1)}"
        if values := _values(schema):
            return f"map[string]{self.type_name(values, depth + 1)}"
        parts = _parts(schema)
        if len(parts) == 1 and not schema.get("properties"):
            return self.type_name(parts[0], depth + 1)
        reference = _reference(schema)
        return self._referenced_name(reference) if reference else _plain_type(schema)

    def _referenced_name(self, reference: str) -> str:
        """Return the last part of the name of an object, or the type of anything else."""
        target = resolve(reference, self._document)
        if target and target.get("type") not in (None, "", "object"):
            return _plain_type(target)
        return reference.rpartition("/")[2].rpartition(".")[2] or "Object"

    def _visit(self, depth: int) -> None:
        self._visits += 1
        if depth > MAX_SCHEMA_DEPTH:
            raise UnsoundDocument(f"schemas are nested more than {MAX_SCHEMA_DEPTH} deep")
        if self._visits > MAX_VISITS:
            raise UnsoundDocument(f"more than {MAX_VISITS} schemas are one within another")


def _reference(schema: Object) -> str:
    reference = schema.get("$ref") or ""
    if not isinstance(reference, str):
        raise UnsoundDocument(f"a $ref is {name_of(reference)}, not a string")
    return reference


def _plain_type(schema: Object) -> str:
    name = schema.get("type") or "Object"
    if not isinstance(name, str):
        raise UnsoundDocument(f"a type is {name_of(name)}, not a string")
    return "Object" if name == "object" else name


def _inner(schema: Object) -> Iterator[Object]:
    """Yield the schemas that say more of the same value, or of the values in it."""
    yield from _parts(schema)
    if items := _object(schema, "items"):
        yield items
    if values := _values(schema):
        yield values


def _parts(schema: Object) -> list[Object]:
    parts: object = schema.get("allOf") or []
    if not is_list(parts):
        raise UnsoundDocument(f"allOf is {name_of(parts)}, not an array")
    return [_required_object({"allOf": part}, "allOf") for part in parts]


def _values(schema: Object) -> Object | None:
    """Return the schema of a map's values; None where that is a boolean."""
    if isinstance(schema.get("additionalProperties"), bool):
        return None
    return _object(schema, "additionalProperties")


def _object(fields: Object, key: str) -> Object | None:
    """Return an object in a field; None when it is absent, null or empty."""
    return _required_object(fields, key) or None if fields.get(key) is not None else None


def _required_object(fields: Object, key: str) -> Object:
    value = fields[key]
    if not is_object(value):
        raise UnsoundDocument(f"{key} is {name_of(value)}, not an object")
    return value
