"""JSON values from outside: their types, their depth, and how Kubernetes writes them."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, TypeAlias, TypeGuard

import orjson

# JSON text that `go_json.dumps` writes as it is.
Fragment: TypeAlias = orjson.Fragment

_CONTAINERS = (dict, list)

# From here on not every whole number is exact as float64.
_EXACT = 2**53
# Outside of them Go writes an exponent: encoding/json `floatEncoder`.
_SMALL, _LARGE = 1e-6, 1e21
# Above it Kubernetes reads a number as float64: sigs.k8s.io/json, `preserveInts`.
_INT64 = 2**63


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is an array."""
    return isinstance(value, list)


def levels(value: object) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield the objects and arrays of each level, and the values directly in them.

    The first level is the value itself. This does not recurse, so it can bound the depth of values
    for functions that do.
    """
    level: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    while level:
        members: list[Any] = []
        for one in level:
            members += one.values() if isinstance(one, dict) else one
        yield level, members
        level = [one for one in members if isinstance(one, _CONTAINERS)]


def number(value: float) -> int | float | Fragment:
    """Return a number as Go writes a float64: `1` for 1.0, `1e+21`.

    Source: encoding/json `floatEncoder`, and `AppendFloat` of go-json-experiment, which agree.
    """
    real = float(value)
    if abs(real) < _EXACT and real.is_integer() and (real or str(real) == "0.0"):
        return int(real)
    text = repr(real)
    if real == 0:
        return Fragment("-0")
    if "e" not in text and not text.endswith(".0"):
        return real
    if _SMALL <= abs(real) < _LARGE:
        return Fragment(format(Decimal(text), "f").removesuffix(".0"))
    return Fragment(text.replace("e-0", "e-"))


def arbitrary(value: object) -> object:
    """Return a value of any type in the form in which Kubernetes writes it.

    Keys are sorted, whole numbers are exact up to 64 bits, others are float64. This recurses: check
    the depth of the value first.
    """
    if is_object(value):
        return {key: arbitrary(value[key]) for key in sorted(value)}
    if is_array(value):
        return [arbitrary(item) for item in value]
    if isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and not -_INT64 <= value < _INT64
    ):
        return number(value)
    return value
