"""Values of JSON as the messages of gnostic, straight to bytes, by the messages' descriptors.

The descriptors say which key is which field (by its JSON name) and what its type is. What gnostic
does with some shapes of messages they do not say; that is here, for both versions of OpenAPI
(gnostic-models openapiv2/OpenAPIv2.go and openapiv3/OpenAPIv3.go):

- A message whose only field is `additional_properties` is a map, with a message for each entry.
- A choice between something and a reference to it is a reference when there is a `$ref`.
- Keys that begin with `x-` go into the field of extensions; other keys without a field are lost.

gnostic refuses a document with unknown keys or without required ones; here, it is encoded.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from apidiscovery_service.openapi.protobuf.fields import DELIMITED, length, tag
from apidiscovery_service.openapi.protobuf.json_reader import Value, parse
from apidiscovery_service.openapi.protobuf.messages import type_of
from apidiscovery_service.openapi.protobuf.scalars import (
    Misfit,
    Write,
    boolean,
    double,
    int64,
    items_of,
    string,
    strings,
    unlike,
)

# Levels of objects and lists in a document. The deepest of the golden ones has 36; of manifests as
# many are read.
MAX_DEPTH = 128

# Makes the payload of a message; like Write, but without the tag and the length.
Make: TypeAlias = Callable[[Value, int], bytes]

# Makes the maker of a message that is not like the others.
Special: TypeAlias = Callable[["Encoder", Descriptor], Make]

# Makes one entry of a map: its name, its value, the depth of the value.
Entry: TypeAlias = Callable[[str, Value, int], bytes]

_SCALARS: Mapping[int, Callable[[int], Write]] = {
    FieldDescriptor.TYPE_BOOL: boolean,
    FieldDescriptor.TYPE_DOUBLE: double,
    FieldDescriptor.TYPE_INT64: int64,
    FieldDescriptor.TYPE_STRING: string,
}
_EXTENSIONS = frozenset({"specification_extension", "vendor_extension"})
_REFERENCES = frozenset({"Reference", "JsonReference"})


class Encoder:
    """Makes the bytes of documents of one version of OpenAPI."""

    def __init__(self, document: Descriptor, specials: Mapping[str, Special]) -> None:
        self._specials = specials
        self._makers: dict[str, Make] = {}
        self._document = self.maker(document)

    def encode(self, document: bytes) -> bytes:
        """Return the message of a document that is JSON text.

        Raises:
            InvalidOpenAPI: It is no such document: where, and why.
        """
        value = parse(document)
        try:
            if not isinstance(value, dict):
                raise unlike("an object", value)
            return self._document(value, 0)
        except Misfit as misfit:
            raise misfit.invalid() from None
        except RecursionError:  # MAX_DEPTH is too much for whoever is deep in calls already
            raise Misfit("it is nested too deeply to be encoded").invalid() from None

    def maker(self, message: Descriptor) -> Make:
        """Return what makes messages of a type. Types may hold themselves."""
        known = self._makers.get(message.name)
        if known is not None:
            return known
        special = self._specials.get(message.name)
        if special is not None:
            later = _Later()
            self._makers[message.name] = later.make
            later.target = self._makers[message.name] = special(self, message)
            return later.target
        if message.oneofs:
            return self._choice(message)
        if [field.name for field in message.fields] == ["additional_properties"]:
            return self._map(message)
        return self._object(message)

    def _object(self, message: Descriptor) -> Make:
        """Return what makes messages that have a field for each key."""
        made = _Object()
        self._makers[message.name] = made.make
        for field in message.fields:
            if field.name in _EXTENSIONS:
                made.extensions = field.number, self.entry(field)
            else:
                made.fields[field.json_name] = field.number, self.writer(field)
        return made.make

    def _map(self, message: Descriptor) -> Make:
        made = _Map()
        self._makers[message.name] = made.make
        made.entry = self.entry(message.fields[0])
        return made.make

    def _choice(self, message: Descriptor) -> Make:
        made = _Choice()
        self._makers[message.name] = made.make
        for field in message.fields:
            member = tag(field.number, DELIMITED), self.maker(type_of(field))
            if type_of(field).name in _REFERENCES:
                made.reference = member
            else:
                made.itself = member
        return made.make

    def writer(self, field: FieldDescriptor) -> Write:
        """Return what writes one field of an object."""
        if field.message_type is not None:
            writer = messages if field.is_repeated else delimited
            return writer(field.number, self.maker(field.message_type))
        return strings(field.number) if field.is_repeated else _SCALARS[field.type](field.number)

    def entry(self, field: FieldDescriptor) -> Entry:
        """Return what writes an entry of a map: a message of a name and a value."""
        head = tag(field.number, DELIMITED)
        parts = type_of(field).fields_by_name
        write_name = string(parts["name"].number)
        write_value = self.writer(parts["value"])

        def write(name: str, value: Value, depth: int) -> bytes:
            payload = write_name(name, depth) + write_value(value, depth)
            return b"%b%b%b" % (head, length(payload), payload)

        return write


def delimited(number: int, make: Make) -> Write:
    """Return what writes a message as field *number*; an empty one is written, too."""
    head = tag(number, DELIMITED)

    def write(value: Value, depth: int) -> bytes:
        payload = make(value, depth)
        return b"%b%b%b" % (head, length(payload), payload)

    return write


def messages(number: int, make: Make) -> Write:
    """Return what writes a list of messages."""
    head = tag(number, DELIMITED)

    def write(value: Value, depth: int) -> bytes:
        out: list[bytes] = []
        for place, item in enumerate(items_of(value)):
            try:
                payload = make(item, depth + 1)
            except Misfit as misfit:
                raise misfit.at(place) from None
            out += head, length(payload), payload
        return b"".join(out)

    return write


def entries_of(value: Value, depth: int) -> dict[str, Value]:
    """Return the entries of an object that stands *depth* levels deep; null has none.

    Raises:
        Misfit: It is none, or too deep.
    """
    if depth >= MAX_DEPTH:
        raise Misfit(f"want at most {MAX_DEPTH} levels of nesting")
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    raise unlike("an object", value)


def no_entry(_name: str, _value: Value, _depth: int) -> bytes:
    """Return nothing: what stands where a field is not known yet, or never will be."""
    return b""


def _nothing(_value: Value, _depth: int) -> bytes:
    return b""


class _Later:
    """Makes messages of a special shape that hold themselves, once their maker is there."""

    def __init__(self) -> None:
        self.target: Make = _nothing

    def make(self, value: Value, depth: int) -> bytes:
        return self.target(value, depth)


class _Object:
    """Makes messages that have a field for each key."""

    def __init__(self) -> None:
        self.fields: dict[str, tuple[int, Write]] = {}
        self.extensions: tuple[int, Entry] = 0, no_entry

    def make(self, value: Value, depth: int) -> bytes:
        parts: dict[int, bytes] = {}
        extended: list[bytes] = []
        fields, (extension_number, write_extension) = self.fields, self.extensions
        for key, item in entries_of(value, depth).items():
            field = fields.get(key)
            try:
                if field is not None:
                    parts[field[0]] = field[1](item, depth + 1)
                elif key.startswith("x-"):
                    extended.append(write_extension(key, item, depth + 1))
            except Misfit as misfit:
                raise misfit.at(key) from None
        if extended:
            parts[extension_number] = b"".join(extended)
        return b"".join([parts[number] for number in sorted(parts)])


class _Map:
    """Makes messages that have an entry for each key."""

    def __init__(self) -> None:
        self.entry: Entry = no_entry

    def make(self, value: Value, depth: int) -> bytes:
        out: list[bytes] = []
        write = self.entry
        for name, item in entries_of(value, depth).items():
            try:
                out.append(write(name, item, depth + 1))
            except Misfit as misfit:
                raise misfit.at(name) from None
        return b"".join(out)


class _Choice:
    """Makes messages that are a thing itself or a reference to one."""

    def __init__(self) -> None:
        self.itself: tuple[bytes, Make] = b"", _nothing
        self.reference: tuple[bytes, Make] = b"", _nothing

    def make(self, value: Value, depth: int) -> bytes:
        is_reference = isinstance(value, dict) and "$ref" in value
        head, make = self.reference if is_reference else self.itself
        payload = make(value, depth)
        return b"%b%b%b" % (head, length(payload), payload)
