"""Validation of documents from outside: errors, places and speed."""

import gzip
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import cast

import pytest
from apidiscovery_formats.openapi.pointers import json_path
from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path
from apidiscovery_service.openapi.validation import (
    DEFAULT_LIMITS,
    DocumentLimits,
    InvalidDocuments,
    concerning,
    validate,
)
from hypothesis import given
from hypothesis import strategies as st
from openapi_documents import places, replaced
from repository import GOLDEN

Object = dict[str, JSONValue]

OK: Object = {"200": {"description": "OK"}}
NAME: Object = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def document(**others: JSONValue) -> Object:
    return {"openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "paths": {}, **others}


def with_schema(schema: JSONValue, **others: JSONValue) -> Object:
    return document(components={"schemas": {"A": schema, **others}})


def with_path(item: JSONValue, path: str = "/a", **others: JSONValue) -> Object:
    return document(paths={path: item}, **others)


def with_operation(**fields: JSONValue) -> Object:
    return with_path({"get": {"responses": OK, **fields}})


def with_parameter(**fields: JSONValue) -> Object:
    parameter: Object = {"name": "p", "in": "query", "schema": {}, **fields}
    kept: Object = {name: value for name, value in parameter.items() if value is not None}
    return with_operation(parameters=[kept])


def found_in(data: bytes, limits: DocumentLimits) -> Sequence[InvalidOpenAPI]:
    """Return what is wrong with a document."""
    try:
        validate(data, limits=limits)
    except InvalidDocuments as invalid:
        return invalid.errors
    return ()


def errors(value: JSONValue | bytes, limits: DocumentLimits = DEFAULT_LIMITS) -> list[str]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return [str(error) for error in found_in(data, limits)]


FULL = document(
    servers=[{"url": "https://{host}/", "variables": {"host": {"default": "h", "enum": ["h"]}}}],
    tags=[{"name": "t", "externalDocs": {"url": "https://docs"}}],
    security=[{"key": []}],
    externalDocs={"url": "https://docs"},
    paths={
        "/a/{name}": {
            "summary": "s",
            "parameters": [{"$ref": "#/components/parameters/name"}],
            "servers": [{"url": "/"}],
            "get": {
                "tags": ["t"],
                "operationId": "getA",
                "deprecated": True,
                "parameters": [
                    {"name": "q", "in": "query", "style": "form", "explode": True, "schema": {}},
                    {"name": "c", "in": "cookie", "content": {"application/json": {}}},
                ],
                "responses": {
                    "200": {
                        "description": "OK",
                        "headers": {"X-A": {"$ref": "#/components/headers/h"}},
                        "links": {"l": {"$ref": "#/components/links/l"}},
                    },
                    "4XX": {"$ref": "#/components/responses/r"},
                    "default": {"description": ""},
                    "x-more": 1,
                },
                "callbacks": {
                    "c": {"{$request.body#/url}": {"post": {"responses": OK}}},
                    "d": {"$ref": "#/components/callbacks/c"},
                },
                "x-kubernetes-action": "get",
            },
            "post": {
                "requestBody": {"$ref": "#/components/requestBodies/b"},
                "responses": OK,
                "security": [{}],
            },
        },
        "x-paths": [None],
    },
    components={
        "parameters": {"name": NAME},
        "headers": {"h": {"schema": {"type": "string"}}},
        "links": {"l": {"operationId": "getA", "parameters": {"name": "$request.path.name"}}},
        "responses": {"r": {"description": "", "content": {"text/plain": {"example": None}}}},
        "callbacks": {"c": {"$url": {"get": {"responses": OK}}}},
        "examples": {"e": {"summary": "s", "value": {"$ref": 1}}},
        "requestBodies": {
            "b": {
                "content": {
                    "multipart/form-data": {
                        "schema": {"$ref": "#/components/schemas/A"},
                        "examples": {"e": {"$ref": "#/components/examples/e"}},
                        "encoding": {"f": {"contentType": "text/plain"}},
                    }
                },
                "required": True,
            }
        },
        "securitySchemes": {
            "key": {"type": "apiKey", "name": "authorization", "in": "header"},
            "o": {
                "type": "oauth2",
                "flows": {"implicit": {"authorizationUrl": "/", "scopes": {"r": "read"}}},
            },
        },
        "schemas": {
            "A": {
                "type": "object",
                "required": ["b"],
                "properties": {
                    "b": {"allOf": [{"$ref": "#/components/schemas/A"}], "default": {}},
                    "x-c": {"type": "array", "items": {"$ref": "#/components/schemas/A"}},
                },
                "additionalProperties": {"type": "integer", "minimum": -1.5, "maxLength": 3},
                "discriminator": {"propertyName": "b", "mapping": {"a": "A"}},
                "enum": [None, 1, [], {}],
                "x-kubernetes-group-version-kind": [],
            },
            "x-B": {"additionalProperties": False, "not": {}, "xml": {"name": "b"}},
            "C": {"$ref": "#/components/schemas/A", "description": "as A"},
        },
    },
)


def test_everything_that_the_specification_has_passes_and_keeps_its_order() -> None:
    data = json.dumps(FULL, indent=2).encode()
    assert validate(data) == go_json.dumps(FULL)


FOLDERS = (GOLDEN / "openapi-v3", GOLDEN / "crds" / "openapi")
GOLDENS = [file for folder in FOLDERS for file in folder.glob("*__*.json.gz")]


@pytest.mark.parametrize("file", GOLDENS, ids=lambda file: file.name)
def test_documents_of_kubernetes_pass_byte_for_byte(file: FilePath) -> None:
    data = gzip.decompress(file.read_bytes())
    compact = data.startswith(b'{"')
    assert validate(data) == (data if compact else go_json.dumps(json.loads(data)))
    if (key := file.name.removesuffix(".json.gz").split("__"))[0] == "apis" and len(key) == 3:
        concerning(data, key[1], key[2])


def test_numbers_and_text_are_written_as_go_writes_them() -> None:
    text = (
        rb'{"openapi":"3.0.3","info":{"title":"<\u00e9>","version":""},"paths":{},"x-n":[1.0,0.5]}'
    )
    written = validate(text)
    assert written == (
        b'{"openapi":"3.0.3","info":{"title":"\\u003c\xc3\xa9\\u003e","version":""},"paths":{},'
        b'"x-n":[1,0.5]}'
    )


# --------------------------------------------------------------------------------------------------
# The text.


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "$: line 1 column 1: no JSON: Expecting value"),
        (b'{\n "a": ]', "$: line 2 column 7: no JSON: Expecting value"),
        (b'{"a":\n"\xc3\xa9\xff"}', "$: line 2 column 3: want UTF-8, got byte 0xff"),
        (b"[]", "$: want an object, got a list"),
        (b"null", "$: want an object, got null"),
        (b'{"a":{"b":1,"b":2}}', "$.a: 'b' is duplicated"),
        (b'{"a":[NaN]}', "$.a[0]: want a number of 64 bits, got NaN"),
        (b'{"a":1e400}', "$.a: want a number of 64 bits, got 1e400"),
        (b'{"a":18446744073709551616}', "$.a: want a number of 64 bits, got 18446744073709551616"),
        (b'{"a":' + b"9" * 5000 + b"}", "$.a: want a number of 64 bits, got " + 40 * "9"),
        (
            rb'{"a":"\ud800"}',
            r"$.a: want Unicode, got half of a surrogate pair in '\ud800'",
        ),
        (
            rb'{"a":{"\udfff":1}}',
            r"$.a: want Unicode, got half of a surrogate pair in '\udfff'",
        ),
    ],
)
def test_ambiguous_json_is_refused_with_its_path(data: bytes, expected: str) -> None:
    assert errors(data) == [expected]


def test_pairs_of_surrogates_are_text() -> None:
    data = json.dumps(document(**{"x-a": "\U0001f600 \\ud800"})).encode()
    assert b"\\ud83d" in data
    assert "\U0001f600 \\\\ud800".encode() in validate(data)


def test_the_limits_are_those_of_the_document_and_no_more() -> None:
    nested: JSONValue = 1
    for _ in range(9):
        nested = [nested]
    value = document(**{"x-a": nested})  # 10 containers, one in another
    size = len(json.dumps(value))
    nodes = 16
    assert errors(value, DocumentLimits(bytes=size, depth=11, nodes=nodes)) == []
    assert errors(value, DocumentLimits(bytes=size - 1)) == [
        f"$: want at most {size - 1} bytes, got {size}"
    ]
    assert errors(value, DocumentLimits(depth=9)) == [
        "$['x-a']" + 8 * "[0]" + ": want at most 9 nested values"
    ]
    assert errors(value, DocumentLimits(nodes=nodes - 1)) == [f"$: want at most {nodes - 1} values"]


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"a":' * 1_000_000,
        b"[" + b"[]," * 2_000_000 + b"[]]",
        b"[" + b"{}," * 2_000_000 + b"{}]",
        b'{"x":"' + b"{" * 9_000_000 + b'"}',
        b'{"x":"' + b"\\ud83d\\ude00" * 800_000 + b'"}',
        json.dumps(document(**{"x" * 5_000_000: 1})).encode(),
        json.dumps(with_path({}, "/{" + "}{" * 1_000_000)).encode(),
        json.dumps(with_path({}, "/" + "{a}" * 1_000_000)).encode(),
        json.dumps(with_schema({"pattern": "(a+)+" * 1_000_000})).encode(),
    ],
    ids=range(10),
)
def test_hostile_documents_are_refused_in_linear_time(data: bytes) -> None:
    start = time.process_time()
    found = errors(data)
    assert found
    assert sum(map(len, found)) < 100_000
    assert time.process_time() - start < 10  # some tenths of a second; quadratic would be hours


def test_many_components_take_linear_time() -> None:
    schemas: Object = {f"S{n}": {"$ref": f"#/components/schemas/S{n + 1}"} for n in range(20_000)}
    parameters = [{"$ref": "#/components/parameters/P0"}] * 1000
    chain: Object = {f"P{n}": {"$ref": f"#/components/parameters/P{n + 1}"} for n in range(20_000)}
    chain["P20000"] = NAME
    value = document(
        paths={"/a": {"parameters": parameters}},
        components={"schemas": {**schemas, "S20000": {}}, "parameters": chain},
    )
    start = time.process_time()
    assert errors(value) == []
    assert time.process_time() - start < 10


def test_ten_megabytes_take_about_a_second() -> None:
    schema: Object = {
        "description": "Standard object's metadata. " * 4,
        "type": "object",
        "properties": {
            name: {"type": "string", "description": "word " * 20, "format": "int64"}
            for name in "abcdefghij"
        },
    }
    value = with_schema({}, **{f"S{n}": schema for n in range(5500)})
    data = json.dumps(value).encode()
    assert 9_000_000 < len(data) < DocumentLimits().bytes
    start = time.process_time()
    assert errors(data) == []
    assert time.process_time() - start < 5  # 0.6 s on a machine that does nothing else


# --------------------------------------------------------------------------------------------------
# The tables.


GET = "$.paths['/a'].get"
PARTS = "$.components"
TYPES = "want one of array, boolean, integer, number, object, string"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, ["$: openapi is required", "$: info is required", "$: paths is required"]),
        (document(openapi="3.1.0"), ["$.openapi: want 3.0.x, got '3.1.0'"]),
        (document(openapi=3), ["$.openapi: want 3.0.x, got 3"]),
        (document(swagger="2.0"), ["$.swagger: OpenAPI 3.0 has no such field here"]),
        (
            document(info={"title": 1}),
            ["$.info.title: want a string, got 1", "$.info: version is required"],
        ),
        (document(tags=[{"name": "t"}, {"name": "t"}]), ["$.tags[1].name: 't' is there already"]),
        (document(paths=[]), ["$.paths: want an object, got a list"]),
        (document(paths={"a": {}}), ["$.paths.a: want a path that begins with / as name"]),
        (with_path({"get": {}}), [f"{GET}: responses is required"]),
        (with_path({"GET": {}}), ["$.paths['/a'].GET: OpenAPI 3.0 has no such field here"]),
        (
            with_path({"$ref": "#/paths/b"}),
            ["$.paths['/a']['$ref']: a path has to be described in its place, got '#/paths/b'"],
        ),
        (
            with_path({"get": {"responses": {"20": {"description": ""}, "200": {}}}}),
            [
                (
                    f"{GET}.responses['20']: want a status code, such as 200 or 2XX, or "
                    "default as name"
                ),
                f"{GET}.responses['200']: description is required",
            ],
        ),
        (with_operation(tags=["a", None]), [f"{GET}.tags[1]: want a string, got null"]),
        (with_operation(deprecated="yes"), [f"{GET}.deprecated: want true or false, got 'yes'"]),
        (
            with_operation(security=[{"nobody": []}]),
            [f"{GET}.security[0].nobody: no security scheme has this name"],
        ),
        (document(components=1), ["$.components: want an object, got 1"]),
        (
            document(components={"schemas": {"a/b": {}}}),
            [f"{PARTS}.schemas['a/b']: want letters, digits, '.', '_' and '-' as name"],
        ),
        (
            document(components={"securitySchemes": {"a": {"type": "apiKey"}}}),
            [
                f"{PARTS}.securitySchemes.a: name is required, for type is apiKey",
                f"{PARTS}.securitySchemes.a: in is required, for type is apiKey",
            ],
        ),
        (
            document(components={"examples": {"e": {"value": 1, "externalValue": "u"}}}),
            [f"{PARTS}.examples.e: want either value or externalValue"],
        ),
        (
            document(components={"links": {"l": {"operationId": "none"}, "m": {}}}),
            [
                f"{PARTS}.links.m: want either operationRef or operationId",
                f"{PARTS}.links.l.operationId: no operation is 'none'",
            ],
        ),
    ],
)
def test_fields_are_there_and_of_their_types(value: JSONValue, expected: Sequence[str]) -> None:
    assert errors(value) == expected


SCHEMAS: Sequence[tuple[JSONValue, str]] = [
    (True, ": want an object, got true"),
    ({"type": "null"}, f".type: {TYPES}, got 'null'"),
    ({"type": ["string"]}, f".type: {TYPES}, got a list"),
    ({"type": "array"}, ": items is required, for type is array"),
    ({"items": [{}]}, ".items: want an object, got a list"),
    ({"required": ["a", "a"]}, ".required[1]: 'a' is duplicated"),
    ({"required": True}, ".required: want a list, got true"),
    ({"exclusiveMinimum": 1}, ".exclusiveMinimum: want true or false, got 1"),
    ({"minimum": True}, ".minimum: want a number, got true"),
    ({"maxLength": -1}, ".maxLength: want an integer of 0 or more, got -1"),
    ({"maxItems": 1.5}, ".maxItems: want an integer of 0 or more, got 1.5"),
    ({"minItems": False}, ".minItems: want an integer of 0 or more, got false"),
    ({"multipleOf": 0}, ".multipleOf: want a number above 0, got 0"),
    ({"pattern": "a" * 10_001}, ".pattern: want at most 10000 characters, got 10001"),
    ({"pattern": 1}, ".pattern: want a regular expression, got 1"),
    ({"enum": "a"}, ".enum: want a list, got 'a'"),
    ({"const": 1}, ".const: OpenAPI 3.0 has no such field here"),
    ({"readOnly": True, "writeOnly": True}, ": want readOnly or writeOnly, not both"),
    ({"properties": {"a": 1}}, ".properties.a: want an object, got 1"),
    ({"additionalProperties": 1}, ".additionalProperties: want an object, got 1"),
    ({"allOf": [{"type": 1}]}, f".allOf[0].type: {TYPES}, got 1"),
    ({"discriminator": {}}, ".discriminator: propertyName is required"),
    (
        {"discriminator": {"propertyName": "p", "mapping": {"b": "B"}}},
        ".discriminator.mapping.b: 'B' is not a schema of the document",
    ),
    (
        {"$ref": "#/components/schemas/B"},
        "['$ref']: '#/components/schemas/B' is not in the document",
    ),
    ({"$ref": "other.json"}, "['$ref']: want #/components/schemas/NAME, got 'other.json'"),
    (
        {"$ref": "#/components/responses/A"},
        "['$ref']: want #/components/schemas/NAME, got '#/components/responses/A'",
    ),
    ({"$ref": 1}, "['$ref']: want #/components/schemas/NAME, got 1"),
    (
        {"$ref": "#/components/schemas/C", "default": 1},
        ".default: want nothing beside $ref but summary and description",
    ),
    ({"$ref": "#/components/schemas/C", "description": 1}, ".description: want a string, got 1"),
]


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
def test_schemas_are_sane(schema: JSONValue, expected: str) -> None:
    assert errors(with_schema(schema, C={})) == [f"$.components.schemas.A{expected}"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"in": "body"}, ".in: want one of cookie, header, path, query, got 'body'"),
        ({"in": None}, ": in is required"),
        ({"schema": None}, ": want either schema or content"),
        ({"content": {"a/b": {}}}, ": want either schema or content"),
        ({"schema": None, "content": {}}, ".content: want one media type, got 0"),
        (
            {"style": "matrix"},
            ".style: want one of form, spaceDelimited, pipeDelimited, deepObject, got 'matrix'",
        ),
        ({"example": 1, "examples": {}}, ": want either example or examples"),
    ],
)
def test_parameters_are_sane(fields: Mapping[str, JSONValue], expected: str) -> None:
    assert errors(with_parameter(**fields)) == [f"$.paths['/a'].get.parameters[0]{expected}"]


# --------------------------------------------------------------------------------------------------
# Paths, operations and loops.


def test_every_parameter_of_a_path_is_declared_for_every_operation() -> None:
    get: Object = {"responses": OK}
    item: Object = {"get": {**get, "parameters": [NAME]}, "put": get}
    assert errors(with_path(item, "/a/{name}")) == [
        "$.paths['/a/{name}'].put: no parameter in path declares 'name'"
    ]
    assert errors(with_path({"parameters": [NAME], "get": get, "put": get}, "/a/{name}")) == []
    assert errors(with_path({"get": {**get, "parameters": [NAME]}})) == [
        "$.paths['/a'].get.parameters[0]: the path has no parameter 'name'"
    ]
    optional = {"parameters": [{**NAME, "required": False}]}
    assert errors(with_path(optional, "/a/{name}")) == [
        "$.paths['/a/{name}'].parameters[0]: want required to be true for a parameter in the path"
    ]


def test_a_parameter_is_declared_once_also_by_reference() -> None:
    parameters: list[JSONValue] = [NAME, {"$ref": "#/components/parameters/n"}]
    value = with_path(
        {"parameters": parameters}, "/a/{name}", components={"parameters": {"n": NAME}}
    )
    assert errors(value) == [
        "$.paths['/a/{name}'].parameters[1]: the parameter 'name' in path is duplicated"
    ]


@pytest.mark.parametrize("path", ["/{", "/}", "/{}", "/{a}{", "/{{a}}"])
def test_the_parameters_of_a_path_are_well_formed(path: str) -> None:
    (error,) = errors(with_path({}, path))
    assert error.endswith(": want the parameters of a path as {name}")


def test_paths_that_differ_in_names_alone_are_the_same() -> None:
    item: Object = {"x-a": 1}
    value = document(paths={"/a/{b}/c": item, "/a/{c}/c": item, "/a/b/c": item})
    assert errors(value) == ["$.paths['/a/{c}/c']: is the same path as '/a/{b}/c'"]
    assert errors(document(paths={"/{a}/{a}": item})) == [
        "$.paths['/{a}/{a}']: the parameter 'a' stands in the path 2 times"
    ]


def test_operation_ids_are_unique() -> None:
    operation: Object = {"operationId": "x", "responses": OK}
    value = document(paths={"/a": {"get": operation}, "/b": {"put": operation}})
    assert errors(value) == [
        "$.paths['/b'].put.operationId: 'x' is there already, at $.paths['/a'].get.operationId"
    ]


def ref(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ({"A": ref("A")}, ["A: A"]),
        ({"A": ref("B"), "B": ref("A")}, ["B: A"]),
        ({"A": {"allOf": [{"anyOf": [ref("B")]}]}, "B": {"not": ref("A")}}, ["B: A"]),
        ({"A": {"properties": {"a": ref("A")}}, "B": {"items": ref("B")}}, []),
        ({"A": {"allOf": [ref("B"), ref("C")]}, "B": ref("C"), "C": {}}, []),
    ],
)
def test_only_schemas_that_are_nothing_but_references_are_a_loop(
    schemas: Object, expected: Sequence[str]
) -> None:
    found = errors(document(components={"schemas": schemas}))
    assert found == [
        f"$.components.schemas.{one[0]}: stands for nothing but itself, through {one[3]}"
        for one in expected
    ]


# --------------------------------------------------------------------------------------------------
# Errors, and documents of one group-version.


def test_errors_come_in_the_order_of_the_document_up_to_a_limit() -> None:
    value = with_schema({"type": 1, "title": 1, "properties": {"a": 1}, "format": 2}, B=1)
    places = [error.split(": ")[0].removeprefix("$.components.schemas.") for error in errors(value)]
    assert places == ["A.type", "A.title", "A.properties.a", "A.format", "B"]
    assert len(errors(value, DocumentLimits(errors=2))) == 2
    many = document(**{f"f{n}": 1 for n in range(1000)})
    assert len(errors(many)) == 100


# Paths of g.io/v1, and of other versions of g.io.
OWN = ("/apis/g.io/v1", "/apis/g.io/v1/", "/apis/g.io/v1/x")
OTHERS = ("/apis/g.io/v2/x", "/apis/g.io/v10/")


@pytest.mark.parametrize(
    ("group", "version", "wrong"),
    [
        ("g.io", "v1", [*OTHERS, "/api/v1", "/api/v1/", "/api/v1/pods", "/"]),
        ("", "v1", [*OWN, *OTHERS, "/"]),
    ],
)
def test_a_document_describes_paths_of_its_group_version(
    group: str, version: str, wrong: Sequence[str]
) -> None:
    paths = [*OWN, *OTHERS, "/api/v1", "/api/v1/", "/api/v1/pods", "/"]
    value = document(paths={**{path: {} for path in paths}, "x-a": 1})
    with pytest.raises(InvalidDocuments) as caught:
        concerning(validate(json.dumps(value).encode()), group, version)
    assert [error.path for error in caught.value.errors] == [("paths", path) for path in wrong]


# --------------------------------------------------------------------------------------------------
# Anything.


VALUES = st.sampled_from(cast("list[JSONValue]", [None, True, 0, -1, 0.5, "", "x", [], {}, [{}]]))


@given(st.sampled_from([(), *places(FULL)]), VALUES)
def test_a_wrong_value_anywhere_is_reported_with_a_path(path: Path, other: JSONValue) -> None:
    value = replaced(FULL, path, other)
    data = json.dumps(value).encode()
    wrong = found_in(data, DEFAULT_LIMITS)
    assert all(str(error).startswith(f"{json_path(error.path)}: ") for error in wrong)
    if not wrong:
        written = validate(data)
        assert json.loads(written) == value
        assert validate(written) == written
