"""The documents of paths that belong to no version."""

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from apidiscovery_service.openapi import server_paths
from openapi_checks import errors, read_sound, without_empty_defaults

GOLDEN = Path(__file__).parents[1] / "golden" / "crds" / "openapi"


def golden(name: str) -> dict[str, Any]:
    text = gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes())
    return without_empty_defaults(orjson.loads(text))  # type: ignore[return-value]  # of an object


def as_generic_server(text: bytes) -> object:
    """Return a document as a server without authentication and of no product publishes it."""
    document = orjson.loads(text)
    document["info"] = {"title": "Generic API Server", "version": "1.34"}
    del document["components"]["securitySchemes"]
    for item in document["paths"].values():
        del item["get"]["responses"]["401"]
    return without_empty_defaults(document)


def test_version_is_described_as_by_kubernetes() -> None:
    text = server_paths.version_document()
    assert as_generic_server(text) == golden("version")
    assert list(orjson.loads(text)) == list(golden("version"))


def _with_plain_items(schema: dict[str, Any]) -> None:
    """Turn items that are wrapped references into the references."""
    for field in schema.get("properties", {}).values():
        items = field.get("items", {})
        if "allOf" in items:
            field["items"] = items["allOf"][0]
        if "allOf" in field:
            field.pop("default", None)


def test_a_group_is_described_as_by_kubernetes() -> None:
    ours: Any = as_generic_server(server_paths.group_document("apiextensions.k8s.io"))
    theirs = golden("apis__apiextensions.k8s.io")
    for document in (ours, theirs):
        for schema in document["components"]["schemas"].values():
            _with_plain_items(schema)
    assert ours == theirs


@pytest.mark.parametrize(
    ("text", "path", "operation_id", "tag", "schema"),
    [
        (server_paths.api_document(), "/api/", "getCoreAPIVersions", "core", "APIVersions"),
        (server_paths.apis_document(), "/apis/", "getAPIVersions", "apis", "APIGroupList"),
        (server_paths.group_document("apps"), "/apis/apps/", "getAppsAPIGroup", "apps", "APIGroup"),
        (
            server_paths.group_document("flowcontrol.apiserver.k8s.io"),
            "/apis/flowcontrol.apiserver.k8s.io/",
            "getFlowcontrolApiserverAPIGroup",
            "flowcontrolApiserver",
            "APIGroup",
        ),
        (server_paths.version_document(), "/version/", "getCodeVersion", "version", "Info"),
    ],
)
def test_documents_have_one_operation(
    text: bytes, path: str, operation_id: str, tag: str, schema: str
) -> None:
    document = read_sound(text)
    assert document["info"] == {"title": "Kubernetes", "version": "unversioned"}
    assert list(document["paths"]) == [path]
    get = document["paths"][path]["get"]
    assert (get["operationId"], get["tags"]) == (operation_id, [tag])
    answer = get["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer["$ref"].rpartition(".")[2] == schema


def test_the_check_finds_what_is_wrong() -> None:
    assert errors({"openapi": "3.0.0", "info": {}, "paths": {}})
