"""JSON documents as the messages of gnostic, by the messages' descriptors.

Descriptors have the field of each key (by its JSON name) and its type. They do not have what
gnostic does with some messages of both versions of OpenAPI (gnostic-models openapiv2/OpenAPIv2.go
and openapiv3/OpenAPIv3.go):

- A message whose only field is `additional_properties` is a map, with a message for each entry.
- A choice between an object and a reference to it is a reference when there is a `$ref`.
- Keys that begin with `x-` are extensions; other keys without a field are lost.

gnostic refuses a document with unknown keys or without required ones; this module encodes it.
Scalars are read by the rules of gnostic-models compiler/helpers.go (`StringForScalarNode` and its
siblings).
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from apidiscovery_service.kube.objects.json_text import Number
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

# Levels of objects and lists in a document. The deepest golden one has 36; manifests may have as
# many.
MAX_DEPTH = 128

INT64 = range(-(2**63), 2**63)
_MAX_SHOWN = 256  # characters of a key
_MAX_DIGITS = 400  # of what can be a double
_EXTENSIONS = frozenset({"specification_extension", "vendor_extension"})
_REFERENCES = frozenset({"Reference", "JsonReference"})


Value: TypeAlias = "dict[str, Value] | list[Value] | str | bool | None"

# Fills a message, or a field of it, with a value at a depth of its document.
Fill: TypeAlias = Callable[[Message, Value, int], None]

# Adds an entry to a map: its name, its value, the depth of the value.
AddEntry: TypeAlias = Callable[[Message, str, Value, int], None]

# Returns what fills a message that its fields alone do not describe.
Special: TypeAlias = Callable[["Encoder", Descriptor], Fill]


class Misfit(Exception):
    """A value does not fit its field; each caller adds a step of the path, from the inside out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.steps: list[str | int] = []  # from the innermost out

    def at(self, step: str | int) -> "Misfit":
        """Add the key or the index within which it happened."""
        self.steps.append(step)
        return self

    def invalid(self) -> InvalidOpenAPI:
        """Return the error of the whole document."""
        path: Path = tuple(_shown(step) for step in reversed(self.steps))
        return InvalidOpenAPI(path, self.message)


def _shown(step: str | int) -> str | int:
    """Return a step as a message can have it: a key may have any characters, and any length."""
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


class Encoder:
    """Encodes documents of one version of OpenAPI."""

    def __init__(self, document: type[Message], specials: Mapping[str, Special]) -> None:
        """Take the message of a document, and the messages that are not like others, by name."""
        self._specials = specials
        self._fillers: dict[str, Fill] = {}
        self._document = document
        self._prepare(cast("Descriptor", document.DESCRIPTOR))

    def encode(self, document: bytes) -> bytes:
        """Return the message of a document that is JSON text.

        Raises:
            InvalidOpenAPI: It is not such a document: where, and why.
        """
        value = _parsed(document)
        message = self._document()
        try:
            if not isinstance(value, dict):
                raise unlike("an object", value)
            self._fillers[message.DESCRIPTOR.name](message, value, 0)
        except Misfit as misfit:
            raise misfit.invalid() from None
        except RecursionError:  # MAX_DEPTH is too much for a caller with a deep stack
            raise Misfit("it is nested too deeply to be encoded").invalid() from None
        return message.SerializeToString()

    def _prepare(self, message: Descriptor) -> None:
        """Find out how messages of a type are filled.

        Users look it up by name when they need it, for types may hold themselves.
        """
        if message.name not in self._fillers:
            self._fillers[message.name] = _unprepared
            self._fillers[message.name] = self._new_filler(message)

    def _new_filler(self, message: Descriptor) -> Fill:
        if message.name in self._specials:
            return self._specials[message.name](self, message)
        if message.oneofs:
            return self._choice(message)
        if [field.name for field in message.fields] == ["additional_properties"]:
            return self._map(message)
        return self._object(message)

    def _object(self, message: Descriptor) -> Fill:
        """Return what fills messages that have a field for each key."""
        fields: dict[str, Fill] = {}
        add_extension: AddEntry = no_entry
        for field in message.fields:
            if field.name in _EXTENSIONS:
                add_extension = self.entry_adder(field)
            else:
                fields[field.json_name] = self.setter(field)

        def fill(one: Message, value: Value, depth: int) -> None:
            for key, item in entries_of(value, depth).items():
                try:
                    if key in fields:
                        fields[key](one, item, depth + 1)
                    elif key.startswith("x-"):
                        add_extension(one, key, item, depth + 1)
                except Misfit as misfit:
                    raise misfit.at(key) from None

        return fill

    def _map(self, message: Descriptor) -> Fill:
        """Return what fills messages that have an entry for each key."""
        add = self.entry_adder(message.fields[0])

        def fill(one: Message, value: Value, depth: int) -> None:
            for name, item in entries_of(value, depth).items():
                try:
                    add(one, name, item, depth + 1)
                except Misfit as misfit:
                    raise misfit.at(name) from None

        return fill

    def _choice(self, message: Descriptor) -> Fill:
        """Return what fills messages that are a thing itself or a reference to one."""
        setters = {
            type_of(field).name in _REFERENCES: self.setter(field) for field in message.fields
        }

        def fill(one: Message, value: Value, depth: int) -> None:
            setters[isinstance(value, dict) and "$ref" in value](one, value, depth)

        return fill

    def setter(self, field: FieldDescriptor) -> Fill:
        """Return what sets one field of a message; a message in it is there even when empty."""
        name = field.name
        if field.message_type is None:
            return strings_setter(name) if field.is_repeated else _scalar_setter(field)
        if field.is_repeated:
            return _each(self.adder(field))
        type_name, fillers = field.message_type.name, self._fillers
        self._prepare(field.message_type)

        def set_message(one: Message, value: Value, depth: int) -> None:
            inner: Message = getattr(one, name)
            inner.SetInParent()
            fillers[type_name](inner, value, depth)

        return set_message

    def adder(self, field: FieldDescriptor) -> Fill:
        """Return what adds one message to a field that is a list of them."""
        name, message, fillers = field.name, type_of(field), self._fillers
        type_name = message.name
        self._prepare(message)

        def add(one: Message, value: Value, depth: int) -> None:
            fillers[type_name](getattr(one, name).add(), value, depth)

        return add

    def entry_adder(self, field: FieldDescriptor) -> AddEntry:
        """Return what adds an entry to a map: a message of a name and a value."""
        field_name = field.name
        set_value = self.setter(type_of(field).fields_by_name["value"])

        def add(one: Message, name: str, value: Value, depth: int) -> None:
            entry = getattr(one, field_name).add()
            entry.name = characters(name)
            set_value(entry, value, depth)

        return add


def _scalar_setter(field: FieldDescriptor) -> Fill:
    name, read = field.name, _SCALARS[field.type]

    def set_scalar(one: Message, value: Value, _depth: int) -> None:
        setattr(one, name, read(value))

    return set_scalar


def strings_setter(name: str) -> Fill:
    """Return what sets a field that is a list of strings."""

    def add(one: Message, value: Value, _depth: int) -> None:
        getattr(one, name).append(text_of(value))

    return _each(add)


def _each(add: Fill) -> Fill:
    """Return what adds each element of a list."""

    def add_all(one: Message, value: Value, depth: int) -> None:
        for index, item in enumerate(_items_of(value)):
            try:
                add(one, item, depth + 1)
            except Misfit as misfit:
                raise misfit.at(index) from None

    return add_all


def _unprepared(_message: Message, _value: Value, _depth: int) -> None:
    raise RuntimeError("an encoder is used before it is complete")


def no_entry(_message: Message, _name: str, _value: Value, _depth: int) -> None:
    """Leave an entry out: the message has no field for it."""


def type_of(field: FieldDescriptor) -> Descriptor:
    """Return the type of a field that holds messages."""
    if field.message_type is None:
        raise TypeError(f"{field.full_name} holds no messages")
    return field.message_type


def entries_of(value: Value, depth: int) -> dict[str, Value]:
    """Return the entries of an object at a depth of its document; null has none.

    Raises:
        Misfit: It is not an object, or too deep.
    """
    if depth >= MAX_DEPTH:
        raise Misfit(f"want at most {MAX_DEPTH} levels of nesting")
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    raise unlike("an object", value)


def _items_of(value: Value) -> list[Value]:
    """Return the elements of a list; null has none."""
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise unlike("a list", value)


def characters(text: str) -> str:
    """Return a string, which must have no lone surrogates.

    Raises:
        Misfit: It has one.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            seen = f"{text[:40]!a}"
            raise Misfit(f"want characters, got half of a surrogate pair in {seen}") from None
    return text


def text_of(value: Value) -> str:
    """Return a string; a whole number is the string of its digits, and null an empty one."""
    if value is None:
        return ""
    is_fraction = isinstance(value, Number) and not value.lstrip("-").isdecimal()
    if not isinstance(value, str) or is_fraction:
        raise unlike("a string", value)
    return characters(value)


def double_of(value: Value) -> float:
    """Return a number as a double."""
    if not isinstance(value, Number):
        raise unlike("a number", value)
    amount = float(value)
    if not math.isfinite(amount):
        raise unlike("a number of the range of a double", value)
    return amount


def _integer_of(value: Value) -> int:
    """Return a whole number of the range of int64; `2.0` and `1e3` are such, too."""
    amount = double_of(value)
    if not amount.is_integer():
        raise unlike("a whole number", value)
    text = str(value)
    whole = int(text) if text.lstrip("-").isdecimal() and len(text) < _MAX_DIGITS else int(amount)
    if whole not in INT64:
        raise unlike("a number of 64 bits", value)
    return whole


def _boolean_of(value: Value) -> bool:
    if not isinstance(value, bool):
        raise unlike("true or false", value)
    return value


_SCALARS: Mapping[int, Callable[[Value], bool | float | int | str]] = {
    FieldDescriptor.TYPE_BOOL: _boolean_of,
    FieldDescriptor.TYPE_DOUBLE: double_of,
    FieldDescriptor.TYPE_INT64: _integer_of,
    FieldDescriptor.TYPE_STRING: text_of,
}


def _parsed(document: bytes) -> Value:
    """Return the value of JSON text; its numbers are of type `Number`.

    Of two equal keys the last counts.

    Raises:
        InvalidOpenAPI: It is not UTF-8, not JSON, or nests deeper than the interpreter recurses.
    """
    try:
        value = cast("Value", _DECODER.decode(document.decode()))
    except UnicodeDecodeError as error:
        raise InvalidOpenAPI((), f"byte {error.start}: want UTF-8: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise InvalidOpenAPI((), f"character {error.pos}: want JSON: {error.msg}") from None
    except ValueError as error:
        raise InvalidOpenAPI((), f"want JSON: {error}") from None
    except RecursionError:
        raise InvalidOpenAPI((), "it is nested too deeply to be read") from None
    return value


def _refuse_constant(name: str) -> Value:
    raise ValueError(f"{name} is not a number in JSON")


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse_constant)
