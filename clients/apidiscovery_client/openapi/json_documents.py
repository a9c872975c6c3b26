"""Reads JSON of strangers: never deeper or larger than can be handled."""

from collections.abc import Iterator, Mapping
from typing import cast

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._fields import read_json


class UnsoundDocument(DiscoveryError):
    """A document cannot be used; the text says which one, what was seen and where."""


class NotExplained(DiscoveryError):
    """What was asked for is not in the documents; the text is kubectl's where it has one."""


Object = dict[str, object]
Fields = Mapping[str, object]

KIND_KEY = "x-kubernetes-group-version-kind"  # of schemas and operations
MAX_DEPTH = 120  # of arrays and objects; the deepest documents known to be published need 40
_SHOWN_CHARACTERS = 80
_NAMES = (
    (type(None), "null"),
    (bool, "a boolean"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
)


def load(data: bytes, what: str) -> Object:
    """Return the object in a JSON text; `what` begins the text of errors.

    Raises:
        UnsoundDocument: It is not JSON, not an object, or nested more than `MAX_DEPTH` deep.
    """
    try:
        value = read_json(data)
    except RecursionError:
        raise UnsoundDocument(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise UnsoundDocument(f"{what} is not JSON: {error}") from None
    if (fields := as_object(value)) is None:
        raise UnsoundDocument(f"{what} is {name_of(value)}, not an object")
    if is_too_deep(fields):
        raise UnsoundDocument(f"{what} is nested more than {MAX_DEPTH} deep")
    return fields


def is_too_deep(value: object) -> bool:
    """Return whether arrays and objects are nested more than `MAX_DEPTH` deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _contained(outer)]
        if not level:
            return False
    return True


def _contained(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from cast("Object", value).values()
    elif isinstance(value, list):
        yield from cast("list[object]", value)


def name_of(value: object) -> str:
    """Return the name of a value's JSON type with an article, such as `an array`."""
    return next((name for kind, name in _NAMES if isinstance(value, kind)), "a number")


def as_object(value: object) -> Object | None:
    """Return an object as it is; None for anything else."""
    return cast("Object", value) if isinstance(value, dict) else None


def as_array(value: object) -> list[object] | None:
    """Return an array as it is; None for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else None


def components(document: Fields, kind: str) -> Object:
    """Return the components of one kind, such as `schemas`; empty when there are none."""
    return as_object((as_object(document.get("components")) or {}).get(kind)) or {}
