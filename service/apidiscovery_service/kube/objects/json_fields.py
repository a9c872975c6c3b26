"""Typed access to the fields of a decoded object.

Decoding has checked the types; a missing field reads as Go's zero value.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from apidiscovery_service.kube.go_json import JSONValue

Fields: TypeAlias = Mapping[str, JSONValue]


def text(fields: Fields, name: str) -> str:
    """Return a string; empty when it is missing."""
    return cast("str", fields.get(name) or "")


def integer(fields: Fields, name: str) -> int:
    """Return an integer; 0 when it is missing."""
    return cast("int", fields.get(name) or 0)


def mapping(fields: Fields, name: str) -> Fields:
    """Return an object within the object; empty when it is missing."""
    return cast("Fields", fields.get(name) or {})


def string_map(fields: Fields, name: str) -> Mapping[str, str]:
    """Return a map from strings to strings; empty when it is missing."""
    return cast("Mapping[str, str]", fields.get(name) or {})


def strings(fields: Fields, name: str) -> Sequence[str]:
    """Return a list of strings; empty when it is missing."""
    return cast("Sequence[str]", fields.get(name) or ())


def mappings(fields: Fields, name: str) -> Sequence[Fields]:
    """Return a list of objects; empty when it is missing."""
    return cast("Sequence[Fields]", fields.get(name) or ())
