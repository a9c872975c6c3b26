"""Typed access to the fields of a decoded object.

Decoding has checked the types; a missing field reads as Go's zero value. Each function raises
TypeError for an object that was not decoded.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from apidiscovery_service.kube.go_json import JSONValue

Fields: TypeAlias = Mapping[str, JSONValue]


def _wrong(fields: Fields, name: str, wanted: str) -> TypeError:
    seen = type(fields[name]).__name__
    return TypeError(f"{name} is {seen}, wanted {wanted}: decode the object first")


def text(fields: Fields, name: str) -> str:
    """Return a string; empty when it is missing."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(fields, name, "str")
    return value


def integer(fields: Fields, name: str) -> int:
    """Return an integer; 0 when it is missing."""
    value = fields.get(name)
    if value is None:
        return 0
    if not isinstance(value, int):
        raise _wrong(fields, name, "int")
    return value


def mapping(fields: Fields, name: str) -> Fields:
    """Return an object within the object; empty when it is missing."""
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(fields, name, "an object")
    return value


def strings(fields: Fields, name: str) -> Sequence[str]:
    """Return a list of strings; empty when it is missing."""
    values = _sequence(fields, name)
    if not all(isinstance(value, str) for value in values):
        raise _wrong(fields, name, "a list of strings")
    return cast("Sequence[str]", values)


def mappings(fields: Fields, name: str) -> Sequence[Fields]:
    """Return a list of objects; empty when it is missing."""
    values = _sequence(fields, name)
    if not all(isinstance(value, Mapping) for value in values):
        raise _wrong(fields, name, "a list of objects")
    return cast("Sequence[Fields]", values)


def string_map(fields: Fields, name: str) -> Mapping[str, str]:
    """Return a map from strings to strings; empty when it is missing."""
    found = mapping(fields, name)
    if not all(isinstance(value, str) for value in found.values()):
        raise _wrong(fields, name, "a map of strings")
    return cast("Mapping[str, str]", found)


def _sequence(fields: Fields, name: str) -> Sequence[JSONValue]:
    value = fields.get(name)
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _wrong(fields, name, "a list")
    return value
