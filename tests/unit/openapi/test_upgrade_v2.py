"""Conversion of OpenAPI v2 to v3, as Kubernetes does it but without its losses.

`test_split_v2.py` compares converted documents of Kubernetes with its own.
"""

from time import process_time
from typing import Any

import pytest
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.v2.upgrade import convert
from hypothesis import given
from hypothesis import strategies as st
from openapi_documents import (
    Json,
    dangling,
    is_valid,
    is_well_formed,
    operation,
    places,
    replaced,
    v2,
)

OPEN = "x-apidiscovery-unresolved"


def converted(**fields: Json) -> Json:
    """Return the v3 document of a v2 one, when it is sound."""
    result = convert(v2(**fields))
    assert not dangling(result)
    assert is_valid(result)
    return result


def converted_operation(source: dict[str, Any], **fields: Json) -> Json:
    return converted(paths={"/a": {"post": operation(**source)}}, **fields)["paths"]["/a"]["post"]


def converted_schema(schema: dict[str, Any], **others: Json) -> Json:
    definitions = {"Other": {"type": "object"}, "S": schema, **others}
    return converted(definitions=definitions)["components"]["schemas"]["S"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {"$ref": "#/definitions/Other", "description": "d", "default": {}},
            {
                "description": "d",
                "default": {},
                "allOf": [{"$ref": "#/components/schemas/Other"}],
            },
            id="a reference beside other fields stands within allOf",
        ),
        pytest.param(
            {"$ref": "#/definitions/Other", "allOf": [{"required": ["a"]}]},
            {"allOf": [{"$ref": "#/components/schemas/Other"}, {"required": ["a"]}]},
            id="what allOf has stays",
        ),
        pytest.param(
            {
                "allOf": [{"$ref": "#/definitions/Other"}],
                "anyOf": [{"$ref": "#/definitions/Other"}],
                "oneOf": [{"items": {"$ref": "#/definitions/Other"}, "type": "array"}],
                "not": {"$ref": "#/definitions/Other"},
            },
            {
                "allOf": [{"$ref": "#/components/schemas/Other"}],
                "oneOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Other"}}],
                "anyOf": [{"$ref": "#/components/schemas/Other"}],
                "not": {"$ref": "#/components/schemas/Other"},
            },
            id="references in choices",
        ),
        pytest.param(
            {"type": ["string", "null"]}, {"type": "string", "nullable": True}, id="or null"
        ),
        pytest.param(
            {"type": ["string", "integer"]},
            {"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}]},
            id="one of several types",
        ),
        pytest.param(
            {"type": "array", "items": [{"type": "string"}, {"$ref": "#/definitions/Other"}]},
            {
                "type": "array",
                "items": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Other"}]},
            },
            id="a schema for each item",
        ),
        pytest.param(
            {"type": "object", "discriminator": "kind"},
            {"type": "object", "discriminator": {"propertyName": "kind"}},
            id="discriminator",
        ),
        pytest.param(
            {"$ref": "#/definitions/No"}, {"$ref": "#/components/schemas/No"}, id="unknown"
        ),
        pytest.param({"$ref": "other.json#/X"}, {OPEN: "other.json#/X"}, id="in another document"),
        pytest.param(
            {"$ref": "#/definitions/Deep/properties/a~1b"},
            {"$ref": "#/components/schemas/Deep/properties/a~1b"},
            id="into a definition",
        ),
        pytest.param(
            {"$ref": "#/definitions/Deep/properties/b"},
            {OPEN: "#/components/schemas/Deep/properties/b"},
            id="into a definition that has no such part",
        ),
        pytest.param(
            {"$ref": "#/definitions/a~1b%20c"},
            {"$ref": "#/components/schemas/a_b_c"},
            id="a name that v3 does not allow",
        ),
    ],
)
def test_schemas_say_the_same(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    deep = {"type": "object", "properties": {"a/b": {"type": "string"}}}

    result = converted_schema(schema, Deep=deep, **{"a/b c": {"type": "string"}})

    assert go_json.dumps(result) == go_json.dumps(expected)


def test_references_below_additional_items_are_converted() -> None:
    schema = {"type": "array", "additionalItems": {"$ref": "#/definitions/S"}, "items": {}}

    result: Any = convert(v2(definitions={"S": schema}))

    items = result["components"]["schemas"]["S"]["additionalItems"]
    assert items == {"$ref": "#/components/schemas/S"}


def test_names_that_become_the_same_are_told_apart() -> None:
    names = ["a b", "a/b", "a_b", "a_b_v2"]

    schemas = converted(definitions={name: {"title": name} for name in names})["components"]

    assert {name: schema["title"] for name, schema in schemas["schemas"].items()} == {
        "a_b": "a_b",
        "a_b_v2": "a_b_v2",
        "a_b_v3": "a b",
        "a_b_v4": "a/b",
    }


def test_an_unknown_definition_allows_anything_and_says_so() -> None:
    result = converted(definitions={"S": {"$ref": "#/definitions/No"}})

    assert result["components"]["schemas"]["No"] == {OPEN: "#/definitions/No"}


STRINGS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        pytest.param(
            {"in": "query", "type": "integer", "format": "int32", "default": 5, "enum": [5, 6]},
            {"schema": {"type": "integer", "format": "int32", "default": 5, "enum": [5, 6]}},
            id="all fields of the value",
        ),
        pytest.param(
            {"in": "query", **STRINGS},
            {"style": "form", "explode": False, "schema": STRINGS},
            id="items between commas",
        ),
        pytest.param(
            {"in": "query", "collectionFormat": "multi", **STRINGS},
            {"style": "form", "explode": True, "schema": STRINGS},
            id="each item by itself",
        ),
        pytest.param(
            {"in": "query", "collectionFormat": "pipes", "type": "array", "items": STRINGS},
            {
                "style": "pipeDelimited",
                "explode": False,
                "schema": {"type": "array", "items": STRINGS},
            },
            id="items between pipes",
        ),
        pytest.param(
            {"in": "header", "collectionFormat": "tsv", **STRINGS},
            {"schema": STRINGS, "x-collection-format": "tsv"},
            id="unknown to v3",
        ),
        pytest.param(
            {"in": "query", "type": "string", "allowEmptyValue": True, "x-a": [1]},
            {"allowEmptyValue": True, "schema": {"type": "string"}, "x-a": [1]},
            id="extensions",
        ),
    ],
)
def test_parameters_say_the_same(parameter: dict[str, Any], expected: dict[str, Any]) -> None:
    result = converted_operation({"parameters": [{"name": "p", "description": "d", **parameter}]})

    whole = {"name": "p", "in": parameter["in"], "description": "d", **expected}
    assert result["parameters"] == [whole]


def test_parameters_given_by_reference_stay_references() -> None:
    parameters: dict[str, Json] = {
        "p/1": {"name": "p", "in": "query", "type": "string"},
        "again": {"$ref": "#/parameters/p~11"},
        "body": {"name": "b", "in": "body", "schema": {}},
    }
    given = [{"$ref": "#/parameters/again"}]

    result = converted(paths={"/a": {"get": operation(parameters=given)}}, parameters=parameters)

    there = {"$ref": "#/components/parameters/p_1"}
    assert result["paths"]["/a"]["get"]["parameters"] == [there]
    assert result["components"]["parameters"] == {
        "again": there,
        "p_1": {"name": "p", "in": "query", "schema": {"type": "string"}},
    }


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({}, id="unknown"),
        pytest.param({"p": {"$ref": "#/parameters/p"}}, id="itself"),
        pytest.param(
            {"p": {"$ref": "#/parameters/q"}, "q": {"$ref": "#/parameters/p"}}, id="a circle"
        ),
    ],
)
def test_a_parameter_that_is_not_there_is_named(parameters: dict[str, Any]) -> None:
    given = [{"$ref": "#/parameters/p"}, {"name": "r", "in": "query", "type": "string"}]

    result = converted_operation({"parameters": given}, parameters=parameters)

    assert [parameter["name"] for parameter in result["parameters"]] == ["r"]
    assert result[OPEN] == ["#/parameters/p"]


BODY: dict[str, Any] = {
    "name": "anything",
    "in": "body",
    "description": "d",
    "schema": {"$ref": "#/definitions/D"},
    "x-a": 1,
}
MEDIA = {"schema": {"$ref": "#/components/schemas/D"}}


@pytest.mark.parametrize(
    ("document", "consumes", "expected"),
    [
        pytest.param({}, {"consumes": ["b/b", "a/a"]}, ["a/a", "b/b"], id="of the operation"),
        pytest.param({"consumes": ["c/c"]}, {}, ["c/c"], id="of the document"),
        pytest.param({"consumes": ["c/c"]}, {"consumes": []}, ["*/*"], id="explicitly any"),
        pytest.param({}, {}, ["*/*"], id="of nobody"),
    ],
)
@pytest.mark.parametrize("where", ["in place", "by reference", "of the path"])
def test_a_body_is_the_same_for_all_media_types(
    where: str, document: dict[str, Any], consumes: dict[str, Any], expected: list[str]
) -> None:
    given = [{"$ref": "#/parameters/B"}] if where == "by reference" else [BODY]
    of_path = given if where == "of the path" else []
    path = {
        "post": operation(parameters=[] if of_path else given, **consumes),
        "parameters": of_path,
    }

    result = converted(
        paths={"/a": path},
        definitions={"D": {"type": "object"}},
        parameters={"B": BODY},
        **document,
    )

    assert result["paths"]["/a"]["post"]["requestBody"] == {
        "description": "d",
        "content": dict.fromkeys(expected, MEDIA),
        "x-a": 1,
    }
    assert "parameters" not in result["components"]


def test_a_form_becomes_an_object() -> None:
    fields = [
        {"name": "f", "in": "formData", "type": "file", "description": "d"},
        {"name": "n", "in": "formData", "type": "integer", "required": True},
        {"name": "l", "in": "formData", "type": "array", "items": {"type": "string"}},
        {"name": "q", "in": "query", "type": "string"},
    ]

    result = converted_operation({"parameters": fields})

    media = {
        "schema": {
            "type": "object",
            "required": ["n"],
            "properties": {
                "f": {"description": "d", "type": "string", "format": "binary"},
                "n": {"type": "integer"},
                "l": {"type": "array", "items": {"type": "string"}},
            },
        },
        "encoding": {"l": {"style": "form", "explode": False}},
    }
    assert result["requestBody"] == {"content": {"multipart/form-data": media}, "required": True}
    assert [parameter["name"] for parameter in result["parameters"]] == ["q"]


def test_responses_keep_headers_and_examples() -> None:
    response = {
        "description": "d",
        "schema": {"type": "string"},
        "headers": {"H": {"type": "integer", "description": "h"}},
        "examples": {"a/a": "x", "c/c": "y"},
    }

    result = converted_operation({"produces": ["a/a", "b/b"], "responses": {"200": response}})

    assert result["responses"]["200"] == {
        "description": "d",
        "headers": {"H": {"description": "h", "schema": {"type": "integer"}}},
        "content": {
            "a/a": {"schema": {"type": "string"}, "example": "x"},
            "b/b": {"schema": {"type": "string"}},
            "c/c": {"example": "y"},
        },
    }


def test_responses_given_by_reference_stay_references() -> None:
    responses = {"200": {"$ref": "#/responses/R"}, "default": {"$ref": "#/responses/No"}}

    result = converted(
        paths={"/a": {"get": operation(responses=responses)}},
        produces=["a/a"],
        responses={"R": {"description": "r", "schema": {"type": "string"}}},
    )

    assert result["paths"]["/a"]["get"]["responses"] == {
        "default": {"description": "", OPEN: "#/responses/No"},
        "200": {"$ref": "#/components/responses/R"},
    }
    assert result["components"]["responses"]["R"] == {
        "description": "r",
        "content": {"a/a": {"schema": {"type": "string"}}},
    }


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        pytest.param({"type": "basic"}, {"type": "http", "scheme": "basic"}, id="password"),
        *(
            pytest.param(
                {"type": "oauth2", "flow": old, **dict.fromkeys(urls, "https://a/"), "scopes": {}},
                {
                    "type": "oauth2",
                    "flows": {new: {**dict.fromkeys(urls, "https://a/"), "scopes": {}}},
                },
                id=old,
            )
            for old, new, urls in (
                ("implicit", "implicit", ["authorizationUrl"]),
                ("password", "password", ["tokenUrl"]),
                ("application", "clientCredentials", ["tokenUrl"]),
                ("accessCode", "authorizationCode", ["authorizationUrl", "tokenUrl"]),
            )
        ),
    ],
)
def test_security_is_called_as_in_v3(scheme: dict[str, Any], expected: dict[str, Any]) -> None:
    security: list[Json] = [{"my key": []}]

    result = converted(
        paths={"/a": {"get": operation(security=security)}}, securityDefinitions={"my key": scheme}
    )

    assert result["components"]["securitySchemes"] == {"my_key": expected}
    assert result["paths"]["/a"]["get"]["security"] == [{"my_key": []}]


def test_fields_of_the_document_are_converted() -> None:
    result = converted(
        host="h:1",
        basePath="/b",
        schemes=["https"],
        tags=[{"name": "t"}],
        externalDocs={"url": "https://a/"},
        paths={"x-p": {}, "/a": {"x-i": 2, "get": operation(**{"x-o": 3})}},
        **{"x-d": 4},
    )

    assert result["servers"] == [{"url": "https://h:1/b"}]
    assert (result["tags"], result["externalDocs"]) == ([{"name": "t"}], {"url": "https://a/"})
    assert (result["x-d"], result["paths"]["x-p"]) == (4, {})
    assert (result["paths"]["/a"]["x-i"], result["paths"]["/a"]["get"]["x-o"]) == (2, 3)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"swagger": "3.0"}, "$.swagger: must be '2.0', but is '3.0'"),
        (v2(paths=[]), "$.paths: must be an object, but is a list"),
        (v2(paths={"a": {}}), "$.paths.a: a path must begin with a slash"),
        (
            v2(paths={"/a": {"get": {"responses": {"OK": {}}}}}),
            "$.paths['/a'].get.responses.OK: a response is named by a status code or `default`",
        ),
        (
            v2(paths={"/a": {"get": {"responses": {}}}}),
            "$.paths['/a'].get.responses: an operation must have a response",
        ),
        (
            v2(paths={"/a": {"get": operation(parameters=[{"name": "a", "in": "cookie"}])}}),
            "$.paths['/a'].get.parameters[0].in: 'cookie' is not a place of parameters",
        ),
        (
            v2(definitions={"A": {"properties": {"b": {"maxLength": 1.5}}}}),
            "$.definitions.A.properties.b.maxLength: must be an integer, but is a number",
        ),
        (
            v2(securityDefinitions={"A": {"type": "oauth2", "flow": "ebb"}}),
            "$.securityDefinitions.A.flow: 'ebb' is not a flow of OAuth",
        ),
        (v2(definitions={"A": nested(5000)}), "$: nests deeper than 200 levels"),
    ],
)
def test_errors_have_a_path(document: Json, error: str) -> None:
    with pytest.raises(InvalidOpenAPI) as caught:
        convert(document)

    assert str(caught.value) == error


def test_the_deepest_document_that_is_allowed_can_be_written() -> None:
    result = convert(v2(definitions={"A": nested(197)}))

    assert len(go_json.dumps(result)) > 197


WHOLE = v2(
    consumes=["a/a"],
    paths={
        "/a": {
            "post": operation(
                parameters=[BODY, {"$ref": "#/parameters/P"}],
                tags=["t"],
                security=[{"S": ["s"]}],
                externalDocs={"url": "u"},
            ),
            "parameters": [
                {"name": "f", "in": "formData", "type": "array", "items": {"type": "string"}}
            ],
        }
    },
    definitions={
        "D": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/D"}}},
            "additionalProperties": {"enum": [1], "maximum": 5, "allOf": [{"not": {}}]},
            "dependencies": {"a": ["b"]},
        }
    },
    parameters={"P": {"name": "p", "in": "query", "type": "string", "maxLength": 4}},
    responses={"R": {"description": "", "headers": {"H": {"type": "string"}}, "examples": {}}},
    securityDefinitions={
        "S": {"type": "oauth2", "flow": "password", "tokenUrl": "u", "scopes": {"s": "d"}}
    },
)


@pytest.mark.parametrize(
    "other", [None, True, 5, 1.5, "x", [], {}, [None], [{}], {"a": None}, {"$ref": 5}], ids=repr
)
def test_a_value_of_another_type_is_an_error_or_does_not_matter(other: Json) -> None:
    for path in places(WHOLE):
        found: tuple[str | int, ...] = ()
        try:
            assert not dangling(convert(replaced(WHOLE, path, other))), path
        except InvalidOpenAPI as error:
            found = error.path
        assert found[: len(path)] == path[: len(found)]


NAMES = st.sampled_from(["A", "B", "a b", "a/b", "é"])
REFERENCES = st.builds("#/definitions/{}".format, st.one_of(NAMES, st.just("A/properties/A")))
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.just({"type": "string"}), st.fixed_dictionaries({"$ref": REFERENCES})),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "$ref": REFERENCES,
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "items": st.one_of(inner, st.lists(inner, min_size=1, max_size=2)),
            "additionalProperties": st.one_of(inner, st.booleans()),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "type": st.sampled_from(["object", ["string", "null"], ["null"], ["array", "string"]]),
        },
    ),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, SCHEMAS), SCHEMAS)
def test_every_reference_resolves(definitions: dict[str, Any], schema: Json) -> None:
    response = {"description": "", "schema": schema}
    paths = {"/a": {"get": operation(responses={"200": response})}}

    result = convert(v2(definitions=definitions, paths=paths))

    assert not dangling(result)
    assert is_well_formed(result)


def test_a_shared_body_is_not_repeated_without_limit() -> None:
    body = {"name": "body", "in": "body", "schema": {"description": "x" * 100_000}}
    path = {"post": operation(parameters=[{"$ref": "#/parameters/B"}])}
    paths = {f"/{number}": path for number in range(1000)}

    with pytest.raises(InvalidOpenAPI, match="would grow by more than"):
        convert(v2(parameters={"B": body}, paths=paths))


def test_chains_of_references_take_linear_time() -> None:
    parameters = {f"P{i}": {"$ref": f"#/parameters/P{i + 1}"} for i in range(10_000)}
    given = [{"$ref": "#/parameters/P0"}] * 10_000

    began = process_time()
    result: Any = convert(
        v2(parameters=parameters, paths={"/a": {"get": operation(parameters=given)}})
    )

    assert process_time() - began < 5  # 0.5 s is usual; each chain by itself takes far longer
    assert len(result["paths"]["/a"]["get"][OPEN]) == len(given)
