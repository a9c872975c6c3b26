"""The v2 document that is merged from v3 documents."""

import tracemalloc
from collections.abc import Collection, Iterable, Iterator, Mapping
from time import process_time
from typing import Any, cast

import orjson
import pytest
import zstandard
from apidiscovery_releases import newest
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.body import pack
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.v2 import merge as module
from apidiscovery_service.openapi.v2.merge import Merged
from downgraded import downgrade
from hypothesis import given
from hypothesis import strategies as st
from openapi_documents import (
    PAIRS,
    Json,
    dangling,
    golden,
    is_well_formed,
    operation,
    places,
    replaced,
    v3,
)

INFO = {"title": "Kubernetes", "version": "v1.37.0"}
KINDS = "x-kubernetes-group-version-kind"


def merged(
    documents: Iterable[tuple[str, bytes]],
    info: Mapping[str, str],
    packaged: Collection[str] = (),
) -> Merged:
    """Merge documents that are not compressed."""
    packed = ((key, zstandard.compress(text)) for key, text in documents)
    return module.merged(packed, info, packaged=packaged)


def path_to(definition: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{definition}"}
    content = {"application/json": {"schema": schema}}
    return {"get": operation(responses={"200": {"description": "", "content": content}})}


def document(key: str, definition: str, **schemas: Json) -> tuple[str, bytes]:
    """Return a document whose one path answers with a definition."""
    paths = {f"/{key}/": path_to(definition)}
    return key, go_json.dumps(v3(paths=paths, components={"schemas": schemas}))


def whole(result: Merged) -> Json:
    value = orjson.loads(result.document.unpacked().text)
    assert not dangling(value)
    assert is_well_formed(value)
    assert orjson.dumps(value) == result.document.unpacked().text
    return value


def answer(value: Json, path: str) -> Json:
    """Return the schema of a path's response, with references replaced four levels deep."""
    schema = value["paths"][path]["get"]["responses"]["200"]["schema"]
    return expanded(value, schema, 4)


def expanded(value: Json, schema: Json, levels: int) -> Json:
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Json]", schema)
    if "$ref" in fields and levels:
        name = fields["$ref"].removeprefix("#/definitions/")
        return expanded(value, value["definitions"][name], levels - 1)
    return {
        name: expanded(value, inner, levels) for name, inner in fields.items() if name != "$ref"
    }


def test_bodies_named_as_parameters_get_names_in_linear_time() -> None:
    nothing: Json = {}
    names = ["a" + "_body" * count for count in range(1000)]
    components: Json = {
        "parameters": {name: {"name": "x", "in": "query", "schema": nothing} for name in names},
        "requestBodies": {name: {"content": nothing} for name in names},
    }
    source = v3(components=components)

    began = process_time()
    result: Json = downgrade(source)

    assert process_time() - began < 1
    assert len(result["parameters"]) == 2000


@pytest.mark.parametrize(
    ("taken", "free"), [(["a"], "a_body"), (["a", "a_body"], "a_body2"), (["b"], "a")]
)
def test_a_body_named_as_a_parameter_gets_another_name(taken: list[str], free: str) -> None:
    nothing: Json = {}
    parameter: Json = {"name": "x", "in": "query", "schema": nothing}
    components: Json = {
        "parameters": dict.fromkeys(taken, parameter),
        "requestBodies": {"a": {"content": nothing}},
    }

    result: Json = downgrade(v3(components=components))

    assert result["parameters"].keys() == {*taken, free}


def test_nothing_merges_to_an_empty_document() -> None:
    expected = b'{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.37.0"},"paths":{}}'

    assert merged([], INFO) == Merged(pack(expected), [])


def test_documents_of_kubernetes_merge_without_notes() -> None:
    documents = [(name, go_json.dumps(golden(f"v3_{name}"))) for name in sorted(PAIRS)]

    result = merged(documents, INFO)

    value = whole(result)
    alone: list[Any] = [downgrade(golden(f"v3_{name}")) for name in PAIRS]
    assert not result.notes
    assert value["info"] == INFO
    assert value["paths"] == alone[0]["paths"] | alone[1]["paths"]
    assert value["definitions"].keys() == alone[0]["definitions"].keys() | alone[1]["definitions"]
    assert value["securityDefinitions"] == alone[0]["securityDefinitions"]


def test_the_packaged_documents_are_the_one_that_a_kube_apiserver_serves() -> None:
    info, recorded = newest().openapi_info, newest().openapi_v2

    result = merged([], info, packaged=newest().openapi_hashes)

    assert not result.notes
    assert result.document.unpacked().text == recorded


def test_the_packaged_document_keeps_only_served_paths_and_their_definitions() -> None:
    """Another one of a group-version takes its place, under names that do not clash."""
    name = "io.k8s.api.apps.v1.Deployment"
    of_apps = document("apis/apps/v1", name, **{name: {"description": "another"}})
    lease = "io.k8s.api.coordination.v1.Lease"
    other = document("apis/x.example/v1", lease, **{lease: {"description": "another"}})

    value = whole(merged([of_apps, other], INFO, packaged={"apis/coordination.k8s.io/v1"}))

    roots = {"/".join(path.split("/")[:4]) for path in value["paths"]}
    assert roots == {"/apis/apps/v1", "/apis/coordination.k8s.io/v1", "/apis/x.example/v1"}
    below_apps = [path for path in value["paths"] if path.startswith("/apis/apps/v1/")]
    assert below_apps == ["/apis/apps/v1/"]
    assert answer(value, "/apis/apps/v1/") == {"description": "another"}
    assert answer(value, "/apis/x.example/v1/") == {"description": "another"}
    assert "io.k8s.api.apps.v1.StatefulSet" not in value["definitions"]
    assert "spec" in value["definitions"][lease]["properties"]
    assert f"{lease}_v2" in value["definitions"]


def test_documents_out_of_order_are_refused_as_names_would_depend_on_it() -> None:
    documents = [document(key, "A", A={"title": key}) for key in ("apis/b/v1", "apis/a/v1")]

    with pytest.raises(ValueError, match="'apis/a/v1' comes after that of 'apis/b/v1'"):
        merged(documents, INFO)


def test_one_document_is_in_memory_at_a_time() -> None:
    text = go_json.dumps(v3(paths={"/a": path_to("A")}, info={"title": "x" * 2**20}))
    held = 0

    def documents() -> Iterator[tuple[str, bytes]]:
        nonlocal held
        for number in range(30):
            yield f"apis/{number:02}/v1", bytes(bytearray(text))
            held = max(held, tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        merged(documents(), INFO)
    finally:
        tracemalloc.stop()

    assert held < 10 * 2**20


def test_a_definition_that_differs_gets_another_name() -> None:
    first = document("apis/a/v1", "A", A={"title": "a"})
    second = document("apis/b/v1", "A", A={"title": "b"})
    third = document("apis/c/v1", "A", A={"title": "b"})

    value = whole(merged([first, second, third], INFO))

    assert value["definitions"] == {"A": {"title": "a"}, "A_v2": {"title": "b"}}
    assert answer(value, "/apis/a/v1/") == {"title": "a"}
    assert answer(value, "/apis/b/v1/") == answer(value, "/apis/c/v1/") == {"title": "b"}


def test_a_definition_that_leads_to_another_thing_is_another_one() -> None:
    leads = {"properties": {"b": {"$ref": "#/components/schemas/B"}}}
    back = {"properties": {"a": {"$ref": "#/components/schemas/A"}}}
    first = document("apis/a/v1", "A", A=leads, B={"title": "1", **back})
    second = document("apis/b/v1", "A", A=leads, B={"title": "2", **back})

    value = whole(merged([first, second], INFO))

    assert value["definitions"].keys() == {"A", "B", "A_v2", "B_v2"}
    assert answer(value, "/apis/a/v1/")["properties"]["b"]["title"] == "1"
    assert answer(value, "/apis/b/v1/")["properties"]["b"]["title"] == "2"


def test_a_name_that_a_document_has_itself_is_not_given() -> None:
    first = document("apis/a/v1", "A", A={"title": "a"})
    second = document("apis/b/v1", "A", A={"title": "b"}, A_v2={"title": "c"})

    value = whole(merged([first, second], INFO))

    titles = {name: schema["title"] for name, schema in value["definitions"].items()}
    assert titles == {"A": "a", "A_v2": "c", "A_v3": "b"}


def test_kinds_of_one_definition_are_united() -> None:
    kinds = [{"group": group, "kind": "K", "version": "v1"} for group in ("b", "a", "c")]
    documents = [
        document(f"apis/{i}/v1", "A", A={"type": "object", KINDS: given})
        for i, given in enumerate([kinds[:2], kinds[1:]])
    ]

    value = whole(merged(documents, INFO))

    assert [kind["group"] for kind in value["definitions"]["A"][KINDS]] == ["a", "b", "c"]


def test_the_first_document_with_a_path_wins_with_a_note() -> None:
    paths = [{"/a": path_to(name)} for name in ("A", "B")]
    schemas = {"schemas": {"A": {"title": "a"}, "B": {"title": "b"}}}
    documents = [
        (f"apis/{i}/v1", go_json.dumps(v3(paths=path, components=schemas)))
        for i, path in enumerate(paths)
    ]

    result = merged(documents, INFO)

    assert answer(whole(result), "/a") == {"title": "a"}
    assert result.notes == [
        "apis/1/v1: /a is left out of the v2 document: apis/0/v1 has another one"
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "is not JSON"),
        (b"[]", "$: must be an object, but is a list"),
        (b"{}", "$.openapi: must be a string, but is null"),
        (b'{"openapi":"2.0"}', "$.openapi: must be '3.0.x', but is '2.0'"),
        (b'{"openapi":"3.0.0","paths":{"/a":[]}}', "$.paths['/a']: must be an object"),
        (b'{"openapi":' + b"[" * 500 + b"]" * 500 + b"}", "nests deeper than 200 levels"),
        (
            document("apis/b/v1", "B", A={"title": "b"}, B={KINDS: [{"group": 5}]})[1],
            f"$.components.schemas.B['{KINDS}'][0].group: must be a string",
        ),
    ],
)
def test_an_invalid_document_is_left_out_with_a_note(text: bytes, reason: str) -> None:
    good = document("apis/a/v1", "A", A={"title": "a"})

    result = merged([good, ("apis/b/v1", text)], INFO)

    assert result.document == merged([good], INFO).document
    (note,) = result.notes
    assert note.startswith("apis/b/v1: left out of the v2 document: ")
    assert reason in note


def test_notes_are_bounded() -> None:
    result = merged([(f"{number:03}", b"") for number in range(150)], INFO)

    assert len(result.notes) == 101
    assert result.notes[-1] == "and 50 more"


NAMES = st.sampled_from("ABC")
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.sampled_from("xy"),
        "properties": st.dictionaries(
            NAMES, NAMES.map(lambda name: {"$ref": f"#/components/schemas/{name}"}), max_size=2
        ),
    },
)
DOCUMENTS = st.lists(st.tuples(NAMES, st.dictionaries(NAMES, SCHEMAS, min_size=3)), max_size=4)


@given(DOCUMENTS)
def test_nothing_is_lost(given_documents: list[tuple[str, dict[str, Any]]]) -> None:
    documents = [
        document(f"apis/{number}/v1", name, **schemas)
        for number, (name, schemas) in enumerate(given_documents)
    ]

    result = merged(documents, INFO)

    value = whole(result)
    for key, text in documents:
        alone = downgrade(orjson.loads(text))
        assert answer(value, f"/{key}/") == answer(alone, f"/{key}/")


JSON = {"a/a": {"schema": {"$ref": "#/components/schemas/A"}, "example": 1}}
WHOLE = v3(
    paths={
        "/a": {
            "post": operation(
                parameters=[{"$ref": "#/components/parameters/P"}],
                requestBody={"$ref": "#/components/requestBodies/B"},
                responses={"200": {"$ref": "#/components/responses/R"}},
                security=[{"o": ["s"]}],
            ),
            "put": operation(requestBody={"content": {"multipart/form-data": JSON["a/a"]}}),
        }
    },
    components={
        "schemas": {
            "A": {
                "required": ["p"],
                "properties": {"p": {"nullable": True, "oneOf": [{"type": "string"}]}},
                "discriminator": {"propertyName": "p"},
                "allOf": [{"$ref": "#/components/schemas/A"}],
                KINDS: [{"group": "g", "kind": "K", "version": "v"}],
            }
        },
        "parameters": {"P": {"name": "p", "in": "query", "schema": {"type": "array", "items": {}}}},
        "requestBodies": {"B": {"content": JSON}},
        "responses": {"R": {"description": "", "headers": {"H": {"schema": {}}}, "content": JSON}},
        "securitySchemes": {
            "o": {"type": "oauth2", "flows": {"password": {"tokenUrl": "u", "scopes": {"s": "d"}}}}
        },
    },
)


@pytest.mark.parametrize(
    "other", [None, True, 5, 1.5, "x", [], {}, [None], [{}], {"a": None}, {"$ref": 5}], ids=repr
)
def test_a_value_of_another_type_is_noted_or_does_not_matter(other: Json) -> None:
    for path in places(WHOLE):
        result = merged([("a", go_json.dumps(replaced(WHOLE, path, other)))], INFO)

        text = result.document.unpacked().text
        assert bool(result.notes) == (b'"paths":{}' in text) or other == {}, path
        assert not dangling(orjson.loads(text)), path


def test_a_shared_header_is_not_repeated_without_limit() -> None:
    headers = {"H": {"$ref": "#/components/headers/H"}}
    response = {"200": {"description": "", "headers": headers}}
    paths = {f"/{number}": {"get": operation(responses=response)} for number in range(1000)}
    components = {"headers": {"H": {"description": "x" * 100_000}}}

    with pytest.raises(InvalidOpenAPI, match="would grow by more than"):
        downgrade(v3(paths=paths, components=components))


def test_a_long_chain_of_definitions_is_merged() -> None:
    schemas = {
        f"D{i}": {"properties": {"next": {"$ref": f"#/components/schemas/D{i + 1}"}}}
        for i in range(5000)
    }
    schemas["D5000"] = {}

    result = merged([document("a", "D0", **schemas)], INFO)

    assert len(orjson.loads(result.document.unpacked().text)["definitions"]) == 5001
