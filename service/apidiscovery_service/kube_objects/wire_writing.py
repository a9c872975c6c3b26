"""The fields of a Go struct into Kubernetes' protobuf, as gogo's generated code writes it.

Fields stand in the order of their numbers; one that is no pointer, list or map is always written,
empty or not. What can be computed once for a struct is: lists have hundreds of objects. Source:
generated.pb.go (MarshalToSizedBuffer) of k8s.io/api and k8s.io/apimachinery.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import TypeAlias

from apidiscovery_service import go_json
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects import go_time
from apidiscovery_service.kube_objects.fields import Field, Scalar, Shape, Struct
from apidiscovery_service.kube_objects.go_form import as_list, as_mapping
from apidiscovery_service.wire import delimited, varint

_Fields: TypeAlias = Mapping[str, JSONValue]
_Writer: TypeAlias = Callable[[JSONValue], bytes]

_LENGTHS = tuple(varint(length) for length in range(256))
_NANOS_PER_MICRO = 1000


def write(struct: Struct, fields: _Fields) -> bytes:
    """Return the message of fields; other keys, such as `kind`, are left out."""
    return _struct_writer(struct)(fields)


@cache
def _struct_writer(struct: Struct) -> Callable[[_Fields], bytes]:
    parts = [_field_writer(field) for field in sorted(struct.fields, key=lambda f: f.number)]

    def write_struct(fields: _Fields) -> bytes:
        return b"".join([part(fields) for part in parts])

    return write_struct


def _field_writer(field: Field) -> Callable[[_Fields], bytes]:
    name = field.name
    element = _element_writer(field)
    if field.shape is Shape.LIST:
        return lambda fields: _list(fields.get(name), element)
    if field.shape is Shape.STRING_MAP:
        tag = varint(field.number << 3 | 2)
        return lambda fields: _string_map(fields.get(name), tag)
    if field.shape is Shape.POINTER:
        return lambda fields: element(fields[name]) if name in fields else b""
    zero = element(None)
    return lambda fields: element(fields[name]) if name in fields else zero


def _list(value: JSONValue, element: _Writer) -> bytes:
    return b"".join([element(item) for item in as_list(value)])


def _string_map(value: JSONValue, tag: bytes) -> bytes:
    strings = sorted(as_mapping(value).items())
    entries = [delimited(1, key.encode()) + delimited(2, _utf8(text)) for key, text in strings]
    return b"".join([tag + varint(len(entry)) + entry for entry in entries])


def _element_writer(field: Field) -> _Writer:
    """Return what writes one value, with its tag; None is the zero of its type."""
    if isinstance(field.type, Struct):
        write_struct = _struct_writer(field.type)
        return _tagged(field, lambda value: write_struct(as_mapping(value)))
    if field.type is Scalar.STRING:
        return _string_writer(field.number)
    if field.type in _DELIMITED:
        return _tagged(field, _DELIMITED[field.type])
    tag = varint(field.number << 3)
    return lambda value: tag + varint(_unsigned(value))


def _string_writer(number: int) -> _Writer:
    """Return what `_tagged` would; most fields are strings."""
    tag = varint(number << 3 | 2)
    heads = tuple(tag + length for length in _LENGTHS)

    def write_string(value: JSONValue) -> bytes:
        data = _utf8(value)
        length = len(data)
        return (heads[length] if length < len(heads) else tag + varint(length)) + data

    return write_string


def _tagged(field: Field, content: _Writer) -> _Writer:
    tag = varint(field.number << 3 | 2)
    heads = tuple(tag + length for length in _LENGTHS)

    def write_delimited(value: JSONValue) -> bytes:
        data = content(value)
        length = len(data)
        return (heads[length] if length < len(heads) else tag + varint(length)) + data

    return write_delimited


def _unsigned(value: JSONValue) -> int:
    """Return the 64 bits of a number; of a truth, 0 or 1."""
    return value % 2**64 if isinstance(value, int) else 0


def _utf8(value: JSONValue) -> bytes:
    return value.encode() if isinstance(value, str) else b""


def _time(value: JSONValue) -> bytes:
    return _timestamp(value, go_time.RFC3339) if isinstance(value, str) else b""


def _micro_time(value: JSONValue) -> bytes:
    return _timestamp(value, go_time.RFC3339_MICRO) if isinstance(value, str) else b""


@lru_cache(maxsize=4096)
def _timestamp(text: str, layout: str) -> bytes:
    """Return the seconds and nanoseconds of a time; its text has no more than it may say."""
    seconds, micros = divmod(go_time.parse(text, layout), go_time.MICROSECONDS)
    return b"\x08" + varint(_unsigned(seconds)) + b"\x10" + varint(micros * _NANOS_PER_MICRO)


def _raw_json(value: JSONValue) -> bytes:
    return b"" if value is None else delimited(1, go_json.dumps(value))


_DELIMITED: dict[Scalar, _Writer] = {
    Scalar.TIME: _time,
    Scalar.MICRO_TIME: _micro_time,
    Scalar.RAW_JSON: _raw_json,
}
