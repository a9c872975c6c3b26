"""Scalars of a document as protobuf fields, read from JSON as gnostic reads them.

Rules are those of gnostic-models compiler/helpers.go (`StringForScalarNode` and its siblings) and
of proto3: what is zero or empty is not written.
"""

import math
import struct
from collections.abc import Callable
from typing import TypeAlias

from apidiscovery_service.kube.wire import varint
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path
from apidiscovery_service.openapi.protobuf.fields import (
    DELIMITED,
    FIXED_64,
    VARINT,
    length,
    tag,
)
from apidiscovery_service.openapi.protobuf.json_reader import Number, Value

# Makes a field, or nothing, of a value that stands so many levels deep in its document.
Write: TypeAlias = Callable[[Value, int], bytes]

_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)
_MAX_SHOWN = 256  # characters of a key
_MAX_DIGITS = 400  # of what can be a double


class Misfit(Exception):
    """A value is not what its place wants; whoever passes it on adds where that is."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.steps: list[str | int] = []  # from the innermost out

    def at(self, step: str | int) -> "Misfit":
        """Add the key or the place within which it happened."""
        self.steps.append(step)
        return self

    def invalid(self) -> InvalidOpenAPI:
        """Return the error of the whole document."""
        path: Path = tuple(_shown(step) for step in reversed(self.steps))
        return InvalidOpenAPI(path, self.message)


def _shown(step: str | int) -> str | int:
    """Return a step as a message can hold it: a stranger's key may be anything."""
    if isinstance(step, int):
        return step
    text = step.encode(errors="backslashreplace").decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def unlike(wanted: str, seen: Value) -> Misfit:
    """Return the error that a value is of another type."""
    return Misfit(f"want {wanted}, got {_described(seen)}")


def _described(value: Value) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value[:40]) if isinstance(value, Number) else repr(value[:40])


def utf8(text: str) -> bytes:
    """Return *text* as protobuf has it.

    Raises:
        Misfit: It holds half of a surrogate pair.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Misfit(f"want characters, got half of a surrogate pair in {text[:40]!a}") from None


def text_of(value: Value) -> str:
    """Return a string; a whole number is the string of its digits, and null an empty one."""
    if isinstance(value, Number) and not value.lstrip("-").isdecimal():
        raise unlike("a string", value)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise unlike("a string", value)


def double_of(value: Value) -> float:
    """Return a number as a double."""
    if not isinstance(value, Number):
        raise unlike("a number", value)
    amount = float(value)
    if not math.isfinite(amount):
        raise unlike("a number of the range of a double", value)
    return amount


def integer_of(value: Value) -> int:
    """Return a whole number of the range of int64; `2.0` and `1e3` are such, too."""
    amount = double_of(value)
    if not amount.is_integer():
        raise unlike("a whole number", value)
    text = str(value)
    whole = int(text) if text.lstrip("-").isdecimal() and len(text) < _MAX_DIGITS else int(amount)
    if whole not in _INT64:
        raise unlike("a number of 64 bits", value)
    return whole


def string(number: int) -> Write:
    """Return what writes a string as field *number*."""
    head = tag(number, DELIMITED)

    def write(value: Value, _depth: int) -> bytes:
        text = utf8(text_of(value))
        return b"%b%b%b" % (head, length(text), text) if text else b""

    return write


def strings(number: int) -> Write:
    """Return what writes a list of strings; here, empty ones are written too."""
    head = tag(number, DELIMITED)

    def write(value: Value, _depth: int) -> bytes:
        out: list[bytes] = []
        for place, item in enumerate(items_of(value)):
            try:
                text = utf8(text_of(item))
            except Misfit as misfit:
                raise misfit.at(place) from None
            out += head, length(text), text
        return b"".join(out)

    return write


def items_of(value: Value) -> list[Value]:
    """Return the elements of a list; null has none."""
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise unlike("a list", value)


def boolean(number: int) -> Write:
    """Return what writes a boolean as field *number*."""
    head = tag(number, VARINT)

    def write(value: Value, _depth: int) -> bytes:
        if not isinstance(value, bool):
            raise unlike("true or false", value)
        return head + b"\x01" if value else b""

    return write


def int64(number: int) -> Write:
    """Return what writes a whole number as field *number*."""
    head = tag(number, VARINT)

    def write(value: Value, _depth: int) -> bytes:
        whole = integer_of(value)
        return head + varint(whole) if whole else b""

    return write


def double(number: int) -> Write:
    """Return what writes a number as field *number*; `-0.0` is not zero to proto3."""
    head = tag(number, FIXED_64)

    def write(value: Value, _depth: int) -> bytes:
        amount = struct.pack("<d", double_of(value))
        return head + amount if any(amount) else b""

    return write


def default(value: Value, _depth: int) -> bytes:
    """Return the message DefaultType of a default: a member of its oneof, or nothing.

    Nothing is said of objects, lists and null: there is no member for them. A whole number that
    fits into 64 bits without a sign, but not with one, is 0 (openapiv3/OpenAPIv3.go,
    `NewDefaultType`, keeps what a failed conversion left).
    """
    if isinstance(value, bool):
        return tag(2, VARINT) + (b"\x01" if value else b"\x00")
    if isinstance(value, Number):
        amount = _default_number(value)
        return tag(1, FIXED_64) + struct.pack("<d", amount)
    if isinstance(value, str):
        text = utf8(value)
        return tag(3, DELIMITED) + length(text) + text
    return b""


def _default_number(value: Number) -> float:
    amount = double_of(value)
    if not value.lstrip("-").isdecimal() or len(value) > len(str(2**64)):
        return amount
    whole = int(value)
    if whole in _INT64:
        return float(whole)
    return 0.0 if whole in _UINT64 else amount
