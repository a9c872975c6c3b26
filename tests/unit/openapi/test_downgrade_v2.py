"""Conversion of OpenAPI v3 to v2."""

from typing import Any, cast

import pytest
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.v2.upgrade import convert
from downgraded import downgrade
from openapi_documents import (
    PAIRS,
    Json,
    dangling,
    golden,
    is_valid,
    is_well_formed,
    operation,
    v3,
)

OPEN = "x-apidiscovery-unresolved"
KINDS = "x-kubernetes-group-version-kind"


def downgraded(**fields: Json) -> Json:
    """Return the v2 document of a v3 one, when it is sound."""
    result = downgrade(v3(**fields))
    assert not dangling(result)
    assert is_valid(result)
    return result


def without_defaults(schema: Json) -> Json:
    if isinstance(schema, list):
        return [without_defaults(item) for item in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    # A property may be called `default`; a default is no object that says a type.
    return {
        name: without_defaults(value)
        for name, value in cast("dict[str, Json]", schema).items()
        if name != "default" or (isinstance(value, dict) and ("type" in value or "$ref" in value))
    }


def after_both_ways(document: Json) -> Json:
    """Remove from a v2 document of Kubernetes the fields that a conversion to v3 and back loses."""
    document = {name: value for name, value in document.items() if name != "security"}
    document["definitions"] = without_defaults(document["definitions"])
    for item in document["paths"].values():
        for method, one in item.items():
            if method == "parameters":
                continue
            del one["schemes"]
            one["produces"] = sorted(one["produces"])
            if not any("schema" in response for response in one["responses"].values()):
                del one["produces"]
            one["consumes"] = sorted(one["consumes"])
            bodies = [each for each in one.get("parameters", []) if each["in"] == "body"]
            for body in bodies:
                body.pop("required", None)
            if not bodies:
                del one["consumes"]
    return document


@pytest.mark.parametrize("name", PAIRS)
def test_a_document_converted_twice_is_the_same(name: str) -> None:
    """But for schemes, security of the whole, whether bodies are required, and defaults."""
    source = golden(f"v2_{name}")

    result = downgrade(convert(source))

    assert result == after_both_ways(source)
    assert list(result) == [field for field in source if field != "security"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {
                "description": "d",
                "default": {},
                "allOf": [{"$ref": "#/components/schemas/Other"}],
                "x-a": 1,
            },
            {"description": "d", "$ref": "#/definitions/Other", "x-a": 1},
            id="a wrapped reference",
        ),
        pytest.param(
            {
                "description": "d",
                "format": "int-or-string",
                "oneOf": [{"type": "integer"}, {"type": "string"}],
            },
            {"description": "d", "type": "string", "format": "int-or-string"},
            id="int or string as Kubernetes has it",
        ),
        pytest.param(
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            },
            {"x-kubernetes-int-or-string": True},
            id="int or string in a definition",
        ),
        pytest.param(
            {"type": "string", "not": {"enum": ["a"]}, "allOf": [{"maxLength": 5}]},
            {"type": "string"},
            id="conditions",
        ),
        pytest.param(
            {"allOf": [{"$ref": "#/components/schemas/Other"}, {"type": "object"}]},
            {"allOf": [{"$ref": "#/definitions/Other"}, {"type": "object"}]},
            id="a composition",
        ),
        pytest.param(
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {
                    "a": {"type": "array", "nullable": True, "items": {"type": "string"}},
                    "b": {"type": "string"},
                },
            },
            {
                "type": "object",
                "required": ["b"],
                "properties": {"a": {}, "b": {"type": "string"}},
            },
            id="what may be null",
        ),
        pytest.param(
            {
                "properties": {
                    "a": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"b": {}},
                    },
                    "c": {
                        "type": "array",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "items": {},
                    },
                }
            },
            {
                "properties": {
                    "a": {"x-kubernetes-preserve-unknown-fields": True},
                    "c": {"x-kubernetes-preserve-unknown-fields": True},
                }
            },
            id="what keeps unknown fields",
        ),
        pytest.param(
            {
                "type": "object",
                "description": "d",
                "properties": {"a": {}},
                "x-kubernetes-preserve-unknown-fields": True,
                KINDS: [{"group": "g", "kind": "K", "version": "v"}],
            },
            {"type": "object", KINDS: [{"group": "g", "kind": "K", "version": "v"}]},
            id="a kind that keeps unknown fields",
        ),
        pytest.param(
            {"$ref": "#/components/schemas/No"}, {OPEN: "#/components/schemas/No"}, id="unknown"
        ),
        pytest.param(
            {"type": "object", "discriminator": {"propertyName": "k"}, "writeOnly": True},
            {"type": "object", "discriminator": "k"},
            id="words of v3",
        ),
    ],
)
def test_schemas_are_converted_as_by_kubernetes(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    components = {"schemas": {"Other": {"type": "object"}, "S": schema}}

    # The validator wants a discriminator among the properties, so it does not see this alone.
    result: Any = downgrade(v3(components=components))

    assert go_json.dumps(result["definitions"]["S"]) == go_json.dumps(expected)
    assert not dangling(result)
    assert is_well_formed(result)


_CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}, "example": 1}}
COMPONENTS = {
    "schemas": {"A": {"type": "object"}, "E": {"type": "string", "enum": ["e"]}},
    "parameters": {
        "P": {
            "name": "p",
            "in": "query",
            "explode": False,
            "schema": {"type": "array", "items": {"$ref": "#/components/schemas/E"}},
        },
        "C": {"name": "c", "in": "cookie", "schema": {"type": "string"}},
    },
    "requestBodies": {"P": {"required": True, "content": _CONTENT}},
    "responses": {"R": {"description": "r", "content": _CONTENT}},
    "headers": {"H": {"description": "h", "schema": {"type": "integer"}}},
    "securitySchemes": {
        "b": {"type": "http", "scheme": "bearer"},
        "o": {"type": "openIdConnect", "openIdConnectUrl": "https://a/"},
    },
}
POST: dict[str, Json] = {
    "operationId": "o",
    "parameters": [
        {"$ref": "#/components/parameters/P"},
        {"$ref": "#/components/parameters/C"},
        {"name": "q", "in": "query", "schema": {"type": "object"}},
    ],
    "requestBody": {"$ref": "#/components/requestBodies/P"},
    "responses": {
        "200": {"$ref": "#/components/responses/R"},
        "4XX": {"description": "", "headers": {"H": {"$ref": "#/components/headers/H"}}},
    },
    "security": [{"b": []}, {"o": []}],
    "x-a": 1,
}


def test_operations_and_their_components_say_the_same() -> None:
    result = downgraded(paths={"/a": {"post": POST}}, components=COMPONENTS)

    assert result["paths"]["/a"]["post"] == {
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "operationId": "o",
        "security": [{"b": []}],
        "parameters": [
            {"$ref": "#/parameters/P_body"},
            {"$ref": "#/parameters/P"},
            {"name": "q", "in": "query", "type": "string"},
        ],
        "responses": {
            "200": {"$ref": "#/responses/R"},
            "400": {"description": "", "headers": {"H": {"type": "integer", "description": "h"}}},
        },
        "x-a": 1,
    }
    assert result["parameters"] == {
        "P": {
            "type": "array",
            "items": {"enum": ["e"], "type": "string"},
            "name": "p",
            "in": "query",
        },
        "P_body": {
            "name": "body",
            "in": "body",
            "required": True,
            "schema": {"$ref": "#/definitions/A"},
        },
    }
    assert result["responses"]["R"]["examples"] == {"application/json": 1}
    bearer = {"type": "apiKey", "name": "authorization", "in": "header"}
    assert result["securityDefinitions"] == {"b": bearer}


def test_a_form_becomes_its_fields() -> None:
    schema = {
        "type": "object",
        "required": ["f"],
        "properties": {"f": {"type": "string", "format": "binary"}, "n": {"type": "integer"}},
    }
    body = {"content": {"multipart/form-data": {"schema": schema}}}

    result = downgraded(paths={"/a": {"post": operation(requestBody=body)}})

    assert result["paths"]["/a"]["post"]["consumes"] == ["multipart/form-data"]
    assert result["paths"]["/a"]["post"]["parameters"] == [
        {"name": "f", "in": "formData", "required": True, "type": "file"},
        {"name": "n", "in": "formData", "type": "integer"},
    ]
