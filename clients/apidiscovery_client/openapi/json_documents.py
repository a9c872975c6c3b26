"""Foreign OpenAPI documents as JSON: bounded reading; `apidiscovery_formats` traverses them."""

from apidiscovery_formats.openapi.traversal import (
    KIND_KEY,
    Component,
    Fields,
    Object,
    as_list,
    as_object,
    components,
    is_list,
    is_object,
    references,
    rewritten,
)

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._fields import is_deeper, name_of, read_json

__all__ = [
    "KIND_KEY",
    "MAX_DEPTH",
    "Component",
    "Fields",
    "NotExplained",
    "Object",
    "UnsoundDocument",
    "as_list",
    "as_object",
    "components",
    "is_list",
    "is_object",
    "is_too_deep",
    "load",
    "references",
    "rewritten",
]


class UnsoundDocument(DiscoveryError):
    """A document cannot be used; the text says which one, what was seen and where."""


class NotExplained(DiscoveryError):
    """What was asked for is not in the documents; the text is kubectl's where it has one."""


MAX_DEPTH = 120  # of arrays and objects; the deepest documents known to be published need 40


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
    if not is_object(value):
        raise UnsoundDocument(f"{what} is {name_of(value)}, not an object")
    if is_too_deep(value):
        raise UnsoundDocument(f"{what} is nested more than {MAX_DEPTH} deep")
    return value


def is_too_deep(value: object) -> bool:
    """Return whether arrays and objects are nested more than `MAX_DEPTH` deep."""
    return is_deeper(value, MAX_DEPTH)
