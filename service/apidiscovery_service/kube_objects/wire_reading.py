"""Kubernetes' protobuf into the fields of a Go struct, as gogo's generated code reads it.

Unknown fields are skipped, later values win, messages that come twice are merged, and bytes that
are no UTF-8 are read as U+FFFD, which is what Go's JSON makes of them. Sources: generated.pb.go
(Unmarshal, skipGenerated) of k8s.io/api and k8s.io/apimachinery.
"""

from collections.abc import Callable, Iterator

from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects import go_time, json_text, limits
from apidiscovery_service.kube_objects.fields import Field, Scalar, Shape, Struct
from apidiscovery_service.kube_objects.go_form import as_mapping
from apidiscovery_service.kube_objects.typed_values import Mistyped, plain

_VARINT, _FIXED_64, _DELIMITED, _GROUP, _GROUP_END, _FIXED_32 = range(6)
_FIXED = {_FIXED_64: 8, _FIXED_32: 4}
_MAX_VARINT_BYTES = 10
_BITS = {Scalar.INT32: 32, Scalar.INT64: 64}


class NotProtobuf(ValueError):
    """Bytes are no message of the struct; the error's text is gogo's."""


class Budget:
    """How many fields may still be read, of whatever depth."""

    def __init__(self) -> None:
        self._left = limits.MAX_VALUES

    def spend(self, count: int = 1) -> None:
        """Count fields.

        Raises:
            ObjectError: There are too many; 413.
        """
        self._left -= count
        if self._left < 0:
            raise limits.too_much()


def read(struct: Struct, data: bytes, budget: Budget) -> dict[str, JSONValue]:
    """Return the fields that a message sets, in no certain order.

    Raises:
        NotProtobuf: It is no such message, or says what JSON cannot.
        ObjectError: It has too many fields; 413.
    """
    fields: dict[str, JSONValue] = {}
    _merge(struct, data, fields, budget)
    return fields


def entries(data: bytes, budget: Budget) -> Iterator[tuple[int, int | bytes | None]]:
    """Yield the number and value of each field, in order.

    The value is None of what no message of Kubernetes has: groups and fields of fixed size.

    Raises:
        NotProtobuf: It is no protobuf.
        ObjectError: It has too many fields; 413.
    """
    at = 0
    while at < len(data):
        budget.spend()
        number, wire_type, at = _tag(data, at)
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire_type == _DELIMITED:
            start, at = _span(data, at)
            yield number, data[start:at]
        else:
            at = _skip(data, at, wire_type, budget)
            yield number, None


def text(value: bytes) -> str:
    """Return the text of a string field."""
    return value.decode("utf-8", "replace")


def _tag(data: bytes, at: int) -> tuple[int, int, int]:
    tag, at = _varint(data, at)
    number, wire_type = tag >> 3, tag & 7
    if number == 0 or wire_type in (_GROUP_END, 6, 7):
        raise NotProtobuf(f"proto: illegal tag {number} (wire type {wire_type})")
    return number, wire_type, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 64 bits, and where it ends."""
    number = 0
    for count in range(_MAX_VARINT_BYTES):
        if at >= len(data):
            raise NotProtobuf("unexpected EOF")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << 7 * count
        if not byte & 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
    raise NotProtobuf("proto: integer overflow")


def _span(data: bytes, at: int) -> tuple[int, int]:
    """Return where the content of a delimited field begins and ends."""
    length, at = _varint(data, at)
    if length > len(data) - at:
        raise NotProtobuf("unexpected EOF")
    return at, at + length


def _skip(data: bytes, at: int, wire_type: int, budget: Budget) -> int:
    """Return where a field of fixed size, or a group with all that is in it, ends."""
    groups = 0
    while True:
        if wire_type == _GROUP:
            groups += 1
        elif wire_type == _GROUP_END:
            groups -= 1
        elif wire_type == _VARINT:
            _, at = _varint(data, at)
        elif wire_type == _DELIMITED:
            _, at = _span(data, at)
        elif wire_type in _FIXED:
            at += _FIXED[wire_type]
        else:
            raise NotProtobuf(f"proto: illegal wireType {wire_type}")
        if at > len(data) or (at == len(data) and groups):
            raise NotProtobuf("unexpected EOF")
        if not groups:
            return at
        budget.spend()
        tag, at = _varint(data, at)
        wire_type = tag & 7


def _merge(struct: Struct, data: bytes, into: dict[str, JSONValue], budget: Budget) -> None:
    """Read a message; lists and maps in `into` are this reader's own, and grow in place."""
    known = {field.number: field for field in struct.fields}
    for number, value in entries(data, budget):
        field = known.get(number)
        if field is None:
            continue
        if field.shape is Shape.LIST:
            elements = into.setdefault(field.name, [])
            if isinstance(elements, list):
                elements.append(_element(field, value, None, budget))
        elif field.shape is Shape.STRING_MAP:
            strings = into.setdefault(field.name, {})
            if isinstance(strings, dict):
                key, text_of_key = _map_entry(field, value, budget)
                strings[key] = text_of_key
        else:
            into[field.name] = _element(field, value, into.get(field.name), budget)


def _map_entry(field: Field, value: int | bytes | None, budget: Budget) -> tuple[str, str]:
    strings = {1: "", 2: ""}
    for number, item in entries(_bytes(field, value), budget):
        if number in strings:
            strings[number] = text(_bytes(field, item))
    return strings[1], strings[2]


def _element(
    field: Field, value: int | bytes | None, before: JSONValue, budget: Budget
) -> JSONValue:
    if isinstance(field.type, Struct):
        fields = dict(as_mapping(before))
        _merge(field.type, _bytes(field, value), fields, budget)
        return fields
    if field.type is Scalar.STRING:
        return text(_bytes(field, value))
    if field.type in _BITS or field.type is Scalar.BOOL:
        return _number(field, field.type, value)
    return _READ[field.type](_bytes(field, value), budget)


def _bytes(field: Field, value: int | bytes | None) -> bytes:
    if isinstance(value, bytes):
        return value
    raise NotProtobuf(f"proto: wrong wireType for field {_go_name(field)}")


def _number(field: Field, scalar: Scalar, value: int | bytes | None) -> int:
    if not isinstance(value, int):
        raise NotProtobuf(f"proto: wrong wireType for field {_go_name(field)}")
    if scalar is Scalar.BOOL:
        return value != 0
    return _signed(value, _BITS[scalar])


def _signed(value: int, bits: int) -> int:
    """Return what a Go integer of so many bits is after it took the number's lowest bits."""
    value %= 2**bits
    return value - 2**bits if value >> (bits - 1) else value


def _go_name(field: Field) -> str:
    return field.name[0].upper() + field.name[1:]


def _timestamp(data: bytes, budget: Budget) -> tuple[int, int] | None:
    """Return seconds and nanoseconds; None of the zero time, which is empty."""
    if not data:
        return None
    parts = {1: 0, 2: 0}
    for number, value in entries(data, budget):
        if number in parts:
            if not isinstance(value, int):
                raise NotProtobuf("proto: wrong wireType for field Seconds or Nanos")
            parts[number] = value
    return _signed(parts[1], 64), _signed(parts[2], 32)


def _time(data: bytes, budget: Budget) -> str | None:
    parts = _timestamp(data, budget)
    return parts and _written(go_time.seconds_text, parts[0] * go_time.MICROSECONDS)


def _micro_time(data: bytes, budget: Budget) -> str | None:
    parts = _timestamp(data, budget)
    if parts is None:
        return None
    seconds, nanos = parts
    micros = int(nanos / 1000)  # towards zero, as time.Duration.Truncate
    return _written(go_time.micros_text, seconds * go_time.MICROSECONDS + micros)


def _written(form: Callable[[int], str | None], instant: int) -> str | None:
    try:
        return form(instant)
    except go_time.Unparsable as error:
        raise NotProtobuf(str(error)) from None


def _raw_json(data: bytes, budget: Budget) -> JSONValue:
    """Return the JSON that `FieldsV1` holds as text, null if it holds none."""
    raw = b""
    for number, value in entries(data, budget):
        if number == 1 and isinstance(value, bytes):
            raw = value
    budget.spend(limits.values(raw))
    try:
        return plain(json_text.parse(raw)) if raw else None
    except (json_text.NotJSON, Mistyped) as error:
        raise NotProtobuf(f"fieldsV1 holds no JSON: {error}") from None


_READ: dict[Scalar, Callable[[bytes, Budget], JSONValue]] = {
    Scalar.TIME: _time,
    Scalar.MICRO_TIME: _micro_time,
    Scalar.RAW_JSON: _raw_json,
}
