"""What the search index has of a document: its fields, and the kinds that they belong to."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

import orjson
from apidiscovery_formats.openapi.json_schema import kinds_of
from apidiscovery_formats.openapi.traversal import Component, Object, as_object, components

from apidiscovery_service.openapi.schema_text import own_kinds, read
from apidiscovery_service.web.field_schemas import objects

MAX_FIELDS: Final = 50_000
"""Fields of one named schema; the largest known has 4,000."""

MAX_DESCRIPTION: Final = 2_000
"""Characters of a description that are searched."""

_MAX_DEPTH = 64
_MAX_WAY = 12  # named schemas within each other on the way to a field

# A path within a schema, and a description.
FieldText: TypeAlias = tuple[str, str]
# A group, a version, a kind, and the path to what has a schema.
Use: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class SchemaFields:
    """A named schema.

    Attributes:
        digest: Equal schemas of several documents have the same.
        fields: Those within it; not those within other named schemas.
        uses: Where kinds of the document have it, the shortest way for each kind.
    """

    digest: str
    fields: tuple[FieldText, ...]
    uses: tuple[Use, ...]


def schema_fields(text: bytes, key: str) -> tuple[SchemaFields, ...]:
    """Return the named schemas that the kinds of a document are made of.

    Args:
        text: The document.
        key: The path that it describes, such as `apis/apps/v1`.

    Raises:
        UnusableDocument: It is not a JSON object.
    """
    document = read(text)
    schemas = components(document, "schemas")
    kinds = own_kinds(text, key)
    names = {kind.name for kind in kinds}
    uses: dict[str, list[Use]] = {}
    parts: dict[str, _Parts] = {}
    for name, schema in schemas.items():
        for kind in kinds_of(schema):
            is_list = kind.name.endswith("List") and kind.name.removesuffix("List") in names
            if kind in kinds and not is_list:
                for used, way in _ways(schemas, parts, name):
                    use = kind.group, kind.version, kind.name, way
                    uses.setdefault(used, []).append(use)
    return tuple(
        SchemaFields(_digest(name, schemas[name]), tuple(parts[name].fields), tuple(found))
        for name, found in uses.items()
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """A named schema by itself: its fields, and where it refers to others."""

    fields: list[FieldText]
    references: list[tuple[str, str]]


def _ways(schemas: Object, parts: dict[str, _Parts], root: str) -> Iterator[tuple[str, str]]:
    """Yield each named schema that one is made of, with the shortest path to it."""
    seen = {root}
    pending = deque([(root, "", 0)])
    while pending:
        name, way, depth = pending.popleft()
        if name not in parts:
            parts[name] = _parts(as_object(schemas.get(name)))
        yield name, way
        for path, target in parts[name].references:
            if target not in seen and target in schemas and depth < _MAX_WAY:
                seen.add(target)
                pending.append((target, joined(way, path), depth + 1))


def _parts(schema: Object) -> _Parts:
    found = _Parts([], [])
    pending = [(schema, "", 0)]
    while pending and len(found.fields) < MAX_FIELDS:
        value, path, depth = pending.pop()
        reference = value.get("$ref")
        component = Component.of(reference) if isinstance(reference, str) else None
        if component is not None:
            found.references.append((path, component.name))
        if depth > _MAX_DEPTH:
            continue
        for name, inner in as_object(value.get("properties")).items():
            field = as_object(inner)
            text = field.get("description")
            within = joined(path, name)
            found.fields.append((within, text[:MAX_DESCRIPTION] if isinstance(text, str) else ""))
            pending.append((field, within, depth + 1))
        elements = objects([value.get("items"), value.get("additionalProperties")])
        parts = [*elements, *objects(value.get("allOf"))]
        pending += [(part, path, depth + 1) for part in parts]
    return found


def joined(way: str, path: str) -> str:
    """Return two paths joined, of which each may be empty."""
    return f"{way}.{path}" if way and path else way or path


def _digest(name: str, schema: object) -> str:
    return blake2b(name.encode() + orjson.dumps(schema), digest_size=16).hexdigest()
