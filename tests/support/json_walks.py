"""Walks over JSON values."""

import json
from collections.abc import Iterator
from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def members(value: object) -> Iterator[tuple[str | int, Any]]:
    """Yield the direct members of a value, with name or index."""
    if is_object(value):
        yield from value.items()
    elif is_array(value):
        yield from enumerate(value)


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each leaf, followed by its JSON."""
    empty = True
    for name, member in members(value):
        empty = False
        yield from leaves(member, (*path, name))
    if empty:
        yield (*path, json.dumps(value))


def references(value: object) -> Iterator[str]:
    """Yield the target of each `$ref`."""
    if is_object(value) and isinstance(target := value.get("$ref"), str):
        yield target
    for _, member in members(value):
        yield from references(member)
