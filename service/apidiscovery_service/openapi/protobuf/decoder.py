"""Messages of gnostic back into JSON, by the messages' descriptors: `encoder` the other way.

Not by protobuf's own reader: that refuses more than a hundred levels of messages, and a property of
a schema is four of them.
"""

import math
import struct
from collections.abc import Callable, Mapping

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.openapi.protobuf import any_yaml_reader
from apidiscovery_service.openapi.protobuf.fields import (
    DELIMITED,
    FIXED_64,
    VARINT,
    Malformed,
    fields,
)
from apidiscovery_service.openapi.protobuf.messages import type_of
from apidiscovery_service.openapi.protobuf.scalars import Misfit

# Of messages; four for each level of properties.
MAX_DEPTH = 400

_EXACT = 2.0**53  # from here on, not every whole number is a double
_SIGN = 1 << 63


class Decoder:
    """Reads documents of one version of OpenAPI."""

    def __init__(self, document: Descriptor) -> None:
        self._document = document

    def decode(self, data: bytes) -> JSONValue:
        """Return the JSON form of a document.

        Raises:
            InvalidOpenAPI: It is no such message: where, by JSON's names, and why.
        """
        try:
            return _message(self._document, data, 0)
        except Misfit as misfit:
            raise misfit.invalid() from None
        except RecursionError:  # MAX_DEPTH is too much for whoever is deep in calls already
            raise Misfit("it is nested too deeply to be read").invalid() from None


def _message(message: Descriptor, data: bytes, depth: int) -> JSONValue:
    if depth == MAX_DEPTH:
        raise Misfit(f"want at most {MAX_DEPTH} levels of messages")
    found = _split(message, data)
    if message.name == "Any":
        return _any(found.get("yaml", []))
    if message.oneofs:
        return _member(message, found, depth)
    if message.name == "ItemsItem":
        (schema,) = message.fields
        schemas = _list(schema, found.get(schema.name, []), depth)
        return schemas[0] if len(schemas) == 1 else schemas
    if message.name == "StringArray":
        (value,) = message.fields
        return _list(value, found.get(value.name, []), depth)
    return _object(message, found, depth)


def _split(message: Descriptor, data: bytes) -> dict[str, list[int | bytes]]:
    """Return the values of each field that is known, by its name in the order of arrival."""
    found: dict[str, list[int | bytes]] = {}
    try:
        for number, wire_type, value in fields(data):
            field = message.fields_by_number.get(number)
            if field is None:
                continue
            if wire_type != _WIRE_TYPES.get(field.type, DELIMITED):
                raise Misfit(f"field {number} is of wire type {wire_type}").at(field.json_name)
            if message.oneofs and field.name not in found:
                found.clear()  # the last member that came is the one
            found.setdefault(field.name, []).append(value)
    except Malformed as error:
        raise Misfit(f"want a message {message.name}: {error}") from None
    return found


def _any(texts: list[int | bytes]) -> JSONValue:
    text = _string(texts[-1]) if texts else ""
    try:
        return any_yaml_reader.load(text) if text else None
    except any_yaml_reader.Unreadable as error:
        raise Misfit(str(error)) from None


def _member(message: Descriptor, found: dict[str, list[int | bytes]], depth: int) -> JSONValue:
    """Return what is set in a oneof."""
    if not found:
        return {}
    ((name, values),) = found.items()
    return _value(message.fields_by_name[name], values, depth)


def _object(message: Descriptor, found: dict[str, list[int | bytes]], depth: int) -> JSONValue:
    made: dict[str, JSONValue] = {}
    for field in message.fields:
        values = found.get(field.name)
        if values is None:
            continue
        try:
            if _is_map(field):
                made.update(_entry(field, value, depth) for value in values)
            elif field.is_repeated:
                made[field.json_name] = _list(field, values, depth)
            elif field.name != "default" or any(values):  # an empty default is one that was lost
                made[field.json_name] = _value(field, values, depth)
        except Misfit as misfit:
            raise (misfit if _is_map(field) else misfit.at(field.json_name)) from None
    return made


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.name.startswith("Named")


def _entry(field: FieldDescriptor, data: int | bytes, depth: int) -> tuple[str, JSONValue]:
    named = type_of(field).fields_by_name
    found = _split(type_of(field), _bytes(data))
    name = _string(found.get("name", [b""])[-1])
    try:
        return name, _value(named["value"], found.get("value", [b""]), depth + 1)
    except Misfit as misfit:
        raise misfit.at(name) from None


def _list(field: FieldDescriptor, values: list[int | bytes], depth: int) -> list[JSONValue]:
    made: list[JSONValue] = []
    for place, value in enumerate(values):
        try:
            made.append(_value(field, [value], depth))
        except Misfit as misfit:
            raise misfit.at(place) from None
    return made


def _value(field: FieldDescriptor, values: list[int | bytes], depth: int) -> JSONValue:
    """Return the value of a field that came several times: messages are one after the other."""
    if field.message_type is not None:
        data = b"".join(_bytes(value) for value in values)
        return _message(field.message_type, data, depth + 1)
    return _SCALARS[field.type](values[-1])


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("the wire type of a field was not looked at")
    return value


def _string(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as error:
        raise Misfit(f"byte {error.start}: want UTF-8: {error.reason}") from None


def _double(value: int | bytes) -> float:
    """Return a number: an int where it is whole, as JSON writes it."""
    amount: float = struct.unpack("<d", _bytes(value))[0]
    if not math.isfinite(amount):
        raise Misfit(f"want a number, got {amount}")
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
_WIRE_TYPES: Mapping[int, int] = {
    FieldDescriptor.TYPE_BOOL: VARINT,
    FieldDescriptor.TYPE_DOUBLE: FIXED_64,
    FieldDescriptor.TYPE_INT64: VARINT,
}
