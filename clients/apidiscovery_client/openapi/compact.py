"""The fields of a kind as compact text, for people and for language models.

One line a field, indented by one space a level:

    spec
     replicas int
     selector*
      matchLabels {string}
     strategy
      type Recreate|RollingUpdate

`*` is required, `[T]` a list, `{T}` a map with text as keys, `T=x` a default, `...` fields below
the last level. A type that occurs more often is written once, behind all else, under `Name:`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from apidiscovery_formats.openapi.pointers import resolve

from apidiscovery_client.openapi.json_documents import (
    Fields,
    Object,
    UnsoundDocument,
    as_list,
    as_object,
)

MAX_FIELDS: Final = 200_000
MAX_DEPTH: Final = 100  # of schemas within schemas

_ALL = 1 << 30  # levels
_FORMATS = {"date-time": "time", "byte": "base64"}
_TYPES = {"integer": "int", "boolean": "bool", "": "any"}
_NAMED = {"Quantity": "quantity", "IntOrString": "int|string"}
_CLOSING = {"[": "]", "{": "}"}
_MAX_ENUM = 12  # values that are listed
_MIN_SECTION = 2  # fields of a type that is written once
_SENTENCE = re.compile(r".*?[.:](?=\s|$)")
_NAMING = ("apiVersion", "kind")  # the title tells them


@dataclass(frozen=True, slots=True, eq=False)
class _Body:
    """The fields of an object; equal ones are one object."""

    name: str
    fields: "tuple[_Field, ...]"


@dataclass(frozen=True, slots=True)
class _Type:
    """The type of a field.

    Attributes:
        around: The lists and maps around it from the outermost in, each as its opening bracket.
        text: Of a type without fields.
        body: Of a type with fields.
    """

    around: str = ""
    text: str = ""
    body: _Body | None = None

    def shown(self, name: str) -> str:
        """Return the text of the type, in which its fields are called so."""
        closing = "".join(_CLOSING[one] for one in reversed(self.around))
        return f"{self.around}{name if self.body else self.text}{closing}"


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    is_required: bool
    type: _Type
    description: str


@dataclass(slots=True)
class _Reader:
    """Reads schemas; a type within itself is only named.

    Attributes:
        recursive: The names of such types.
    """

    document: Fields
    descriptions: bool
    recursive: set[str] = field(default_factory=set[str])
    _bodies: dict[object, _Body] = field(default_factory=dict[object, _Body])
    _known: dict[tuple[str, int], _Type] = field(default_factory=dict[tuple[str, int], _Type])
    _inside: list[str] = field(default_factory=list[str])
    _outermost: int = MAX_DEPTH + 1  # the place in `_inside` of what was only named
    _count: int = 0

    def type_of(self, schema: Object, name: str, levels: int) -> _Type:
        """Return the type of a schema, with fields down to some levels."""
        if len(self._inside) >= MAX_DEPTH:
            raise UnsoundDocument(f"schemas are nested more than {MAX_DEPTH} deep")
        reference = _reference(schema)
        if not reference:
            return self._entered("", schema, name, levels)
        name = reference.rpartition("/")[2].rpartition(".")[2]
        if reference in self._inside:
            self._outermost = min(self._outermost, self._inside.index(reference))
            self.recursive.add(name)
            return _Type(text=name)
        place = (reference, levels)
        if place in self._known:
            return self._known[place]
        beside = {key: value for key, value in schema.items() if key == "default"}
        target = resolve(reference, self.document) or {}
        found = self._entered(reference, {**target, **beside}, name, levels)
        if self._outermost > len(self._inside) and not beside:
            self._known[place] = found  # it names nothing that is around it here alone
        return found

    def _entered(self, reference: str, schema: Object, name: str, levels: int) -> _Type:
        self._inside.append(reference)
        found = self._read(schema, name, levels)
        self._inside.pop()
        if self._outermost >= len(self._inside):
            self._outermost = MAX_DEPTH + 1
        return found

    def _read(self, schema: Object, name: str, levels: int) -> _Type:
        for key, bracket in (("items", "["), ("additionalProperties", "{")):
            if inner := as_object(schema.get(key)):
                found = self.type_of(inner, name, levels)
                return _Type(bracket + found.around, found.text, found.body)
        properties = as_object(schema.get("properties"))
        if not properties:
            return _Type(text=_type_name(schema, name))
        if levels <= 0:
            return _Type(text="...")
        return _Type(body=self._body(schema, name, levels))

    def _body(self, schema: Object, name: str, levels: int) -> _Body:
        """Return the fields of a schema by name."""
        properties = as_object(schema.get("properties"))
        required = as_list(schema.get("required"))
        fields = list[_Field]()
        for key in sorted(properties):
            self._count += 1
            if self._count > MAX_FIELDS:
                raise UnsoundDocument(f"there are more than {MAX_FIELDS} fields")
            inner = as_object(properties[key])
            found = self.type_of(inner, key[:1].upper() + key[1:], levels - 1)
            fields.append(_Field(key, key in required, found, self._description(inner)))
        made = _Body(name, tuple(fields))
        return self._bodies.setdefault(made.fields, made)

    def _description(self, schema: Object) -> str:
        text = schema.get("description")
        if not self.descriptions or not isinstance(text, str):
            return ""
        flat = " ".join(text.split())
        found = _SENTENCE.match(flat)
        return found[0] if found else flat


def _reference(schema: Object) -> str:
    reference = schema.get("$ref")
    parts = as_list(schema.get("allOf"))
    if reference is None and len(parts) == 1 and not schema.get("properties"):
        reference = as_object(parts[0]).get("$ref")
    return reference if isinstance(reference, str) else ""


def _type_name(schema: Object, name: str) -> str:
    """Return the type of a value without fields, with its enum and its default."""
    values = as_list(schema.get("enum"))
    if schema.get("x-kubernetes-int-or-string") is True:
        text = _NAMED["IntOrString"]
    elif values and len(values) <= _MAX_ENUM:
        text = "|".join(one if isinstance(one, str) and one else json.dumps(one) for one in values)
    else:
        kind, form = str(schema.get("type") or ""), str(schema.get("format") or "")
        text = _NAMED.get(name) or _FORMATS.get(form) or _TYPES.get(kind, kind)
    default = schema.get("default")
    if default and not isinstance(default, dict | list):
        text += f"={default if isinstance(default, str) else json.dumps(default)}"
    return text


@dataclass(slots=True)
class _Writer:
    """Writes fields; types with a section are named."""

    sections: dict[_Body, str]

    def lines(self, body: _Body, level: int = 0) -> Iterator[str]:
        """Yield the lines of a type's fields."""
        for one in body.fields:
            inner = one.type.body
            name = self.sections.get(inner, "") if inner else ""
            shown = one.type.shown(name)
            head = f"{' ' * level}{one.name}{'*' if one.is_required else ''}"
            yield " ".join(filter(None, (head, shown, one.description and f"# {one.description}")))
            if inner and not name:
                yield from self.lines(inner, level + 1)


def compact_text(
    document: Fields, schema: Object, title: str, *, depth: int = 0, descriptions: bool = False
) -> str:
    """Return the fields of a schema as compact text.

    Args:
        document: Where references lead.
        schema: Of a kind, or of one of its fields.
        title: The first line.
        depth: How many levels of fields to list; 0 for all. Of a kind `metadata` is not listed,
            which is the same for all kinds.
        descriptions: Whether to add the first sentence of each description.

    Raises:
        UnsoundDocument: Schemas are too deep or have too many fields.
    """
    reader = _Reader(document, descriptions)
    levels = depth or _ALL
    found = reader.type_of(schema, title, levels)
    if found.body is None:
        return f"{title} {found.shown('')}\n"
    root = _without_naming(found.body)
    sections = _sections(root, reader.recursive)
    writer = _Writer(sections)
    lines = [" ".join(filter(None, (title, found.shown("")))), *writer.lines(root)]
    for body, name in sections.items():
        lines += ["", f"{name}:", *writer.lines(body)]
    return "".join(f"{line}\n" for line in lines)


def _without_naming(body: _Body) -> _Body:
    """Return the fields of a kind without what each kind has; of all else all fields."""
    by_name = {one.name: one for one in body.fields}
    if not {*_NAMING, "metadata"} <= by_name.keys():
        return body
    metadata = by_name["metadata"]
    kept = [
        _Field(one.name, one.is_required, _Type(text="ObjectMeta"), one.description)
        if one is metadata
        else one
        for one in body.fields
        if one.name not in _NAMING
    ]
    return _Body(body.name, tuple(kept))


def _sections(root: _Body, recursive: set[str]) -> dict[_Body, str]:
    """Return the types that are written once, with their names, in the order of their first use."""
    uses = Counter[_Body]()
    pending = [root]
    order = dict[_Body, None]()
    while pending:
        body = pending.pop(0)
        for one in body.fields:
            inner = one.type.body
            if inner is not None:
                uses[inner] += 1
                if inner not in order:
                    order[inner] = None
                    pending.append(inner)
    taken = set[str]()
    found = dict[_Body, str]()
    for body in order:
        is_often = uses[body] > 1 and len(body.fields) >= _MIN_SECTION
        if is_often or body.name in recursive:
            found[body] = _free(body.name, taken)
    return found


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no other type has."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}{number}", number + 1
    taken.add(free)
    return free
