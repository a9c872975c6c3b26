"""OpenAPI 2.0 documents as gnostic's protobuf."""

import gzip
import json

import pytest
from apidiscovery.openapi.v2 import openapi_pb2
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.protobuf.documents import encode_v2
from openapi_messages import JSON, Filled, json_of, reachable, used
from repository import GOLDEN

RECORDED = GOLDEN / "openapi-v2-protobuf"
REFERENCE = ("apiextensions.k8s.io.v1", "batch.v1", "edge")

FIXED = {
    "JsonReference": {"$ref": "#/x"},
    "BodyParameter": {"in": "body"},
    "HeaderParameterSubSchema": {"in": "header"},
    "FormDataParameterSubSchema": {"in": "formData"},
    "QueryParameterSubSchema": {"in": "query"},
    "PathParameterSubSchema": {"in": "path"},
    "FileSchema": {"type": "file"},
    "BasicAuthenticationSecurity": {"type": "basic"},
    "ApiKeySecurity": {"type": "apiKey"},
    "Oauth2ImplicitSecurity": {"type": "oauth2", "flow": "implicit"},
    "Oauth2PasswordSecurity": {"type": "oauth2", "flow": "password"},
    "Oauth2ApplicationSecurity": {"type": "oauth2", "flow": "application"},
    "Oauth2AccessCodeSecurity": {"type": "oauth2", "flow": "accessCode"},
}


def encode(document: JSON) -> openapi_pb2.Document:
    return openapi_pb2.Document.FromString(encode_v2(json.dumps(document).encode()))


@pytest.mark.parametrize("name", REFERENCE)
def test_equals_the_bytes_of_the_reference(name: str) -> None:
    document = gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes())
    assert encode_v2(document) == gzip.decompress((RECORDED / f"{name}.pb.gz").read_bytes())


@pytest.mark.parametrize(
    "name", [name for name in FIXED if name not in {"JsonReference", "FileSchema"}]
)
def test_every_field_of_a_choice_is_where_the_descriptor_has_it(name: str) -> None:
    message = openapi_pb2.DESCRIPTOR.message_types_by_name[name]
    value = Filled(FIXED).message(message)
    where = "securityDefinitions" if name.endswith("Security") else "parameters"
    parsed = encode({where: {"a": value}})
    assert {(name, field.name) for field in message.fields} <= set(used(parsed))
    assert json_of(parsed) == {where: {"a": value}}


def test_every_field_of_every_other_message_is_where_the_descriptor_has_it() -> None:
    document = Filled(FIXED).message(openapi_pb2.Document.DESCRIPTOR)
    file = Filled(FIXED).message(openapi_pb2.FileSchema.DESCRIPTOR)
    document["responses"]["file"] = {"schema": file}
    flow = openapi_pb2.Oauth2ImplicitSecurity.DESCRIPTOR
    document["securityDefinitions"]["flow"] = Filled(FIXED).message(flow)
    parsed = encode(document)

    choices = {"AdditionalPropertiesItem", "NonBodyParameter", "SecurityDefinitionsItem", *FIXED}
    unused = reachable(openapi_pb2.Document.DESCRIPTOR) - set(used(parsed))
    assert {item for item in unused if item[0] not in choices} == {
        ("Any", "value"),
        ("Any", "type_url"),
    }
    assert json_of(parsed) == document


@pytest.mark.parametrize("boolean", [True, False])
def test_additional_properties_may_be_a_boolean_that_is_false(boolean: bool) -> None:  # noqa: FBT001
    parsed = encode({"definitions": {"A": {"additionalProperties": boolean}}})
    item = parsed.definitions.additional_properties[0].value.additional_properties
    assert (item.WhichOneof("oneof"), item.boolean) == ("boolean", boolean)


@pytest.mark.parametrize("types", ["string", ["string", "null"]])
def test_a_schema_has_one_type_or_several(types: JSON) -> None:
    parsed = encode({"definitions": {"A": {"type": types}}})
    written = parsed.definitions.additional_properties[0].value.type.value
    assert list(written) == ([types] if isinstance(types, str) else types)


def test_a_file_with_keys_of_a_schema_is_a_schema() -> None:
    file = {"type": "file", "x-a": 1}
    parsed = encode(
        {"responses": {"a": {"schema": file}, "b": {"schema": file | {"pattern": "p"}}}}
    )
    written = [entry.value.schema for entry in parsed.responses.additional_properties]
    assert [item.WhichOneof("oneof") for item in written] == ["file_schema", "schema"]


def test_defaults_are_yaml_and_not_lost() -> None:
    parsed = encode({"definitions": {"A": {"default": {"a": ["yes", 1.0]}}}})
    written = parsed.definitions.additional_properties[0].value.default.yaml
    assert written == "a:\n    - yes\n    - 1.0\n"


def test_the_smallest_document_of_kubectl_has_the_bytes_of_the_reference() -> None:
    document = b'{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.37.0"},"paths":{}}'
    assert encode_v2(document) == b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.37.0\x42\x00"


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("[]", "$: want an object, got a list"),
        (
            '{"parameters":{"a":{"in":"cookie"}}}',
            "$.parameters.a.in: want body, header, formData, ",
        ),
        ('{"parameters":{"a":{}}}', "$.parameters.a.in: want body, header, formData, "),
        ('{"parameters":{"a":[]}}', "$.parameters.a: want an object, got a list"),
        (
            '{"securityDefinitions":{"a":{"type":"oauth2","flow":"x"}}}',
            "$.securityDefinitions.a.flow: want implicit, password, application or accessCode, ",
        ),
        (
            '{"securityDefinitions":{"a":{"type":"http"}}}',
            "$.securityDefinitions.a.type: want basic, apiKey or oauth2, got 'http'",
        ),
        (
            '{"securityDefinitions":{"a":{"type":[]}}}',
            "$.securityDefinitions.a.type: want basic, apiKey or oauth2, got a list",
        ),
        ('{"definitions":{"A":{"type":{}}}}', "$.definitions.A.type: want a string, got an "),
        ('{"schemes":"https"}', "$.schemes: want a list, got 'https'"),
        (
            '{"paths":{"/a":{"parameters":[{"$ref":1.5}]}}}',
            "$.paths['/a'].parameters[0]['$ref']: want",
        ),
    ],
)
def test_errors_have_a_path(document: str, error: str) -> None:
    with pytest.raises(InvalidOpenAPI) as caught:
        encode_v2(document.encode())
    assert str(caught.value).startswith(error)
