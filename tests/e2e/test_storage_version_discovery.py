"""Discovery tells of storage versions while their feature gate is on, and of nothing more."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from apidiscovery_releases import newest
from apidiscovery_service.openapi.validation import validate
from command_line import run
from media_types import JSON_V2
from openapi_documents import dangling, errors, without_empty_defaults
from programs import kubectl
from raw_http import get, request
from repository import GOLDEN
from server import Server, serving

RECORDED = GOLDEN / "builtin"
GATE = ("--feature-gates", "StorageVersionAPI=true")
GROUP, LEASES = "internal.apiserver.k8s.io", "coordination.k8s.io"
WRITES = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
KIND = {"group": "", "version": "", "kind": "StorageVersion"}
# As kube-apiserver publishes them: apiserver pkg/endpoints/discovery/storageversionhash.go.
HASH, LEASE_HASH = "c8YZt5U0nPk=", "gqkMMb/YqFM="


@pytest.fixture(scope="module", name="servers")
def fixture_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Server]]:
    """Return a server for each catalogue, with the gate on."""
    with ExitStack() as stack:
        yield {
            catalog: stack.enter_context(
                serving(tmp_path_factory.mktemp(catalog), "--catalog", catalog, *GATE)
            )
            for catalog in ("kubernetes", "none")
        }


@pytest.fixture(params=["kubernetes", "none"], name="on")
def fixture_on(servers: Mapping[str, Server], request: pytest.FixtureRequest) -> Server:
    return servers[str(request.param)]


def read(server: Server, path: str, accept: str | None = None) -> dict[str, Any]:
    return cast("dict[str, Any]", get(server.http_port, path, accept).json())


def groups(server: Server) -> dict[str, Any]:
    items = read(server, "/apis", JSON_V2)["items"]
    return {item["metadata"]["name"]: item for item in items}


def test_aggregated(on: Server) -> None:
    (version,) = groups(on)[GROUP]["versions"]
    assert (version["version"], version["freshness"]) == ("v1alpha1", "Current")
    assert version["resources"] == [
        {
            "resource": "storageversions",
            "responseKind": KIND,
            "scope": "Cluster",
            "singularResource": "storageversion",
            "verbs": WRITES,
            "subresources": [
                {
                    "subresource": "status",
                    "responseKind": KIND,
                    "verbs": ["get", "patch", "update"],
                }
            ],
        }
    ]
    v1 = groups(on)[LEASES]["versions"][0]
    assert v1["version"] == "v1"
    (leases,) = v1["resources"]
    assert (leases["resource"], leases["scope"]) == ("leases", "Namespaced")
    assert leases["verbs"] == ["get", "list", "watch"]


def test_unaggregated(on: Server) -> None:
    group = read(on, f"/apis/{GROUP}")
    assert group["preferredVersion"]["groupVersion"] == f"{GROUP}/v1alpha1"
    listed = read(on, f"/apis/{GROUP}/v1alpha1")
    resource, status = listed["resources"]
    assert resource == {
        "name": "storageversions",
        "singularName": "storageversion",
        "namespaced": False,
        "kind": "StorageVersion",
        "verbs": WRITES,
        "storageVersionHash": HASH,
    }
    assert (status["name"], status["verbs"]) == (
        "storageversions/status",
        ["get", "patch", "update"],
    )
    (leases,) = read(on, f"/apis/{LEASES}/v1")["resources"]
    assert (leases["namespaced"], leases["storageVersionHash"]) == (True, LEASE_HASH)
    names = [one["name"] for one in read(on, "/apis")["groups"]]
    assert {GROUP, LEASES} <= set(names)


def test_nothing_else_is_different(servers: Mapping[str, Server]) -> None:
    """But that leases cannot be written here."""
    (own,) = [
        group
        for group in json.loads((RECORDED / "apis.v2.json").read_bytes())["items"]
        if group["metadata"]["name"] == GROUP
    ]
    wanted = [*json.loads(newest().aggregated("/apis"))["items"], own]
    found = read(servers["kubernetes"], "/apis", JSON_V2)["items"]
    (leases,) = [
        resource
        for group in wanted
        if group["metadata"]["name"] == LEASES
        for resource in group["versions"][0]["resources"]
    ]
    leases["verbs"] = ["get", "list", "watch"]
    assert found == wanted
    assert groups(servers["none"]).keys() == {GROUP, LEASES}


def test_documents(on: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Valid by two validators, with every path that is served and no other."""
    index = read(on, "/openapi/v3")["paths"]
    key = f"apis/{GROUP}/v1alpha1"
    for path in (key, f"apis/{LEASES}/v1"):
        answer = get(on.http_port, index[path]["serverRelativeURL"])
        assert answer.status == 200
        validate(answer.body)
        document = cast("dict[str, Any]", answer.json())
        assert errors(without_empty_defaults(document)) == []
        assert dangling(document) == []
        if path == key:
            root = f"/{key}/storageversions"
            assert document["paths"].keys() >= {root, f"{root}/{{name}}", f"{root}/{{name}}/status"}
    named = document["paths"]
    assert not [
        path for path, item in named.items() if {"put", "post", "patch", "delete"} & {*item}
    ]
    checked = run(capsys, "openapi", "get", "-s", on.url, f"{GROUP}/v1alpha1")
    assert checked.exit_code == 0, checked.stderr


def test_kubectl(servers: Mapping[str, Server], tmp_path: Path) -> None:
    url = servers["kubernetes"].url

    def call(*args: str) -> str:
        done = kubectl(tmp_path, "--server", url, *args)
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout

    listed = call("api-resources", "-o", "wide", "--api-group", GROUP).splitlines()[1].split()
    assert listed == [
        *("storageversions", f"{GROUP}/v1alpha1", "false", "StorageVersion"),
        ",".join(WRITES),
    ]
    explained = call("explain", "storageversions.status", "--recursive")
    for field in ("commonEncodingVersion", "apiServerID", "servedVersions", "observedGeneration"):
        assert field in explained
    assert "AllEncodingVersionsEqual" in call("explain", "storageversions.status.conditions.type")
    assert "leases" in call("api-resources", "--api-group", LEASES, "-o", "name")


def test_without_the_gate_nothing_is_different(server: Server) -> None:
    """Byte for byte what was recorded of the reference."""
    answer = get(server.http_port, "/apis", JSON_V2)
    recorded = newest().aggregated("/apis")
    assert answer.body == recorded
    for method in ("GET", "POST"):
        answer = request(server.http_port, f"/apis/{GROUP}/v1alpha1/storageversions", method=method)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert get(server.http_port, f"/apis/{LEASES}/v1/leases").status == 404
