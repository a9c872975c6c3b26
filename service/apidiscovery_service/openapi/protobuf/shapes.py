"""Messages of both versions of OpenAPI that are not simply what their fields say.

Each function makes a maker of messages, for `Encoder`. Source: the functions of gnostic-models
openapiv2/OpenAPIv2.go and openapiv3/OpenAPIv3.go that make the messages of the same names.
"""

from google.protobuf.descriptor import Descriptor

from apidiscovery_service.openapi.protobuf import any_yaml
from apidiscovery_service.openapi.protobuf.encoder import (
    Encoder,
    Entry,
    Make,
    Special,
    entries_of,
    messages,
    no_entry,
)
from apidiscovery_service.openapi.protobuf.fields import DELIMITED, VARINT, length, tag
from apidiscovery_service.openapi.protobuf.json_reader import Value
from apidiscovery_service.openapi.protobuf.messages import type_of
from apidiscovery_service.openapi.protobuf.scalars import Misfit, Write, string, strings, text_of


def any_value(_encoder: Encoder, message: Descriptor) -> Make:
    """Return what makes Any: the YAML of the value."""
    write = string(message.fields_by_name["yaml"].number)

    def make(value: Value, depth: int) -> bytes:
        return write(any_yaml.dump(value), depth)

    return make


def schema_or_boolean(encoder: Encoder, message: Descriptor) -> Make:
    """Return what makes AdditionalPropertiesItem."""
    schema, boolean = message.fields
    head = tag(boolean.number, VARINT)
    schema_head, make_schema = tag(schema.number, DELIMITED), encoder.maker(type_of(schema))

    def make(value: Value, depth: int) -> bytes:
        if isinstance(value, bool):
            return head + (b"\x01" if value else b"\x00")
        payload = make_schema(value, depth)
        return b"%b%b%b" % (schema_head, length(payload), payload)

    return make


def one_or_more(encoder: Encoder, message: Descriptor) -> Make:
    """Return what makes ItemsItem: a list of the one schema, or of all where a list stands."""
    (schema,) = message.fields
    head, make_schema = tag(schema.number, DELIMITED), encoder.maker(type_of(schema))
    write_all = messages(schema.number, make_schema)

    def make(value: Value, depth: int) -> bytes:
        if isinstance(value, list):
            return write_all(value, depth)
        payload = make_schema(value, depth)
        return b"%b%b%b" % (head, length(payload), payload)

    return make


def string_list(_encoder: Encoder, message: Descriptor) -> Make:
    """Return what makes StringArray."""
    return strings(message.fields_by_name["value"].number)


def string_or_list(_encoder: Encoder, message: Descriptor) -> Make:
    """Return what makes TypeItem: a list, of one string where no list stands."""
    write = strings(message.fields_by_name["value"].number)

    def make(value: Value, depth: int) -> bytes:
        return write(value if isinstance(value, list) else [text_of(value)], depth)

    return make


def named(path: str, *, also_extensions: bool = False) -> Special:
    """Return a special shape: a map in a field of its own, beside extensions and other fields.

    gnostic refuses the names that do not look as they must; here, they are entries as well.

    Args:
        path: The field of the entries that are no extensions.
        also_extensions: Whether extensions are entries, too, where they can be.
    """

    def special(encoder: Encoder, message: Descriptor) -> Make:
        made = _Named(also_extensions=also_extensions)
        for field in message.fields:
            if field.name == path:
                made.entries = field.number, encoder.entry(field)
            elif field.name.endswith("extension"):
                made.extensions = field.number, encoder.entry(field)
            else:
                made.fields[field.json_name] = field.number, _nameless(encoder.writer(field))
        return made.make

    return special


def _nameless(write: Write) -> Entry:
    return lambda _name, value, depth: write(value, depth)


class _Named:
    """Makes messages that have a map in a field of its own."""

    def __init__(self, *, also_extensions: bool) -> None:
        self._also_extensions = also_extensions
        self.fields: dict[str, tuple[int, Entry]] = {}
        self.entries: tuple[int, Entry] = 0, no_entry
        self.extensions: tuple[int, Entry] = 0, no_entry

    def make(self, value: Value, depth: int) -> bytes:
        parts: dict[int, list[bytes]] = {}
        for name, item in entries_of(value, depth).items():
            extension = name.startswith("x-")
            number, write = self.extensions if extension else self.fields.get(name, self.entries)
            try:
                parts.setdefault(number, []).append(write(name, item, depth + 1))
            except Misfit as misfit:
                raise misfit.at(name) from None
            if extension and self._also_extensions:
                number, write = self.entries
                parts.setdefault(number, []).append(_if_possible(write, name, item, depth + 1))
        return b"".join([part for number in sorted(parts) for part in parts[number]])


def _if_possible(write: Entry, name: str, value: Value, depth: int) -> bytes:
    """Return an entry, or nothing when the value is no object that could be in it."""
    try:
        return write(name, value if isinstance(value, dict) else None, depth)
    except Misfit:
        return b""


COMMON: dict[str, Special] = {
    "AdditionalPropertiesItem": schema_or_boolean,
    "Any": any_value,
    "ItemsItem": one_or_more,
    "Paths": named("path"),
    "StringArray": string_list,
    "TypeItem": string_or_list,
}
