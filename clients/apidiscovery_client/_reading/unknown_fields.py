"""Keeps the fields of a protobuf message that its generated code does not know.

Each is kept under `protobuf:NUMBER`, as the bytes that it has on the wire, tags included: appended
to a serialised message they are that field again.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol, cast

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from apidiscovery_client.model import NO_EXTRAS

PREFIX = "protobuf:"

# protobuf.dev/programming-guides/encoding
_MORE = 0x80  # the bit of each byte of a varint but the last
_VARINT, _FIXED_64, _END_GROUP, _FIXED_32 = 0, 1, 4, 5  # wire types
_LENGTHS = {_FIXED_64: 8, _FIXED_32: 4}  # bytes


class _Fields(Protocol):
    """What `UnknownFieldSet` is; its stub leaves the elements untyped."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> "_Field": ...


class _Field(Protocol):
    """A field; `data` is of several fields where it is a group."""

    @property
    def field_number(self) -> int: ...

    @property
    def wire_type(self) -> int: ...

    @property
    def data(self) -> "bytes | int | _Fields": ...


def extras(message: Message) -> Mapping[str, object]:
    """Return the unknown fields of a message, though not of those in it, by `protobuf:NUMBER`."""
    fields = cast("_Fields", UnknownFieldSet(message))
    if not len(fields):
        return NO_EXTRAS
    kept: defaultdict[str, bytearray] = defaultdict(bytearray)
    for index in range(len(fields)):
        kept[f"{PREFIX}{fields[index].field_number}"] += _wire(fields[index])
    return {key: bytes(wire) for key, wire in kept.items()}


def _wire(field: _Field) -> bytes:
    """Return a field as it is written, its tag first."""
    number, wire_type, data = field.field_number, field.wire_type, field.data
    tag = _varint(number << 3 | wire_type)
    if isinstance(data, bytes):
        return tag + _varint(len(data)) + data
    if isinstance(data, int):
        written = _varint(data) if wire_type == _VARINT else _fixed(data, wire_type)
        return tag + written
    inner = b"".join(_wire(data[index]) for index in range(len(data)))
    return tag + inner + _varint(number << 3 | _END_GROUP)


def _fixed(value: int, wire_type: int) -> bytes:
    return value.to_bytes(_LENGTHS[wire_type], "little")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= _MORE:
        written.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    written.append(value)
    return bytes(written)
