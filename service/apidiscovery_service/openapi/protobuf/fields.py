"""Fields of protobuf messages as bytes: what stands before a value, and how they are told apart.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator
from typing import TypeAlias

from apidiscovery_service.wire import varint

VARINT = 0
FIXED_64 = 1
DELIMITED = 2
FIXED_32 = 5

_MAX_VARINT_BYTES = 10
_WIDTHS = {FIXED_64: 8, FIXED_32: 4}

# Number, wire type, and the value: the integer of a varint, else the bytes.
Field: TypeAlias = tuple[int, int, int | bytes]


class Malformed(Exception):
    """Bytes are not a protobuf message."""


_LENGTHS = tuple(varint(length) for length in range(1024))


def tag(number: int, wire_type: int) -> bytes:
    """Return what stands before a field."""
    return varint(number << 3 | wire_type)


def length(payload: bytes) -> bytes:
    """Return what stands between the tag of a delimited field and its payload."""
    size = len(payload)
    return _LENGTHS[size] if size < len(_LENGTHS) else varint(size)


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message, in the order in which they stand there.

    Raises:
        Malformed: It ends within a field, or a field has a wire type that gnostic does not use.
    """
    place = 0
    while place < len(message):
        key, place = _varint_at(message, place)
        number, wire_type = key >> 3, key & 7
        if wire_type == VARINT:
            value, place = _varint_at(message, place)
            yield number, wire_type, value
            continue
        if wire_type == DELIMITED:
            size, place = _varint_at(message, place)
        elif wire_type in _WIDTHS:
            size = _WIDTHS[wire_type]
        else:
            raise Malformed(f"field {number} is of wire type {wire_type}")
        if place + size > len(message):
            raise Malformed(f"field {number} has {len(message) - place} bytes of {size}")
        yield number, wire_type, message[place : place + size]
        place += size


def _varint_at(message: bytes, place: int) -> tuple[int, int]:
    """Return the varint that begins at *place*, and where it ends."""
    number = 0
    for count, byte in enumerate(message[place : place + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:  # noqa: PLR2004 - the last one
            return number & 0xFFFF_FFFF_FFFF_FFFF, place + count + 1
    raise Malformed("a number does not end")
