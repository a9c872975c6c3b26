"""OpenAPI 2.0 and 3.0 documents as gnostic's protobuf.

The media types are `application/com.github.proto-openapi.spec.v2.v1.0+protobuf` and the same with
`v3`. The bytes are those of kube-openapi's handlers (`ToProtoBinary`, `ToV3ProtoBinary`):
`ParseDocument` of gnostic-models, then `proto.Marshal`.

The messages named in the tables of specials are not simply what their fields say. Source: the
functions of gnostic-models openapiv2/OpenAPIv2.go and openapiv3/OpenAPIv3.go that make the messages
of the same names.
"""

from collections.abc import Callable, Mapping

from apidiscovery.openapi.v2 import openapi_pb2 as v2_pb2
from apidiscovery.openapi.v3 import openapi_pb2 as v3_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from apidiscovery_service.kube.objects.json_text import Number
from apidiscovery_service.openapi.protobuf import any_yaml
from apidiscovery_service.openapi.protobuf.encoder import (
    INT64,
    Encoder,
    Fill,
    Misfit,
    Special,
    Value,
    characters,
    double_of,
    entries_of,
    no_entry,
    strings_setter,
    text_of,
    unlike,
)

_UINT64 = range(2**64)


def encode_v2(document: bytes) -> bytes:
    """Return the protobuf form of an OpenAPI 2.0 document.

    Args:
        document: JSON text. It need not be canonical; numbers in examples, enumerations, defaults
            and extensions are repeated as they are written.

    Raises:
        InvalidOpenAPI: It is not JSON, a value is of a wrong type or out of range, a parameter or a
            security definition is of an unknown kind, or it is nested too deeply: where, and why.
            Unknown keys are left out; nothing else is required.
    """
    return _ENCODER_V2.encode(document)


def encode_v3(document: bytes) -> bytes:
    """Return the protobuf form of an OpenAPI 3.0 document.

    Args:
        document: JSON text. It need not be canonical; numbers in examples, enumerations and
            extensions are repeated as they are written.

    Raises:
        InvalidOpenAPI: It is not JSON, a value is of a wrong type or out of range, or it is nested
            too deeply: where, and why. Unknown keys are left out; nothing is required.
    """
    return _ENCODER_V3.encode(document)


# Of both versions.


def _any(_encoder: Encoder, message: Descriptor) -> Fill:
    """Return what fills Any: with the YAML of the value."""
    name = message.fields_by_name["yaml"].name

    def fill(one: Message, value: Value, _depth: int) -> None:
        setattr(one, name, characters(any_yaml.dump(value)))

    return fill


def _schema_or_boolean(encoder: Encoder, message: Descriptor) -> Fill:
    schema, boolean = message.fields
    set_schema, boolean_name = encoder.setter(schema), boolean.name

    def fill(one: Message, value: Value, depth: int) -> None:
        if isinstance(value, bool):
            setattr(one, boolean_name, value)
        else:
            set_schema(one, value, depth)

    return fill


def _one_or_more(encoder: Encoder, message: Descriptor) -> Fill:
    """Return what fills ItemsItem: with the one schema, or with all where a list stands."""
    (schemas,) = message.fields
    add, add_all = encoder.adder(schemas), encoder.setter(schemas)

    def fill(one: Message, value: Value, depth: int) -> None:
        if isinstance(value, list):
            add_all(one, value, depth)
        else:
            add(one, value, depth)

    return fill


def _string_list(_encoder: Encoder, _message: Descriptor) -> Fill:
    return strings_setter("value")


def _string_or_list(_encoder: Encoder, _message: Descriptor) -> Fill:
    """Return what fills TypeItem: with a list, of one string where no list stands."""
    set_strings = strings_setter("value")

    def fill(one: Message, value: Value, depth: int) -> None:
        set_strings(one, value if isinstance(value, list) else [text_of(value)], depth)

    return fill


def _named(path: str, *, also_extensions: bool = False) -> Special:
    """Return a special shape: a map in a field of its own, beside extensions and other fields.

    gnostic refuses the names that do not look as they must; here, they are entries as well.

    Args:
        path: The field of the entries that are not extensions.
        also_extensions: Whether extensions are entries, too, where they can be.
    """

    def special(encoder: Encoder, message: Descriptor) -> Fill:
        fields = {
            field.json_name: encoder.setter(field)
            for field in message.fields
            if field.name != path and not field.name.endswith("extension")
        }
        extension = next((one for one in message.fields if one.name.endswith("extension")), None)
        add_extension = encoder.entry_adder(extension) if extension else no_entry
        add = encoder.entry_adder(message.fields_by_name[path])

        def add_any(one: Message, name: str, value: Value, depth: int) -> None:
            if name.startswith("x-"):
                add_extension(one, name, value, depth)
            elif name in fields:
                fields[name](one, value, depth)
            else:
                add(one, name, value, depth)

        def fill(one: Message, value: Value, depth: int) -> None:
            for name, item in entries_of(value, depth).items():
                try:
                    add_any(one, name, item, depth + 1)
                except Misfit as misfit:
                    raise misfit.at(name) from None
                if also_extensions and name.startswith("x-"):
                    try:
                        add(one, name, item if isinstance(item, dict) else None, depth + 1)
                    except Misfit:
                        getattr(one, path).pop()

        return fill

    return special


_COMMON: dict[str, Special] = {
    "AdditionalPropertiesItem": _schema_or_boolean,
    "Any": _any,
    "ItemsItem": _one_or_more,
    "Paths": _named("path"),
    "StringArray": _string_list,
    "TypeItem": _string_or_list,
}


# Of OpenAPI 2.0.

_PARAMETERS: Mapping[Value, str] = {
    "header": "header_parameter_sub_schema",
    "formData": "form_data_parameter_sub_schema",
    "query": "query_parameter_sub_schema",
    "path": "path_parameter_sub_schema",
}
_SECURITY: Mapping[tuple[Value, Value], str] = {
    ("basic", None): "basic_authentication_security",
    ("apiKey", None): "api_key_security",
    ("oauth2", "implicit"): "oauth2_implicit_security",
    ("oauth2", "password"): "oauth2_password_security",
    ("oauth2", "application"): "oauth2_application_security",
    ("oauth2", "accessCode"): "oauth2_access_code_security",
}
_FILE_KEYS = frozenset(field.json_name for field in v2_pb2.FileSchema.DESCRIPTOR.fields) - {
    "vendorExtension"
}


def _chosen(member: Callable[[Mapping[str, Value]], str]) -> Special:
    """Return a special shape: a oneof of which the object itself says the member."""

    def special(encoder: Encoder, message: Descriptor) -> Fill:
        setters = {field.name: encoder.setter(field) for field in message.fields}

        def fill(one: Message, value: Value, depth: int) -> None:
            setters[member(entries_of(value, depth))](one, value, depth)

        return fill

    return special


def _parameter(value: Mapping[str, Value]) -> str:
    return "body_parameter" if value.get("in") == "body" else "non_body_parameter"


def _non_body_parameter(value: Mapping[str, Value]) -> str:
    place = value.get("in")
    if not isinstance(place, str) or place not in _PARAMETERS:
        raise unlike("body, header, formData, query or path", place).at("in")
    return _PARAMETERS[place]


def _schema_item(value: Mapping[str, Value]) -> str:
    """A file has only the keys of a file; with others, it is a schema like any other."""
    is_file = value.get("type") == "file" and all(
        key in _FILE_KEYS or key.startswith("x-") for key in value
    )
    return "file_schema" if is_file else "schema"


def _security(value: Mapping[str, Value]) -> str:
    kind, flow = value.get("type"), value.get("flow")
    wanted, key = "basic, apiKey or oauth2", "type"
    if kind == "oauth2":
        wanted, key = "implicit, password, application or accessCode", "flow"
    else:
        flow = None
    for known, member in _SECURITY.items():  # a look-up would fail for lists and objects
        if known == (kind, flow):
            return member
    raise unlike(wanted, value.get(key)).at(key)


_ENCODER_V2 = Encoder(
    v2_pb2.Document,
    {
        **_COMMON,
        "NonBodyParameter": _chosen(_non_body_parameter),
        "Parameter": _chosen(_parameter),
        "Responses": _named("response_code"),
        "SchemaItem": _chosen(_schema_item),
        "SecurityDefinitionsItem": _chosen(_security),
    },
)


# Of OpenAPI 3.0.


def _default(_encoder: Encoder, message: Descriptor) -> Fill:
    """Return what fills DefaultType; there is no member for objects, lists and null."""
    number, boolean, string = (field.name for field in message.fields)

    def fill(one: Message, value: Value, _depth: int) -> None:
        if isinstance(value, bool):
            setattr(one, boolean, value)
        elif isinstance(value, Number):
            setattr(one, number, _default_number(value))
        elif isinstance(value, str):
            setattr(one, string, characters(value))

    return fill


def _default_number(value: Number) -> float:
    """Return the number of a default.

    A whole number that fits into 64 bits without a sign, but not with one, is 0
    (openapiv3/OpenAPIv3.go, `NewDefaultType`, keeps what a failed conversion left).
    """
    amount = double_of(value)
    if not value.lstrip("-").isdecimal() or len(value) > len(str(2**64)):
        return amount
    whole = int(value)
    if whole in INT64:
        return float(whole)
    return 0.0 if whole in _UINT64 else amount


def _any_or_expression(encoder: Encoder, message: Descriptor) -> Fill:
    """Return what fills AnyOrExpression.

    gnostic takes everything for an expression, a map of which scalars make an empty one. It fails
    on lists; here, they are of the other kind.
    """
    set_any, set_expression = map(encoder.setter, message.fields)

    def fill(one: Message, value: Value, depth: int) -> None:
        if isinstance(value, list):
            set_any(one, value, depth)
        else:
            set_expression(one, value if isinstance(value, dict) else None, depth)

    return fill


_ENCODER_V3 = Encoder(
    v3_pb2.Document,
    {
        **_COMMON,
        "AnyOrExpression": _any_or_expression,
        "Callback": _named("path", also_extensions=True),
        "DefaultType": _default,
        "Responses": _named("response_or_reference"),
    },
)
