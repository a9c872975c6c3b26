"""Converts objects between their JSON form and the generated messages.

Fields that are not pointers in Go are always set in a message, for gogo writes them even when they
are empty. Unknown fields of parsed messages are ignored. Sources: generated.pb.go of k8s.io/api and
k8s.io/apimachinery; time_proto.go and micro_time_proto.go.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from apidiscovery.meta.v1 import meta_pb2
from google.protobuf.message import DecodeError, Message

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import go_time, json_text, limits
from apidiscovery_service.kube.objects.go_structs import (
    ZEROS,
    Field,
    Scalar,
    Shape,
    Struct,
    as_list,
    as_mapping,
    struct_of,
)
from apidiscovery_service.kube.objects.limits import Budget
from apidiscovery_service.kube.objects.typed_values import Mistyped, plain

_M = TypeVar("_M", bound=Message)

_NANOS_PER_MICRO = 1000


class NotProtobuf(ValueError):
    """Bytes are not a message of the type, or their value is not possible in JSON."""


def message_of(message: type[_M], fields: Mapping[str, JSONValue]) -> _M:
    """Return the message of an object; keys without a field, such as `kind`, are left out."""
    make: Callable[..., _M] = message
    return make(**_contents(struct_of(message.DESCRIPTOR), fields))


def encoded(message: Message) -> bytes:
    """Serialize a message as Kubernetes does: maps in the order of their keys."""
    return message.SerializeToString(deterministic=True)


def parse(message: type[_M], data: bytes) -> _M:
    """Parse a message.

    Raises:
        NotProtobuf: The bytes are not such a message.
    """
    try:
        return message.FromString(data)
    except DecodeError:
        raise NotProtobuf(
            f"proto: cannot parse {message.DESCRIPTOR.name}: "
            "the wire format is corrupt, or a string is not UTF-8"
        ) from None


def fields_of(message: Message, budget: Budget) -> dict[str, JSONValue]:
    """Return the fields that are set in a message, in the order of the Go struct.

    Raises:
        NotProtobuf: A value is not possible in JSON.
        ObjectError: It has too many fields; 413.
    """
    fields: dict[str, JSONValue] = {}
    for field in struct_of(message.DESCRIPTOR).fields:
        if field.shape in (Shape.LIST, Shape.STRING_MAP):
            values = getattr(message, field.attribute)
            budget.spend(len(values))
            if values:
                fields[field.name] = _repeated(field, values, budget)
        elif message.HasField(field.attribute):
            budget.spend()
            fields[field.name] = _read(getattr(message, field.attribute), budget)
    return fields


def _contents(struct: Struct, fields: Mapping[str, JSONValue]) -> dict[str, Any]:
    """Return the arguments of a message's constructor, with nested messages as dictionaries."""
    return {
        field.attribute: _content(field, fields.get(field.name))
        for field in struct.fields
        if field.shape is Shape.VALUE or field.name in fields
    }


def _content(field: Field, value: JSONValue) -> object:
    if field.shape is Shape.LIST:
        return [_element(field, item) for item in as_list(value)]
    if field.shape is Shape.STRING_MAP:
        return as_mapping(value)
    return _element(field, value)


def _element(field: Field, value: JSONValue) -> object:
    if isinstance(field.type, Struct):
        return _contents(field.type, as_mapping(value))
    if field.type in _WRITTEN:
        return {} if value is None else _WRITTEN[field.type](value)
    return ZEROS[field.type] if value is None else value


@lru_cache(maxsize=4096)
def _timestamp(text: str, layout: str) -> Mapping[str, int]:
    seconds, micros = divmod(go_time.parse(text, layout), go_time.MICROSECONDS)
    return {"seconds": seconds, "nanos": micros * _NANOS_PER_MICRO}


_WRITTEN: Mapping[Scalar, Callable[[JSONValue], Mapping[str, object]]] = {
    Scalar.TIME: lambda value: _timestamp(str(value), go_time.RFC3339),
    Scalar.MICRO_TIME: lambda value: _timestamp(str(value), go_time.RFC3339_MICRO),
    Scalar.RAW_JSON: lambda value: {"raw": go_json.dumps(value)},
}


def _repeated(field: Field, values: Any, budget: Budget) -> JSONValue:  # noqa: ANN401 - of any field
    if field.shape is Shape.STRING_MAP:
        return dict(values)
    return [_read(value, budget) for value in values]


def _read(value: object, budget: Budget) -> JSONValue:
    match value:
        case meta_pb2.Time():
            return _time_text(value, go_time.seconds_text)
        case meta_pb2.MicroTime():
            return _time_text(value, go_time.micros_text)
        case meta_pb2.FieldsV1():
            return _raw_json(value.raw, budget)
        case Message():
            return fields_of(value, budget)
        case str() | int():
            return value
        case _:
            raise TypeError(f"no field of Kubernetes' is a {type(value).__name__}")


def _time_text(
    value: meta_pb2.Time | meta_pb2.MicroTime, form: Callable[[int], str | None]
) -> str | None:
    """Return the text of a time; None for the zero time, which is an empty message."""
    if not value.ByteSize():
        return None
    micros = int(value.nanos / _NANOS_PER_MICRO)  # towards zero, as time.Duration.Truncate
    try:
        return form(value.seconds * go_time.MICROSECONDS + micros)
    except go_time.Unparsable as error:
        raise NotProtobuf(str(error)) from None


def _raw_json(raw: bytes, budget: Budget) -> JSONValue:
    """Return the JSON of `FieldsV1`, which is text in protobuf; null for empty text."""
    budget.spend(limits.values(raw))
    try:
        return plain(json_text.parse(raw)) if raw else None
    except (json_text.NotJSON, Mistyped) as error:
        raise NotProtobuf(f"fieldsV1 holds no JSON: {error}") from None
