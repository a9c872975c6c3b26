"""OpenAPI 3.0 documents as gnostic's protobuf."""

import gzip
import json
import struct
from pathlib import Path

import pytest
from apidiscovery.openapi.v3 import openapi_pb2
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.protobuf.documents import encode_v3
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from openapi_messages import JSON, Filled, json_of, reachable, used
from repository import GOLDEN

REFERENCE = sorted(
    path.with_suffix("").with_suffix("")
    for folder in ("crds/openapi", "openapi-v3")
    for path in (GOLDEN / folder).glob("*.pb.gz")
)


def golden(path: Path, kind: str) -> bytes:
    return gzip.decompress(path.with_name(f"{path.name}.{kind}.gz").read_bytes())


def encode(document: JSON) -> bytes:
    return encode_v3(json.dumps(document).encode())


def decode(data: bytes) -> JSON:
    return json_of(openapi_pb2.Document.FromString(data))


def of_schema(schema: JSON) -> JSON:
    parsed = openapi_pb2.Document.FromString(encode({"components": {"schemas": {"A": schema}}}))
    return parsed.components.schemas.additional_properties[0].value


def extension(text: str) -> str:
    """The YAML of an extension whose JSON text is given."""
    parsed = openapi_pb2.Document.FromString(encode_v3(f'{{"x-a":{text}}}'.encode()))
    return parsed.specification_extension[0].value.yaml


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.name)
def test_equals_the_bytes_of_the_reference(path: Path) -> None:
    assert encode_v3(golden(path, "json")) == golden(path, "pb")


def test_there_are_bytes_of_the_reference_for_all_the_definitions_and_edges() -> None:
    names = {path.name for path in REFERENCE}
    assert {"edge", "version", "apis__apiextensions.k8s.io__v1", "api__v1"} <= names
    assert len(names) == 19


def test_every_field_of_every_message_is_where_the_descriptor_has_it() -> None:
    document = Filled({"Reference": {"$ref": "#/x"}}).message(openapi_pb2.Document.DESCRIPTOR)
    data = encode(document)
    parsed = openapi_pb2.Document.FromString(data)

    never = {("Any", "value"), ("Any", "type_url")}
    elsewhere = {("DefaultType", "number"), ("DefaultType", "boolean")}  # and the tests below
    elsewhere |= {("AdditionalPropertiesItem", "boolean")}
    unused = reachable(openapi_pb2.Document.DESCRIPTOR) - set(used(parsed)) - never - elsewhere
    assert unused == set()
    assert json_of(parsed) == document


@pytest.mark.parametrize(
    ("default", "member", "value"),
    [
        ("", "string", ""),
        ("1", "string", "1"),
        (False, "boolean", False),
        (True, "boolean", True),
        (0, "number", 0),
        (-1.5, "number", -1.5),
        (2**63 - 1, "number", float(2**63)),
        (2**63, "number", 0),  # what the reference makes of it
        (2**64 - 1, "number", 0),
        (2**64, "number", float(2**64)),
        (-(2**63) - 1, "number", -float(2**63)),
        (None, None, None),
        ({}, None, None),
        ({"a": 1}, None, None),
        ([1], None, None),
    ],
)
def test_defaults_are_members_of_a_oneof_or_lost(
    default: JSON, member: str | None, value: JSON
) -> None:
    schema = of_schema({"default": default}).schema
    assert schema.HasField("default")
    assert schema.default.WhichOneof("oneof") == member
    if member:
        assert getattr(schema.default, member) == value


@pytest.mark.parametrize("boolean", [True, False])
def test_additional_properties_may_be_a_boolean_that_is_false(boolean: bool) -> None:  # noqa: FBT001
    item = of_schema({"additionalProperties": boolean}).schema.additional_properties
    assert item.WhichOneof("oneof") == "boolean"
    assert item.boolean is boolean


def test_siblings_of_a_reference_are_lost_but_for_two() -> None:
    written = of_schema({"$ref": "#/x", "summary": "s", "description": "d", "default": {}})
    assert (written.reference.ref, written.reference.summary) == ("#/x", "s")
    assert written.reference.description == "d"
    assert (
        written.ByteSize()
        == of_schema({"$ref": "#/x", "summary": "s", "description": "d"}).ByteSize()
    )


ZEROS = {
    FieldDescriptor.TYPE_BOOL: False,
    FieldDescriptor.TYPE_DOUBLE: 0,
    FieldDescriptor.TYPE_INT64: 0,
    FieldDescriptor.TYPE_STRING: "",
}


@pytest.mark.parametrize(
    ("key", "zero"),
    [
        (field.json_name, ZEROS[field.type])
        for field in openapi_pb2.Schema.DESCRIPTOR.fields
        if field.message_type is None and not field.is_repeated
    ],
)
def test_zeros_are_lost(key: str, zero: JSON) -> None:
    assert of_schema({key: zero}) == of_schema({})


def test_unknown_keys_are_left_out_and_nothing_is_required() -> None:
    assert encode({"openapi": "3.0.0", "webhooks": {"a": 1}}) == encode({"openapi": "3.0.0"})


def test_keys_that_are_no_path_or_status_code_are_encoded() -> None:
    document = {"paths": {"a": {"get": {"responses": {"2xx": {"description": "d"}}}}}}
    assert decode(encode(document)) == document


def test_items_may_be_a_list() -> None:
    schemas = [{"type": "string"}, {"$ref": "#/x"}]
    document = {"components": {"schemas": {"A": {"items": schemas}}}}
    assert decode(encode(document)) == document


def test_white_space_between_tokens_is_ignored() -> None:
    pretty = b' { "openapi" : "3.0.0" ,\n "paths" : { "/a" : { } , "/b":{"get":{}} } }\r\n'
    assert encode_v3(pretty) == encode({"openapi": "3.0.0", "paths": {"/a": {}, "/b": {"get": {}}}})


# --------------------------------------------------------------------------------------------------
# YAML


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('[{"b":1,"a":2},[]]', "- b: 1\n  a: 2\n- []\n"),
        ('{"a":[1,{"b":{"c":[]}}]}', "a:\n    - 1\n    - b:\n        c: []\n"),
        ('{"a":{"b":"c"}}', "a:\n    b: c\n"),
        ("[[[1]]]", "- - - 1\n"),
        ("1.0", "1.0\n"),
        ("1E400", "1E400\n"),
        ("-0", "-0\n"),
        ("null", "null\n"),
        ('""', '""\n'),
        ('"yes"', "yes\n"),
        ('"1:30"', "1:30\n"),
        ('"0o-7"', '"0o-7"\n'),
        ('"2020-1-2"', '"2020-1-2"\n'),
        ('"' + "w " * 60 + 'w"', "w " * 60 + "w\n"),
        (r'"a\nb"', "|-\n    a\n    b\n"),
        (r'["a\nb\n"]', "- |\n  a\n  b\n"),
        (r'{"a\nb":[1]}', "? |-\n    a\n    b\n:   - 1\n"),
        (r'"\ta"', '"\\ta"\n'),
        ('"a: b"', "'a: b'\n"),
    ],
)
def test_extensions_are_yaml_as_the_reference_writes_it(text: str, written: str) -> None:
    assert extension(text) == written


def _texts() -> st.SearchStrategy[str]:
    pieces = "a b : - # ' \" \\ [ ] { } , & * ! | > % @ ` ? yes no on off true null ~ 1 . 0x1 é 😀"
    words = st.sampled_from([*pieces.split(), " ", "\t", "\x07", "\x85", "\ufeff", "\u2028"])
    return st.lists(words, max_size=6).map("".join) | st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\n")
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _texts(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts(), inner, max_size=4),
    max_leaves=12,
)


@given(value=VALUES)
def test_any_value_comes_back_from_an_extension_an_example_and_an_enumeration(value: JSON) -> None:
    schema = {"example": value, "enum": [value], "x-a": value}
    document = {"components": {"schemas": {"A": schema}}}
    assert decode(encode(document)) == document


# --------------------------------------------------------------------------------------------------
# What is no document


def nested(levels: int, before: str, after: str) -> str:
    return before * levels + "{}" + after * levels


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "$: character 0: want JSON: Expecting value"),
        ("[]", "$: want an object, got a list"),
        ('{"openapi":"3.0.0",1}', "$: character 19: want JSON: Expecting property name"),
        ('{"openapi" "3.0.0"}', "$: character 11: want JSON: Expecting ':' delimiter"),
        ("{} {}", "$: character 3: want JSON: Extra data"),
        ('{"x-a":NaN}', "$: want JSON: NaN is not a number in JSON"),
        ('{"x-a":' + "[" * 100_000, "$: it is nested too deeply to be read"),
        ('{"paths":5}', "$.paths: want an object, got 5"),
        ('{"openapi":1.5}', "$.openapi: want a string, got 1.5"),
        ('{"tags":{}}', "$.tags: want a list, got an object"),
        ('{"tags":[{},{"name":[]}]}', "$.tags[1].name: want a string, got a list"),
        ('{"paths":{"/a":{"get":{"tags":["a",true]}}}}', "$.paths['/a'].get.tags[1]: want a str"),
        ('{"security":[{"a":["b",{}]}]}', "$.security[0].a[1]: want a string, got an object"),
        ('{"openapi":"\\ud800"}', "$.openapi: want characters, got half of a surrogate pair"),
        ('{"x-\\ud800":1}', "$['x-\\\\ud800']: want characters, got half of a surrogate pair"),
        ('{"x-a":["\\udc00"]}', "$['x-a']: want characters, got half of a surrogate pair"),
        ('{"x-a":' + nested(65, '{"a":', "}") + "}", "$['x-a']: want at most 64 levels"),
    ],
)
def test_errors_in_documents_have_a_path(text: str, error: str) -> None:
    with pytest.raises(InvalidOpenAPI) as caught:
        encode_v3(text.encode())
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ('{"maxLength":9223372036854775808}', ".maxLength: want a number of 64 bits"),
        ('{"maxLength":1.5}', ".maxLength: want a whole number, got 1.5"),
        ('{"maxLength":"1"}', ".maxLength: want a number, got '1'"),
        ('{"maximum":1e999}', ".maximum: want a number of the range of a double, got 1e999"),
        ('{"maximum":' + "9" * 5000 + "}", ".maximum: want a number of the range of a double"),
        ('{"default":1e999}', ".default: want a number of the range of a double"),
        ('{"nullable":null}', ".nullable: want true or false, got null"),
        ('{"type":["string"]}', ".type: want a string, got a list"),
        ('{"enum":{}}', ".enum: want a list, got an object"),
        ('{"properties":{"p":[]}}', ".properties.p: want an object, got a list"),
        ('{"items":true}', ".items: want an object, got true"),
        (nested(128, '{"not":', "}"), ".not" * 125 + ": want at most 128 levels of nesting"),
        (nested(128, '{"items":', "}"), ".items" * 125 + ": want at most 128 levels of nesting"),
    ],
)
def test_errors_in_schemas_have_a_path(schema: str, error: str) -> None:
    with pytest.raises(InvalidOpenAPI) as caught:
        encode_v3(f'{{"components":{{"schemas":{{"A":{schema}}}}}}}'.encode())
    assert str(caught.value).startswith("$.components.schemas.A" + error)


@pytest.mark.parametrize("key", ["not", "items", "additionalProperties", "allOf", "properties"])
def test_the_deepest_document_is_encoded(key: str) -> None:
    levels = 62 if key in {"allOf", "properties"} else 124
    before = f'{{"{key}":' + {"allOf": "[", "properties": '{"p":'}.get(key, "")
    after = {"allOf": "]", "properties": "}"}.get(key, "") + "}"
    deepest = nested(levels, before, after).replace("{}", '{"x-a":' + "[" * 64 + "]" * 64 + "}")
    document = f'{{"components":{{"schemas":{{"A":{deepest}}}}}}}'
    assert encode_v3(document.encode()).endswith(b"- " * 63 + b"[]\n")


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(InvalidOpenAPI, match="byte 2: want UTF-8"):
        encode_v3(b'{"\xff":1}')


def test_whole_numbers_may_be_written_as_floats() -> None:
    schema = of_schema({"maxLength": 2.0}).schema
    assert schema.max_length == 2
    parsed = openapi_pb2.Document.FromString(
        encode_v3(b'{"components":{"schemas":{"A":{"minLength":1e3,"maximum":-0.0}}}}')
    )
    schema = parsed.components.schemas.additional_properties[0].value.schema
    assert schema.min_length == 1000
    assert struct.pack("<d", schema.maximum) == struct.pack("<d", -0.0)
