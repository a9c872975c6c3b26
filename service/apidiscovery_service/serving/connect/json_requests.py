"""Checks of JSON that protobuf's parser leaves out when it ignores unknown fields."""

import json
from collections.abc import Iterator
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import Message


def check_shape(data: bytes, message: type[Message]) -> None:
    """Refuse a message that is not a JSON object, and names that are not in an enum.

    The parser would take `[]` for a message without fields, and ignore the name: the answer would
    then have more than was asked for.

    Raises:
        ValueError: It is malformed.
        RecursionError: It is too deep.
    """
    _check(json.loads(data.decode()), cast("Descriptor", message.DESCRIPTOR), "")


def _check(value: Any, message: Descriptor, path: str) -> None:  # noqa: ANN401 - it is JSON
    if not isinstance(value, dict):
        raise ValueError(f"{path or 'message'}: want an object")  # noqa: TRY004 - not our types
    fields = cast("dict[str, Any]", value)
    for field in message.fields:
        name = field.json_name if field.json_name in fields else field.name
        for given in _items(fields.get(name)):
            where = f"{path}.{name}" if path else name
            enum, inner = field.enum_type, field.message_type
            if enum is not None:
                _check_name(given, enum, where)
            elif inner is not None and _is_ours(inner):
                _check(given, inner, where)


def _items(value: object) -> Iterator[object]:
    if isinstance(value, list):
        yield from value  # pyright: ignore[reportUnknownVariableType] - it is JSON
    elif value is not None:
        yield value


def _is_ours(inner: Descriptor) -> bool:
    """Return whether a message is written as an object of its fields."""
    is_map = inner.has_options and inner.GetOptions().map_entry
    return not is_map and not inner.full_name.startswith("google.protobuf.")


def _check_name(value: object, enum: EnumDescriptor, path: str) -> None:
    if not isinstance(value, str) or value in enum.values_by_name:
        return
    if not value.lstrip("-").isdecimal():  # which is a number as well
        names = ", ".join(enum.values_by_name)
        raise ValueError(f"{path}: {value[:100]!r} is not a {enum.name}; want one of {names}")
