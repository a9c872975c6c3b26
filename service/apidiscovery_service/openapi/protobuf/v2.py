"""OpenAPI 2.0 documents as `application/com.github.proto-openapi.spec.v2.v1.0+protobuf`.

The bytes are those of kube-openapi's handler (`ToProtoBinary`): `ParseDocument` of gnostic-models
openapiv2/document.go, then `proto.Marshal`.
"""

from collections.abc import Callable, Mapping

from apidiscovery.openapi.v2 import openapi_pb2
from google.protobuf.descriptor import Descriptor

from apidiscovery_service.openapi.protobuf.encoder import (
    Encoder,
    Make,
    Special,
    delimited,
    entries_of,
)
from apidiscovery_service.openapi.protobuf.json_reader import Value
from apidiscovery_service.openapi.protobuf.messages import type_of
from apidiscovery_service.openapi.protobuf.scalars import Misfit, unlike
from apidiscovery_service.openapi.protobuf.shapes import COMMON, named

# Returns the member of a oneof that an object goes into.
_Member = Callable[[Mapping[str, Value]], str]

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
_FILE_KEYS = frozenset(field.json_name for field in openapi_pb2.FileSchema.DESCRIPTOR.fields) - {
    "vendorExtension"
}


def _chosen(member: _Member) -> Special:
    """Return a special shape: a oneof of which the object itself says the member."""

    def special(encoder: Encoder, message: Descriptor) -> Make:
        writers = {
            field.name: delimited(field.number, encoder.maker(type_of(field)))
            for field in message.fields
        }

        def make(value: Value, depth: int) -> bytes:
            return writers[member(entries_of(value, depth))](value, depth)

        return make

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
    if kind == "oauth2":
        return _security_of(kind, flow, "flow", flow)
    return _security_of(kind, None, "type", kind)


def _security_of(kind: Value, flow: Value, key: str, seen: Value) -> str:
    for (known_kind, known_flow), member in _SECURITY.items():
        if (kind, flow) == (known_kind, known_flow):
            return member
    wanted = "implicit, password, application or accessCode" if flow else "basic, apiKey or oauth2"
    raise Misfit(unlike(wanted, seen).message).at(key)


_ENCODER = Encoder(
    openapi_pb2.Document.DESCRIPTOR,
    {
        **COMMON,
        "NonBodyParameter": _chosen(_non_body_parameter),
        "Parameter": _chosen(_parameter),
        "Responses": named("response_code"),
        "SchemaItem": _chosen(_schema_item),
        "SecurityDefinitionsItem": _chosen(_security),
    },
)


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
    return _ENCODER.encode(document)
