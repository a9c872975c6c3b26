"""Documents merge into one from which nothing is missing, whatever is called alike."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from apidiscovery_cli.openapi.bundle import Part, bundle
from apidiscovery_cli.openapi.validation import problems
from apidiscovery_client.openapi.json_documents import MAX_DEPTH, UnsoundDocument
from command_line import Outcome
from explained_cluster import real_documents
from fake_api_server import FakeApiServer, openapi_routes
from hypothesis import given
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV30SpecValidator

Ask = Callable[..., Outcome]
Fields = dict[str, Any]

SCHEMA = "#/components/schemas/"
KEYS = ["apis/cert-manager.io/v1", "apis/discovery.k8s.io/v1", "apis/monitoring.coreos.com/v1"]


def part(key: str, schemas: Mapping[str, object], **more: object) -> Part:
    path = {f"/{key}": {"get": {"operationId": key, "responses": response("A")}}}
    components = {"schemas": dict(schemas)}
    base: Fields = {"openapi": "3.0.0", "info": {"title": "t", "version": "v"}, "paths": path}
    return Part(key, {**base, "components": components, **more})


def response(name: str) -> Fields:
    content = {"application/json": {"schema": {"$ref": SCHEMA + name}}}
    return {"200": {"description": "", "content": content}}


def ref(name: str) -> Fields:
    return {"$ref": SCHEMA + name}


def own(found: Part) -> Fields:
    """Return the document of a part to look into, or to alter."""
    return cast("Fields", found.document)


def merged(*parts: Part) -> Fields:
    return cast("Fields", bundle(parts).document)


def followed(document: Fields, value: Any, seen: tuple[str, ...] = ()) -> Any:  # noqa: ANN401
    """Return a value with every reference replaced by what it means, down to cycles."""
    if isinstance(value, list):
        return [followed(document, item, seen) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("Fields", value)
    target = fields.get("$ref")
    if not isinstance(target, str):
        return {key: followed(document, item, seen) for key, item in fields.items()}
    if target in seen:
        return f"cycle of {len(seen) - seen.index(target)}"
    found: Any = document
    for token in target[2:].split("/"):
        found = found[token]
    return followed(document, found, (*seen, target))


def real_parts(keys: Sequence[str]) -> list[Part]:
    documents = real_documents()
    return [Part(key, json.loads(documents[key])) for key in keys]


def test_equal_components_are_there_once() -> None:
    alike = {"A": ref("B"), "B": {"type": "string"}}
    document = merged(part("api/v1", alike), part("apis/g/v1", alike))
    assert document["components"] == {"schemas": alike}
    assert bundle([part("api/v1", alike), part("apis/g/v1", alike)]).conflicts == []


def test_different_component_gets_a_name_and_references_follow() -> None:
    first = part("api/v1", {"A": {"type": "string"}})
    second = part("apis/g/v1", {"A": {"type": "integer"}, "C": {"items": ref("A")}})
    result = bundle([second, first])
    schemas = {"A": {"type": "string"}, "A_v2": {"type": "integer"}, "C": {"items": ref("A_v2")}}
    assert result.document["components"] == {"schemas": schemas}
    paths = json.loads(json.dumps(result.document))["paths"]
    assert paths["/apis/g/v1"]["get"]["responses"] == response("A_v2")
    (conflict,) = result.conflicts
    assert str(conflict).startswith("components.schemas.A differs between api/v1 and ")
    assert conflict.solution.startswith("that of api/v1 keeps its name, that of ")
    assert "is A_v2" in conflict.solution


def test_components_that_refer_to_different_ones_are_different() -> None:
    shared = {"A": ref("B"), "B": ref("C")}
    first = part("api/v1", {**shared, "C": {"type": "string"}})
    second = part("apis/g/v1", {**shared, "C": {"type": "integer"}})
    document = merged(first, second)
    assert document["components"] == {
        "schemas": {
            "A": ref("B"), "A_v2": ref("B_v2"), "B": ref("C"), "B_v2": ref("C_v2"),
            "C": {"type": "string"}, "C_v2": {"type": "integer"},
        }
    }  # fmt: skip


def test_new_name_is_not_one_that_is_taken() -> None:
    first = part("api/v1", {"A": {"type": "string"}, "A_v2": {"type": "boolean"}})
    second = part("apis/g/v1", {"A": {"type": "integer"}})
    components = merged(first, second)["components"]
    assert sorted(components["schemas"]) == ["A", "A_v2", "A_v3"]


names = st.sampled_from("ABC")
schemas = st.dictionaries(
    names,
    st.one_of(
        st.sampled_from(["string", "integer"]).map(lambda kind: {"type": kind}),
        names.map(ref),
        st.tuples(names, names).map(lambda pair: {"allOf": [ref(pair[0]), ref(pair[1])]}),
    ),
    min_size=3,
    max_size=3,
)


@given(st.lists(schemas, min_size=1, max_size=3))
def test_every_document_still_means_the_same_in_any_order(each: list[dict[str, Fields]]) -> None:
    parts = [part(f"apis/g{number}/v1", found) for number, found in enumerate(each)]
    texts = {json.dumps(merged(*order)) for order in permutations(parts)}
    assert len(texts) == 1
    document = json.loads(texts.pop())
    for found in parts:
        path = f"/{found.key}"
        mine = followed(own(found), own(found)["paths"][path])
        assert followed(document, document["paths"][path]) == mine


def test_references_in_data_are_left_alone() -> None:
    tricky: Fields = {
        "type": "object",
        "properties": {"$ref": ref("A"), "default": ref("A"), "x-y": ref("A")},
        "default": ref("A"),
        "enum": [ref("A")],
        "example": ref("A"),
        "x-extension": ref("A"),
    }
    first = part("api/v1", {"A": {"type": "string"}})
    second = part("apis/g/v1", {"A": {"type": "integer"}, "T": tricky})
    components = merged(first, second)["components"]
    new, old = ref("A_v2"), ref("A")
    assert components["schemas"]["T"] == {
        "type": "object",
        "properties": {"$ref": new, "default": new, "x-y": new},
        "default": old,
        "enum": [old],
        "example": old,
        "x-extension": old,
    }


REQUIRED: list[dict[str, list[str]]] = [{"S": []}]


def test_discriminators_and_security_follow_too() -> None:
    one = {"type": "http", "scheme": "basic"}
    first = part("api/v1", {"A": {"type": "string"}})
    own(first)["components"]["securitySchemes"] = {"S": one}
    chosen = {"propertyName": "p", "mapping": {"a": "A", "b": SCHEMA + "A"}}
    second = part("apis/g/v1", {"A": {"discriminator": chosen}}, security=REQUIRED)
    own(second)["components"]["securitySchemes"] = {"S": {**one, "scheme": "bearer"}}
    document = json.loads(json.dumps(merged(first, second)))
    mapping = document["components"]["schemas"]["A_v2"]["discriminator"]["mapping"]
    assert mapping == {"a": "A_v2", "b": SCHEMA + "A_v2"}
    assert document["paths"]["/apis/g/v1"]["get"]["security"] == [{"S_v2": []}]
    assert "security" not in document["paths"]["/api/v1"]["get"]
    assert "security" not in document


def test_operation_ids_and_tags_are_unique() -> None:
    first = part("api/v1", {"A": {}}, tags=[{"name": "t"}])
    second = part("apis/g/v1", {"A": {}}, tags=[{"name": "t"}, {"name": "s"}])
    operation = own(second)["paths"]["/apis/g/v1"]["get"]
    operation["operationId"] = "api/v1"
    operation["responses"]["200"]["links"] = {"self": {"operationId": "api/v1"}}
    result = bundle([first, second])
    document = json.loads(json.dumps(result.document))
    assert document["tags"] == [{"name": "s"}, {"name": "t"}]
    renamed = document["paths"]["/apis/g/v1"]["get"]
    assert renamed["operationId"] == "api/v1_v2"
    assert renamed["responses"]["200"]["links"]["self"]["operationId"] == "api/v1_v2"
    assert result.conflicts[0].problem.startswith("operationId api/v1 is that of get /api/v1 and ")


def test_extensions_of_documents_are_kept_where_they_belong() -> None:
    first = part("api/v1", {}, **{"x-both": 1})
    second = part("apis/g/v1", {}, **{"x-both": 1, "x-own": "why"})
    document = json.loads(json.dumps(merged(first, second)))
    assert document["x-both"] == 1
    assert "x-own" not in document
    assert document["paths"]["/apis/g/v1"]["x-own"] == "why"
    assert "x-own" not in document["paths"]["/api/v1"]


def test_one_path_with_two_meanings_is_an_error() -> None:
    first, second = part("api/v1", {"A": {}}), part("apis/g/v1", {"A": {}})
    own(second)["paths"]["/api/v1"] = {"get": {"responses": {}}}
    with pytest.raises(UnsoundDocument, match="get of /api/v1 differs between api/v1 and apis/g"):
        bundle([first, second])


def test_other_version_of_openapi_is_an_error() -> None:
    with pytest.raises(UnsoundDocument, match="the document of api/v1 is not in OpenAPI 3"):
        bundle([part("api/v1", {}, openapi="3.1.0")])


def messages(document: Mapping[str, object]) -> set[str]:
    return {error.message for error in OpenAPIV30SpecValidator(document).iter_errors()}


def test_bundle_of_real_documents_is_sound() -> None:
    parts = real_parts(KEYS)
    document = merged(*parts)
    assert problems(json.dumps(document).encode()) == []
    paths = document["paths"]
    assert len(paths) == sum(len(own(found)["paths"]) for found in parts)


def test_command_writes_a_file_and_tells_conflicts(
    real: FakeApiServer, ask: Ask, tmp_path: Path
) -> None:
    file = tmp_path / "bundle.json"
    words = ["openapi", "bundle", "cert-manager.io/v1", "discovery.k8s.io/v1", "--output"]
    done = ask(real, *words, str(file))
    assert (done.exit_code, done.stdout) == (0, "")
    assert all(line.startswith("Warning: components.") for line in done.stderr.splitlines())
    assert "that of apis/discovery.k8s.io/v1 is io.k8s.apimachinery" in done.stderr
    assert json.loads(file.read_bytes()) == merged(*real_parts(KEYS[:2]))
    assert list(tmp_path.glob(".*")) == []


def test_command_can_refuse_conflicts(real: FakeApiServer, ask: Ask) -> None:
    words = ["cert-manager.io/v1", "discovery.k8s.io/v1", "--on-conflict", "error"]
    done = ask(real, "openapi", "bundle", *words)
    assert (done.exit_code, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    between = " differs between apis/cert-manager.io/v1 and apis/discovery.k8s.io/v1"
    assert lines
    assert all(line.startswith("error: components.") and line.endswith(between) for line in lines)


def test_yaml_says_the_same(real: FakeApiServer, ask: Ask) -> None:
    text = ask(real, "openapi", "bundle", "discovery.k8s.io/v1", "-o", "yaml").stdout
    assert yaml.safe_load(text) == merged(*real_parts(KEYS[1:2]))


def test_unknown_group_version_is_an_error(real: FakeApiServer, ask: Ask) -> None:
    done = ask(real, "openapi", "bundle", "apps/v9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        'error: the server has no OpenAPI document of "apps/v9";'
        " those that it has are listed by 'apidiscovery openapi get'\n"
    )


def test_format_is_not_taken_for_a_file(real: FakeApiServer, ask: Ask) -> None:
    done = ask(real, "openapi", "bundle", "discovery.k8s.io/v1", "--output", "yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "-o yaml" in done.stderr


def test_file_that_cannot_be_written_is_told_by_its_name(
    real: FakeApiServer, ask: Ask, tmp_path: Path
) -> None:
    file = tmp_path / "none" / "a.json"
    done = ask(real, "openapi", "bundle", "discovery.k8s.io/v1", "--output", str(file))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"error: {file} cannot be written: No such file or directory\n"


def test_another_validator_finds_in_a_bundle_what_it_finds_in_its_parts() -> None:
    parts = real_parts(["apis/apiextensions.k8s.io", "apis/discovery.k8s.io/v1"])
    in_parts = {message for found in parts for message in messages(found.document)}
    assert messages(merged(*parts)) == in_parts


def test_bundle_is_sound_to_another_validator() -> None:
    parts = [part("api/v1", {"A": {"type": "string"}}), part("apis/g/v1", {"A": {"items": {}}})]
    assert messages(merged(*parts)) == set()


def nested(depth: int) -> Part:
    schema: Fields = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return part("api/v1", {"A": schema})


def test_documents_nested_as_deeply_as_is_allowed_can_be_merged(ask: Ask) -> None:
    data = json.dumps(nested(MAX_DEPTH - 5).document).encode()
    with FakeApiServer(openapi_routes({"api/v1": data})) as server:
        for output in ("json", "yaml"):
            assert ask(server, "openapi", "bundle", "-o", output).exit_code == 0
    data = json.dumps(nested(MAX_DEPTH).document).encode()
    with FakeApiServer(openapi_routes({"api/v1": data})) as server:
        done = ask(server, "openapi", "bundle")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is nested more than" in done.stderr
