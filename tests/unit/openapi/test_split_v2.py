"""Splitting of a v2 document into v3 documents of group-versions."""

from typing import Any

import orjson
import pytest
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.v2 import split as split_module
from apidiscovery_service.openapi.v2.split import document_key, split
from apidiscovery_service.openapi.v2.upgrade import convert
from openapi_documents import (
    PAIRS,
    Json,
    dangling,
    golden,
    golden_text,
    is_well_formed,
    operation,
    v2,
)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/api/", "api"),
        ("/api/v1/", "api/v1"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/log", "api/v1"),
        ("/apis/", "apis"),
        ("/apis/apps/", "apis/apps"),
        ("/apis/apps/v1/", "apis/apps/v1"),
        ("/apis/apps/v1/deployments", "apis/apps/v1"),
        ("/version/", "version"),
        ("/logs/{logpath}", "logs"),
        ("/openid/v1/jwks/", "openid/v1/jwks"),
        ("/.well-known/openid-configuration/", ".well-known/openid-configuration"),
        ("/apis/{group}/v1", "apis"),
        ("/", ""),
        ("/{any}", ""),
    ],
)
def test_paths_belong_to_the_root_that_kubernetes_serves_them_under(path: str, key: str) -> None:
    assert document_key(path) == key


def path_to(definition: str) -> dict[str, Any]:
    schema = {"$ref": f"#/definitions/{definition}"}
    return {"get": operation(responses={"200": {"description": "", "schema": schema}})}


@pytest.mark.parametrize("name", PAIRS)
def test_a_document_of_one_group_version_becomes_the_v3_document_of_kubernetes(name: str) -> None:
    group_version = f"apis/{name.removesuffix('.v1')}/v1"

    assert split(golden(f"v2_{name}")) == {group_version: golden_text(f"v3_{name}")}


def test_each_document_has_the_components_that_it_reaches() -> None:
    a, b = golden("v2_batch.v1"), golden("v2_apiextensions.k8s.io.v1")
    both: Json = {
        **a,
        "paths": a["paths"] | b["paths"],
        "definitions": a["definitions"] | b["definitions"],
    }

    documents = split(both)

    assert list(documents) == ["apis/apiextensions.k8s.io/v1", "apis/batch/v1"]
    assert documents["apis/batch/v1"] == golden_text("v3_batch.v1")
    # Definitions of one name may be those of either document, so only names are compared.
    other = orjson.loads(documents["apis/apiextensions.k8s.io/v1"])
    assert other["components"].keys() == {"schemas", "securitySchemes"}
    expected = golden("v3_apiextensions.k8s.io.v1")["components"]["schemas"].keys()
    assert other["components"]["schemas"].keys() == expected
    assert all(not dangling(orjson.loads(text)) for text in documents.values())


def test_documents_keep_the_fields_of_the_whole() -> None:
    source = v2(
        paths={
            "/version/": path_to("A"),
            "/": path_to("B"),
            "/logs/": {"$ref": "#/paths/~1version~1"},
        },
        definitions={
            "A": {"properties": {"a": {"$ref": "#/definitions/C/properties/a"}}},
            "B": {},
            "C": {"properties": {"a": {"$ref": "#/definitions/A"}}},
        },
        securityDefinitions={"S": {"type": "basic"}},
        tags=[{"name": "t"}],
    )

    documents = split(source)

    assert list(documents) == ["logs", "version"]
    for text in documents.values():
        document = orjson.loads(text)
        assert (document["info"], document["tags"]) == (source["info"], source["tags"])
        assert document["components"]["schemas"].keys() == {"A", "C"}
        assert document["components"]["securitySchemes"].keys() == {"S"}
        assert not dangling(document)
        assert is_well_formed(document)
        assert text == go_json.dumps(document)


def test_a_document_without_paths_is_no_document() -> None:
    assert split(v2(definitions={"A": {}})) == {}


def test_many_definitions_in_a_circle_are_kept() -> None:
    count = 5000
    definitions = {
        f"D{i}": {"properties": {"next": {"$ref": f"#/definitions/D{(i + 1) % count}"}}}
        for i in range(count)
    }

    documents = split(v2(paths={"/version/": path_to("D5")}, definitions=definitions))

    assert len(orjson.loads(documents["version"])["components"]["schemas"]) == count


def test_repeated_components_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_module, "MAX_SPLIT_BYTES", 1_000_000)
    paths = {f"/apis/g{i}/v1/": path_to("A") for i in range(100)}
    source = v2(paths=paths, definitions={"A": {"description": "x" * 20_000}})

    assert len(go_json.dumps(convert(source))) < 100_000
    with pytest.raises(InvalidOpenAPI, match="more than 1000000 bytes together"):
        split(source)
