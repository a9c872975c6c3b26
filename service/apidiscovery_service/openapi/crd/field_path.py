"""Paths to fields as the `fieldPath` of validation rules writes them: `.spec['a.b'].replicas`.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go:ValidFieldPath.
"""

import re
from collections.abc import Iterator
from typing import cast

from apidiscovery_service.openapi.crd.schema_fields import Schema
from apidiscovery_service.openapi.json_text import is_object

# A quoted text ends at a quote that no backslash is before; other text at a delimiter.
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
    """Tell whether a path leads to something that a schema describes."""
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
        ValueError: It is not written as a path.
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
