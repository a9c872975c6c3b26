"""`explain` beyond kubectl: data, invalid documents, imports."""

import json
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import cast

import pytest
from apidiscovery_cli.openapi import schema_walk
from apidiscovery_cli.openapi.explain import Explained, Question, wrap
from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client.model import GroupVersionResource
from apidiscovery_client.openapi.json_documents import KIND_KEY
from command_line import Outcome
from explained_cluster import discovery
from fake_api_server import Answer, FakeApiServer, document
from hypothesis import given
from hypothesis import strategies as st
from programs import python

Ask = Callable[..., Outcome]

RESOURCE = GroupVersionResource("g", "v1", "things")
GVK = {"group": "g", "version": "v1", "kind": "Thing"}
SCHEMA = "#/components/schemas/"


def explained(
    schemas: dict[str, object], path: tuple[str, ...] = (), levels: float = 1
) -> Explained:
    """Return the explanation of the kind with the schema `Thing`."""
    thing = {**cast("dict[str, object]", schemas["Thing"]), KIND_KEY: [GVK]}
    found = {
        "paths": {"/apis/g/v1/things": {"get": {KIND_KEY: GVK}}},
        "components": {"schemas": {**schemas, "Thing": thing}},
    }
    return Explained(found, Question(RESOURCE, path, levels))


def test_json_has_the_fields_as_a_tree(real: FakeApiServer, ask: Ask) -> None:
    done = ask(real, "explain", "wd.spec.tree", "--recursive", "--max-depth=2", "-o", "json")
    found = json.loads(done.stdout)
    assert {key: found[key] for key in ("kind", "field", "type", "description")} == {
        "kind": "Widget", "field": "spec.tree", "type": "Tree", "description": "A tree.",
    }  # fmt: skip
    by_name = {field["name"]: field for field in found["fields"]}
    assert by_name["children"]["type"] == "[]Tree"
    assert by_name["children"]["required"] is True
    (weight,) = by_name["part"]["fields"]
    assert weight == {
        "name": "weight", "type": "number", "required": False, "description": "In grams.",
    }  # fmt: skip


def test_max_depth_ends_the_fields(real: FakeApiServer, ask: Ask) -> None:
    whole = ask(real, "explain", "pods", "--recursive").stdout
    two = ask(real, "explain", "pods", "-R", "--max-depth=2").stdout
    deeper = [line for line in two.splitlines() if line.startswith("      ")]
    assert deeper == []
    assert "    containers\t<[]Container> -required-" in two.splitlines()
    assert len(two) < len(whole)
    assert ask(real, "explain", "pods", "--max-depth=2").exit_code == 2


def test_property_of_any_shape_is_an_object() -> None:
    """Kubectl fails here: `expected schema argument to subtemplate 'typeguess'`."""
    assert "  p\t<Object>\n" in explained({"Thing": {"properties": {"p": {}}}}).text()


CYCLES: dict[str, dict[str, object]] = {
    "items": {"Thing": {"items": {"$ref": SCHEMA + "Thing"}}},
    "allOf": {"Thing": {"allOf": [{"$ref": SCHEMA + "Thing"}] * 2}},
    "each other": {
        "Thing": {"additionalProperties": {"$ref": SCHEMA + "B"}},
        "B": {"items": {"$ref": SCHEMA + "Thing"}},
    },
}


@pytest.mark.parametrize("name", CYCLES)
def test_descriptions_in_a_cycle_are_an_error(name: str) -> None:
    with pytest.raises(DiscoveryError, match="nested more than 128 deep"):
        explained(CYCLES[name]).text()


@pytest.fixture
def few_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_walk, "MAX_VISITS", 10_000)


@pytest.mark.usefixtures("few_visits")
def test_doubling_references_are_an_error() -> None:
    schemas: dict[str, object] = {
        f"S{number}": {"allOf": [{"$ref": f"{SCHEMA}S{number + 1}"}] * 2} for number in range(60)
    }
    with pytest.raises(DiscoveryError, match="schemas are one within another"):
        explained({"Thing": {"allOf": [{"$ref": SCHEMA + "S0"}]}, **schemas}, ("x",)).text()


@pytest.mark.usefixtures("few_visits")
def test_mutual_references_of_many_schemas_are_an_error() -> None:
    names = [f"S{number}" for number in range(12)]
    properties = {name: {"$ref": SCHEMA + name} for name in names}
    schemas: dict[str, object] = {name: {"properties": properties} for name in names}
    with pytest.raises(DiscoveryError, match="schemas are one within another"):
        explained({"Thing": {"properties": properties}, **schemas}, levels=inf).text()


def test_long_description_in_many_places_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_walk, "MAX_CHARACTERS", 1 << 20)
    text = {"description": "x" * (1 << 16)}
    properties = {f"p{number}": text for number in range(17)}
    with pytest.raises(DiscoveryError, match="the descriptions exceed"):
        explained({"Thing": {"properties": properties}}).text()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": []}, "properties is an array, not an object"),
        ({"properties": {"p": 1}}, "p is a number, not an object"),
        ({"items": "x"}, "items is a string, not an object"),
        ({"allOf": {"a": 1}}, "allOf is an object, not an array"),
        ({"allOf": [1]}, "allOf is a number, not an object"),
        ({"description": 1}, "a description is a number, not a string"),
        ({"properties": {"p": {"type": ["string"]}}}, "a type is an array, not a string"),
        ({"properties": {"p": {"enum": "a"}}}, "an enum is not an array"),
        ({"properties": {"p": {"$ref": 7}}}, r"a \$ref is a number, not a string"),
    ],
)
def test_an_invalid_schema_is_an_error(schema: object, said: str) -> None:
    with pytest.raises(DiscoveryError, match=said):
        explained({"Thing": schema}).text()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from([SCHEMA + "Thing", "object"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    ["$ref", "properties", "items", "allOf", "additionalProperties", "enum", "type"]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=10,
    ).filter(lambda value: isinstance(value, dict))
)
def test_any_document_is_explained_or_refused(schema: object) -> None:
    question = explained({"Thing": schema}, levels=3)
    for answer in (question.text, question.data):
        with suppress(DiscoveryError):
            assert answer()


@given(st.text(alphabet="ab \t\n\u00a0\u3000é", max_size=60), st.integers(1, 20))
def test_wrapping_keeps_every_word_and_the_width(text: str, width: int) -> None:
    wrapped = wrap(text, width)
    assert wrapped.split() == text.split()
    for line in wrapped.split("\n"):
        assert len(line) <= width or " " not in line.strip() or len(line.split()[-1]) >= width - 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the OpenAPI document of api/v1 is not JSON"),
        (b"[]", "the OpenAPI document of api/v1 is an array, not an object"),
        (b'{"a":' * 99_999, "the OpenAPI document of api/v1 is nested too deeply"),
        (b"{}", "GVR (/v1, Resource=pods) not found in OpenAPI schema"),
    ],
)
def test_a_body_that_is_no_document_is_an_error(ask: Ask, body: bytes, said: str) -> None:
    index = {"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"}}}
    routes = {"/openapi/v3": document(index), "/openapi/v3/api/v1": Answer(body)}
    with FakeApiServer({**discovery(), **routes}) as server:
        done = ask(server, "explain", "pods")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {said}")


def test_an_unknown_type_is_reported_with_failed_groups(ask: Ask) -> None:
    group: dict[str, object] = {
        "metadata": {"name": "g"},
        "versions": [{"version": "v1", "freshness": "Stale", "resources": []}],
    }
    content = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    stale = document({**content, "items": [group]}, discovery()["/apis"].content_type)
    with FakeApiServer({**discovery(), "/apis": stale}) as server:
        done = ask(server, "explain", "deployments")
    first, second = done.stderr.splitlines()
    assert first.startswith("error: unable to retrieve the complete list of server APIs: g/v1")
    assert second == 'the server doesn\'t have a resource type "deployments"'


def test_explain_starts_without_grpc() -> None:
    done = python(
        "import sys, apidiscovery_cli.commands.explain, apidiscovery_cli.commands.openapi;"
        " print(*{name.partition('.')[0] for name in sys.modules})"
    )
    unwanted = {"grpc", "google", "orjson", "apidiscovery_service"}
    assert unwanted.isdisjoint(done.stdout.split())
    assert "apidiscovery_cli" in done.stdout.split()
