"""Traversal of OpenAPI documents as JSON.

A property may be called `$ref` or `default`, and an example may hold anything: keys have a meaning
only where the specification defines them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from apidiscovery_formats.openapi.pointers import unescaped

Object = dict[str, object]
Fields = Mapping[str, object]

KIND_KEY = "x-kubernetes-group-version-kind"  # of schemas and operations


def as_object(value: object) -> Object | None:
    """Return an object as it is; None for anything else."""
    return cast("Object", value) if isinstance(value, dict) else None


def as_array(value: object) -> list[object] | None:
    """Return an array as it is; None for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else None


def components(document: Fields, kind: str) -> Object:
    """Return the components of one kind, such as `schemas`; empty when there are none."""
    return as_object((as_object(document.get("components")) or {}).get(kind)) or {}


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
    if (fields := as_object(value)) is not None:
        return change({key: _field(key, inner, change) for key, inner in fields.items()})
    if (items := as_array(value)) is not None:
        return [rewritten(item, change) for item in items]
    return value


def _field(key: str, value: object, change: Change) -> object:
    if key in _DATA or key.startswith("x-"):
        return value
    named = as_object(value) if key in _NAMED else None
    if named is None:
        return rewritten(value, change)
    return {
        name: inner if key == "paths" and name.startswith("x-") else rewritten(inner, change)
        for name, inner in named.items()
    }


def references(value: object) -> set[str]:
    """Return every `$ref` of a value, and those that discriminators map to."""
    found: set[str] = set()

    def collect(fields: Object) -> Object:
        if isinstance(reference := fields.get("$ref"), str):
            found.add(reference)
        mapping = as_object((as_object(fields.get("discriminator")) or {}).get("mapping")) or {}
        found.update(target for target in mapping.values() if isinstance(target, str))
        return fields

    rewritten(value, collect)
    return found
