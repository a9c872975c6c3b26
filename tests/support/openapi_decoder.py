"""Documents of OpenAPI v3 in protobuf back into JSON, for what the encoder wrote.

Not by protobuf's own reader: that refuses more than a hundred levels of messages, and a property of
a schema is four of them.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import any_yaml_reader
from apidiscovery.openapi.v3 import openapi_pb2
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.protobuf.encoder import type_of
from google.protobuf.descriptor import Descriptor, FieldDescriptor

# By the field's name, in the order of arrival: the integer of a varint, else the bytes.
_Found: TypeAlias = dict[str, list[int | bytes]]

_VARINT, _FIXED_64 = 0, 1
_EXACT = 2.0**53  # from here on, not every whole number is a double
_SIGN = 1 << 63


def decode_v3(data: bytes) -> JSONValue:
    """Return the JSON form of a document, with keys in the order of the fields.

    What the form does not hold is not there: zeros, empty lists, defaults that are no scalars.
    """
    return _message(openapi_pb2.Document.DESCRIPTOR, data)


def _message(message: Descriptor, data: bytes) -> JSONValue:
    found = _split(message, data)
    if message.name == "Any":
        return any_yaml_reader.load(_string(found["yaml"][-1])) if found else None
    if message.oneofs:
        return _member(message, found)
    if message.name == "ItemsItem":
        (schema,) = message.fields
        schemas = _list(schema, found.get(schema.name, []))
        return schemas[0] if len(schemas) == 1 else schemas
    if message.name == "StringArray":
        (value,) = message.fields
        return _list(value, found.get(value.name, []))
    return _object(message, found)


def _split(message: Descriptor, data: bytes) -> _Found:
    found: _Found = {}
    for number, value in _fields(data):
        found.setdefault(message.fields_by_number[number].name, []).append(value)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(data):
        key, place = _varint_at(data, place)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, place = _varint_at(data, place)
            yield number, value
            continue
        size, place = (8, place) if wire_type == _FIXED_64 else _varint_at(data, place)
        yield number, data[place : place + size]
        place += size


def _varint_at(data: bytes, place: int) -> tuple[int, int]:
    """Return the varint that begins at *place*, and where it ends."""
    number = shift = 0
    while data[place] & 0x80:
        number |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | data[place] << shift, place + 1


def _member(message: Descriptor, found: _Found) -> JSONValue:
    """Return what is set in a oneof."""
    if not found:
        return {}
    ((name, values),) = found.items()
    return _value(message.fields_by_name[name], values[-1])


def _object(message: Descriptor, found: _Found) -> JSONValue:
    made: dict[str, JSONValue] = {}
    for field in message.fields:
        values = found.get(field.name)
        if values is None:
            continue
        if field.message_type is not None and field.message_type.name.startswith("Named"):
            made.update(_entry(field, value) for value in values)
        elif field.is_repeated:
            made[field.json_name] = _list(field, values)
        elif field.name != "default" or any(values):  # an empty default is one that was lost
            made[field.json_name] = _value(field, values[-1])
    return made


def _entry(field: FieldDescriptor, data: int | bytes) -> tuple[str, JSONValue]:
    found = _split(type_of(field), _bytes(data))
    value = type_of(field).fields_by_name["value"]
    return _string(found.get("name", [b""])[-1]), _value(value, found.get("value", [b""])[-1])


def _list(field: FieldDescriptor, values: list[int | bytes]) -> list[JSONValue]:
    return [_value(field, value) for value in values]


def _value(field: FieldDescriptor, value: int | bytes) -> JSONValue:
    if field.message_type is not None:
        return _message(field.message_type, _bytes(value))
    return _SCALARS[field.type](value)


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _string(value: int | bytes) -> str:
    return _bytes(value).decode()


def _double(value: int | bytes) -> float:
    """Return a number: an int where it is whole, as JSON writes it."""
    amount: float = struct.unpack("<d", _bytes(value))[0]
    return int(amount) if amount.is_integer() and abs(amount) < _EXACT else amount


def _int64(value: int | bytes) -> int:
    return (int(value) ^ _SIGN) - _SIGN


def _boolean(value: int | bytes) -> bool:
    return value != 0


_SCALARS: Mapping[int, Callable[[int | bytes], JSONValue]] = {
    FieldDescriptor.TYPE_BOOL: _boolean,
    FieldDescriptor.TYPE_DOUBLE: _double,
    FieldDescriptor.TYPE_INT64: _int64,
    FieldDescriptor.TYPE_STRING: _string,
}
