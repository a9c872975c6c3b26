"""Says what keeps a document from being sound OpenAPI 3.0.

Source: OpenAPI Specification 3.0.4. Nothing here recurses: a document may be nested as it likes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apidiscovery_client._fields import read_json
from apidiscovery_client.openapi.errors import UnsoundDocument
from apidiscovery_client.openapi.json_documents import (
    Object,
    as_array,
    as_object,
    is_too_deep,
    name_of,
    resolve,
    shown,
)
from apidiscovery_client.openapi.validation_rules import RULES, document_problems
from apidiscovery_client.openapi.validation_tables import COMPONENT_OF, OBJECTS, ObjectType

MAX_PROBLEMS = 1000  # that are told of one document

_PLAIN = re.compile(r"[A-Za-z_$][\w$-]*", re.ASCII)
_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "number": (int, float),
    "count": int,
}
_ARTICLES = {"count": "a number of 0 or more", "number": "a number", "boolean": "a boolean"}

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """What is wrong and where, from the top of the document."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.message}"


class _Value(NamedTuple):
    """A value to be looked at, and the type that it must have."""

    path: Path
    value: object
    type: str


def path_text(path: Sequence[str | int]) -> str:
    """Return a path as JSONPath, such as `$.paths["/api/v1/pods"].get`."""
    steps = (
        f".{step}" if isinstance(step, str) and _PLAIN.fullmatch(step) else f"[{json.dumps(step)}]"
        for step in path
    )
    return "$" + "".join(steps)


def problems(data: bytes) -> list[Problem]:
    """Return what is wrong with a JSON text as a document, in its order, at most `MAX_PROBLEMS`."""
    duplicates: list[str] = []
    try:
        document = _parsed(data, duplicates)
    except UnsoundDocument as error:
        return [Problem((), str(error))]
    found = [Problem((), f"the key {shown(key)} occurs twice in one object") for key in duplicates]
    for problem in _problems(document):
        found.append(problem)
        if len(found) >= MAX_PROBLEMS:
            break
    return sorted(found[:MAX_PROBLEMS], key=lambda problem: problem.path == ())


def _parsed(data: bytes, duplicates: list[str]) -> Object:
    def pairs(items: list[tuple[str, object]]) -> Object:
        fields = dict(items)
        if len(fields) < len(items):
            counted = Counter(key for key, _ in items)
            duplicates.extend(key for key, count in counted.items() if count > 1)
        return fields

    try:
        document = read_json(data, pairs)
    except RecursionError:
        raise UnsoundDocument("it is nested too deeply") from None
    except ValueError as error:
        raise UnsoundDocument(f"it is not JSON: {error}") from None
    if is_too_deep(document):
        raise UnsoundDocument("it is nested too deeply")
    if (fields := as_object(document)) is None:
        raise UnsoundDocument(f"it is {name_of(document)}, not an object")
    return fields


def _problems(document: Object) -> Iterator[Problem]:
    pending = [_Value((), document, "OpenAPI")]
    while pending:
        value = pending.pop()
        inner: list[_Value] = []
        yield from _of_value(value, document, inner)
        pending.extend(reversed(inner))
    yield from (Problem(path, message) for path, message in document_problems(document))


def _of_value(value: _Value, document: Object, inner: list[_Value]) -> Iterator[Problem]:
    """Yield what is wrong with a value itself, and put what it holds into `inner`."""
    kind = value.type
    if "|" in kind:  # only a boolean or a schema
        first, _, second = kind.partition("|")
        kind = first if isinstance(value.value, bool) else second
    if kind == "any":
        return
    if kind in _JSON_TYPES:
        yield from _of_scalar(value, kind)
    elif kind[0] == "[":
        yield from _of_array(value, kind[1:-1], inner)
    elif kind[0] == "{":
        yield from _of_map(value, kind[1:-1], inner)
    else:
        yield from _of_object(value, kind, document, inner)


def _of_scalar(value: _Value, kind: str) -> Iterator[Problem]:
    is_boolean = isinstance(value.value, bool)
    fits = isinstance(value.value, _JSON_TYPES[kind]) and is_boolean == (kind == "boolean")
    if fits and kind == "count":
        fits = isinstance(value.value, int) and value.value >= 0
    if not fits:
        wanted = _ARTICLES.get(kind, f"a {kind}")
        seen = shown(value.value) if kind == "count" else name_of(value.value)
        yield Problem(value.path, f"is {seen}, not {wanted}")


def _of_array(value: _Value, kind: str, inner: list[_Value]) -> Iterator[Problem]:
    items = as_array(value.value)
    if items is None:
        yield Problem(value.path, f"is {name_of(value.value)}, not an array")
        return
    inner += (_Value((*value.path, index), item, kind) for index, item in enumerate(items))


def _of_map(value: _Value, kind: str, inner: list[_Value]) -> Iterator[Problem]:
    fields = as_object(value.value)
    if fields is None:
        yield Problem(value.path, f"is {name_of(value.value)}, not an object")
        return
    inner += (_Value((*value.path, name), item, kind) for name, item in fields.items())


def _of_object(
    value: _Value, kind: str, document: Object, inner: list[_Value]
) -> Iterator[Problem]:
    fields = as_object(value.value)
    name = kind.removeprefix("&")
    if fields is None:
        yield Problem(value.path, f"is {name_of(value.value)}, not an object ({name})")
        return
    if kind.startswith("&") and "$ref" in fields:
        yield from _of_reference(value, fields, name, document)
        return
    object_type = OBJECTS[name]
    for missing in sorted(object_type.required - fields.keys()):
        yield Problem(value.path, f"{missing} is missing")
    for key, item in fields.items():
        field_type = _field_type(object_type, key)
        if field_type is None:
            yield Problem((*value.path, key), f"is not a field of {name}")
        elif field_type:
            inner.append(_Value((*value.path, key), item, field_type))
    if rule := RULES.get(name):
        for step, message in rule(fields, document):
            yield Problem((*value.path, *step), message)


def _field_type(object_type: ObjectType, key: str) -> str | None:
    """Return the type of a field, empty for an extension, None when there is no such field."""
    if key in object_type.fields:
        return object_type.fields[key]
    if key.startswith("x-") and object_type is not OBJECTS["SecurityRequirement"]:
        return ""
    return object_type.other or None


def _of_reference(value: _Value, fields: Object, name: str, document: Object) -> Iterator[Problem]:
    path = (*value.path, "$ref")
    reference = fields["$ref"]
    if not isinstance(reference, str):
        yield Problem(path, f"is {name_of(reference)}, not a string")
        return
    if not reference.startswith("#/"):
        yield Problem(path, f"{shown(reference)} is outside of the document")
    elif resolve(reference, document) is None:
        yield Problem(path, f"{shown(reference)} is not in the document")
    elif reference.count("/") == 3 and not reference.startswith(  # noqa: PLR2004 - a component
        f"#/components/{COMPONENT_OF[name]}/"
    ):
        yield Problem(path, f"{shown(reference)} is no {name}")
    for other in fields:
        if other != "$ref":
            yield Problem((*value.path, other), "stands beside $ref, where it means nothing")
