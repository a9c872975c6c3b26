"""Describes a resource or one of its fields: in kubectl's text, or as data.

Source: kubectl pkg/explain/v2/templates/plaintext.tmpl of release 1.32.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apidiscovery_client.model import GroupVersionResource
from apidiscovery_client.openapi.compact import compact_text
from apidiscovery_client.openapi.json_documents import (
    KIND_KEY,
    Fields,
    NotExplained,
    Object,
    UnsoundDocument,
    as_list,
    as_object,
    components,
    is_list,
)
from apidiscovery_formats.go_text import plain

from apidiscovery_cli.openapi.schema_walk import Field, SchemaWalk

_METHODS = ("get", "post", "put", "patch", "delete")
_WIDTH, _FIELD_WIDTH = 76, 78
_SHORT_ENUM = 4
_NO_VALUE = "<no value>"  # what Go's templates print for what is not there


@dataclass(frozen=True, slots=True)
class Question:
    """The resource or field to explain.

    Attributes:
        path: Names of fields, each within the one before it; empty for the resource itself.
        levels: How deep fields are listed: 1 with descriptions, more without.
    """

    resource: GroupVersionResource
    path: Sequence[str] = ()
    levels: float = 1

    @property
    def is_recursive(self) -> bool:
        """Whether fields of fields are asked for."""
        return self.levels > 1


def levels(*, recursive: bool, max_depth: int) -> float:
    """Return how deep fields are listed; a `max_depth` of 0 is without limit."""
    if not recursive:
        return 1
    return max_depth or math.inf


class Explained:
    """One kind of a document.

    Raises:
        NotExplained: The document does not have the resource.
    """

    def __init__(self, document: Fields, question: Question) -> None:
        self._document = document
        self._question = question
        self._walk = SchemaWalk(document)
        self.kind = _kind_of(document, question.resource)

    def header(self) -> str:
        """Return the lines that name group, kind and version."""
        group = self.kind.get("group")
        lines = [f"GROUP:      {plain(group)}"] if group else []
        for label, key in (("KIND:       ", "kind"), ("VERSION:    ", "version")):
            value = self.kind.get(key)
            lines.append(label + (_NO_VALUE if value is None else plain(value)))
        return "".join(f"{line}\n" for line in [*lines, ""])

    def text(self) -> str:
        """Return what comes after the header.

        Raises:
            NotExplained: There is no such kind in the document, or no such field.
            UnsoundDocument: The schemas are beyond the bounds of `SchemaWalk`.
        """
        schema = self._schema()
        return "".join([*self._field_lines(schema), *self._body(schema), "\n"])

    def compact(self, *, depth: int, descriptions: bool) -> str:
        """Return the fields as compact text; of a depth of 0 all; raise as `text`."""
        named = (self.kind.get(key) for key in ("kind", "group", "version"))
        kind, *api_version = (plain(value) for value in named if value)
        title = " ".join(
            (kind, "/".join(api_version), *filter(None, [".".join(self._question.path)]))
        )
        schema = self._schema()
        return compact_text(self._document, schema, title, depth=depth, descriptions=descriptions)

    def data(self) -> dict[str, object]:
        """Return the same as JSON values; raise as `text` does."""
        schema = self._schema()
        path = ".".join(self._question.path)
        return {
            **{key: self.kind.get(key) or "" for key in ("group", "version", "kind")},
            "resource": self._question.resource.resource,
            **({"field": path} if path else {}),
            "type": self._walk.type_name(schema) if path else "Object",
            "description": self._walk.description(schema).rstrip("\n"),
            **_enum_data(schema),
            "fields": self._fields_data(schema),
        }

    def _schema(self) -> Object:
        schema = self._walk.find(_schema_of(self._document, self.kind), self._question.path)
        if schema is None:
            raise NotExplained(f'field "{self._question.path[-1]}" does not exist')
        return schema

    def _field_lines(self, schema: Object) -> Iterator[str]:
        if path := self._question.path:
            yield f"FIELD: {path[-1]} <{self._walk.type_name(schema)}>\n"
            if values := _enum(schema):
                yield "ENUM:" + "".join(f"\n    {_enum_text(value)}" for value in values)
            yield "\n\n"

    def _body(self, schema: Object) -> Iterator[str]:
        resolved = self._walk.resolved(schema)
        description = self._walk.description(resolved) or "<empty>"
        yield f"DESCRIPTION:\n{indent(wrap(description, _WIDTH), 4)}\n"
        for number, field in enumerate(self._walk.fields(resolved, self._question.levels)):
            yield "FIELDS:\n" if number == 0 else ""
            yield from self._field(field)

    def _field(self, field: Field) -> Iterator[str]:
        margin = field.level * 2
        yield f"{indent(field.name, margin)}\t<{self._walk.type_name(field.schema)}>"
        yield " -required-" if field.required else ""
        if values := _enum(field.schema):
            listed = [_enum_text(value) for value in values[:_SHORT_ENUM]]
            more = ", ...." if len(values) > _SHORT_ENUM else ""
            yield f"\n{' ' * margin}enum: {', '.join(listed)}{more}"
        yield "\n"
        if not self._question.is_recursive:
            description = self._walk.own_description(field.schema) or "<no description>"
            wrapped = wrap(description, _FIELD_WIDTH - margin)
            yield f"{indent(wrapped, margin + 2)}\n\n"

    def _fields_data(self, schema: Object) -> list[object]:
        """Return the fields as a tree; those that a level ends with have no `fields`."""
        tops: list[object] = []
        lists = [tops]
        for field in self._walk.fields(self._walk.resolved(schema), self._question.levels):
            below: list[object] = []
            entry = self._field_data(field)
            if field.level < self._question.levels:
                entry["fields"] = below
            del lists[field.level :]
            lists[-1].append(entry)
            lists.append(below)
        return tops

    def _field_data(self, field: Field) -> dict[str, object]:
        return {
            "name": field.name,
            "type": self._walk.type_name(field.schema),
            "required": field.required,
            "description": self._walk.own_description(field.schema),
            **_enum_data(field.schema),
        }


def _kind_of(document: Fields, resource: GroupVersionResource) -> Object:
    """Return group, version and kind by the operations of a resource's paths; the last one wins.

    Raises:
        NotExplained: No path of the resource states it.
    """
    paths = as_object(document.get("paths"))
    kind: object = None
    for path in _paths_of(resource):
        item = as_object(paths.get(path))
        for method in _METHODS:
            if operation := as_object(item.get(method)):
                kind = operation.get(KIND_KEY)
                if kind:
                    break
    found = as_object(kind)
    if not found:
        raise NotExplained(f"GVR ({resource}) not found in OpenAPI schema")
    return found


def _paths_of(resource: GroupVersionResource) -> Iterator[str]:
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    for scope in ("", "/namespaces/{namespace}"):
        path = f"{prefix}/{resource.version}{scope}/{resource.resource}"
        yield path
        yield f"{path}/{{name}}"


def _schema_of(document: Fields, kind: Object) -> Object:
    """Return the first schema, by name, that is of a kind; raise `NotExplained` without one."""
    schemas = components(document, "schemas")
    for name in sorted(schemas):
        schema = as_object(schemas[name])
        if schema and kind in as_list(schema.get(KIND_KEY)):
            return schema
    raise NotExplained(f"GVK {plain(kind)} not found in OpenAPI schema")


def _enum(schema: Object) -> list[object]:
    values: object = schema.get("enum") or []
    if not is_list(values):
        raise UnsoundDocument("an enum is not an array")
    return values


def _enum_text(value: object) -> str:
    if value is None:
        return _NO_VALUE
    return '""' if value == "" else plain(value)


def _enum_data(schema: Object) -> dict[str, object]:
    values = _enum(schema)
    return {"enum": values} if values else {}


# What Go's unicode.IsSpace says, without the line feed and the no-break space (`nbsp` in wordwrap).
_SPACES = r"\t\v\f\r \x85\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_TOKEN = re.compile(rf"(\n)|([{_SPACES}]+)|[^\n{_SPACES}]+")


def wrap(text: str, width: int) -> str:
    r"""Return the text with lines of at most `width` characters, but for words that are longer.

    A word that begins behind the first column is moved to a line of its own only if that much of
    it as would overflow is shorter than `width`; the space before it is then dropped.
    Source: mitchellh/go-wordwrap v1.0.1 wordwrap.go `WrapString`, through kubectl
    pkg/util/term/term_writer.go `NewWordWrapWriter`.

    >>> wrap("one two three", 8)
    'one two\nthree'
    """
    pieces: list[str] = []
    column = 0
    space = ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        if token[1]:
            pieces += _fitting(space, column, width), word
            space, column = "", 0
        elif token[2]:
            space = word
        else:
            if _breaks_before(len(word), column + len(space), width):
                pieces.append("\n")
                space, column = "", 0
            pieces += space, word
            column += len(space) + len(word)
            space = ""
    return "".join([*pieces, _fitting(space, column, width)])


def _fitting(space: str, column: int, width: int) -> str:
    """Return the space at the end of a line, or nothing where it reaches over the edge."""
    return space if column + len(space) <= width else ""


def _breaks_before(length: int, column: int, width: int) -> bool:
    overflowing = max(1, width - column + 1)  # the character of the word that is over the edge
    return overflowing <= length and overflowing < width


def indent(text: str, amount: int) -> str:
    """Return the text with every line, also an empty one, moved to the right."""
    pad = " " * amount
    return pad + text.replace("\n", f"\n{pad}")
