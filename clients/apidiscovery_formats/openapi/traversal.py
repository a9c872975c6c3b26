"""Traversal of OpenAPI documents as JSON.

A property may be called `$ref` or `default`, and an example may hold anything: keys have a meaning
only where the specification defines them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from apidiscovery_formats.openapi.pointers import unescaped

Object = dict[str, object]
Fields = Mapping[str, object]

KIND_KEY = "x-kubernetes-group-version-kind"  # of schemas and operations


def is_object(value: object) -> TypeGuard[Object]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Return whether a value is an array."""
    return isinstance(value, list)


def as_object(value: object) -> Object:
    """Return an object; an empty one in place of anything else."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[object]:
    """Return an array; an empty one in place of anything else."""
    return value if is_list(value) else []


def components(document: Fields, kind: str) -> Object:
    """Return the components of one kind, such as `schemas`; empty when there are none."""
    return as_object(as_object(document.get("components")).get(kind))


# Fields whose keys are names, and whose values are objects of the specification.
_NAMED = frozenset(
    {
        "callbacks",
        "content",
        "definitions",
        "encoding",
        "examples",
        "headers",
        "links",
        "parameters",
        "paths",
        "properties",
        "requestBodies",
        "responses",
        "schemas",
        "securitySchemes",
        "variables",
    }
)
# Fields whose values are data, not objects of the specification.
_DATA = frozenset({"default", "enum", "example", "required", "scopes", "value", "mapping"})

_COMPONENTS = "#/components/"


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """Names a component: its kind, such as `schemas`, and its name."""

    kind: str
    name: str

    @classmethod
    def of(cls, reference: str) -> "Component | None":
        """Return the component that a reference means, or one that holds what it means."""
        if not reference.startswith(_COMPONENTS):
            return None
        kind, _, rest = reference.removeprefix(_COMPONENTS).partition("/")
        return cls(kind, unescaped(rest.partition("/")[0]))


Change = Callable[[Object], Object]


def rewritten(value: object, change: Change) -> object:
    """Return a copy in which every object of the specification went through `change`.

    The innermost come first; `change` gets a copy that it may alter.
    """
    if is_object(value):
        return change({key: _field(key, inner, change) for key, inner in value.items()})
    if is_list(value):
        return [rewritten(item, change) for item in value]
    return value


def _field(key: str, value: object, change: Change) -> object:
    if key in _DATA or key.startswith("x-"):
        return value
    if key not in _NAMED or not is_object(value):
        return rewritten(value, change)
    return {
        name: inner if key == "paths" and name.startswith("x-") else rewritten(inner, change)
        for name, inner in value.items()
    }


def references(value: object) -> set[str]:
    """Return every `$ref` of a value, and those that discriminators map to."""
    found: set[str] = set()

    def collect(fields: Object) -> Object:
        if isinstance(reference := fields.get("$ref"), str):
            found.add(reference)
        mapping = as_object(as_object(fields.get("discriminator")).get("mapping"))
        found.update(target for target in mapping.values() if isinstance(target, str))
        return fields

    rewritten(value, collect)
    return found
