"""Clusters side by side, by a real server: as JSON, in views, and for kubectl."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest
from fake_api_server import Answer, FakeApiServer, aggregated, served_group
from media_types import JSON_V2
from programs import Kubectl
from raw_http import get
from server import Server, serving
from waiting import eventually

DOWN = Answer(b"try again later\n", "text/plain", 503)


def document(name: str, kind: str, told: str) -> bytes:
    schema = {
        "description": told,
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": name, "version": "v1", "kind": kind}],
    }
    path = f"/apis/{name}/v1/{kind.lower()}s"
    of = {"group": name, "version": "v1", "kind": kind}
    operation = {"x-kubernetes-group-version-kind": of, "x-kubernetes-action": "list"}
    return json.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": "made up", "version": "v1"},
            "paths": {path: {"get": {**operation, "responses": {"200": {"description": "OK"}}}}},
            "components": {"schemas": {f"test.{kind}": schema}},
        }
    ).encode()


def cluster(told: str, *groups: dict[str, Any], release: str) -> dict[str, Answer]:
    """Return the answers of a cluster with a kind Shared, which its document describes."""
    content = document("shared.test", "Shared", told)
    index = {"paths": {"apis/shared.test/v1": {"serverRelativeURL": "/openapi/v3/shared?hash=1"}}}
    version = json.dumps({"major": "1", "minor": "36", "gitVersion": release}).encode()
    return {
        "/api": aggregated(served_group("", "pods")),
        "/apis": aggregated(served_group("shared.test", "shareds"), *groups),
        "/version": Answer(version),
        "/openapi/v3": Answer(json.dumps(index).encode()),
        "/openapi/v3/shared": Answer(content),
    }


@pytest.fixture(scope="module", name="clusters")
def fixture_clusters() -> Iterator[dict[str, FakeApiServer]]:
    east = cluster("As east tells it.", served_group("own.test", "owns"), release="v1.36.2")
    west = cluster("As west tells it.", release="v1.31.0")
    with FakeApiServer(east) as first, FakeApiServer(west) as second:
        yield {"east": first, "west": second}


@pytest.fixture(scope="module", name="server")
def fixture_server(
    clusters: dict[str, FakeApiServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("fleet")
    config = {
        "store": "memory",
        "upstreams": {
            name: {"url": each.url, "poll-interval": "200ms"} for name, each in clusters.items()
        },
        "views": {"none": {"of": "union", "clusters": "region=none"}},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with serving(folder, "--config", str(folder / "config.json")) as server:
        eventually(lambda: states(server) == ["Current", "Current"], "both are read")
        yield server


def columns(server: Server) -> list[dict[str, Any]]:
    found = get(server.http_port, "/fleet/clusters").json()["clusters"]
    return cast("list[dict[str, Any]]", found)


def states(server: Server) -> list[str]:
    return [column["freshness"] for column in columns(server)]


def kinds(server: Server, query: str = "") -> dict[str, str]:
    found = get(server.http_port, f"/fleet/matrix{query}").json()["rows"]
    return {row["kind"]: row["agreement"] for row in cast("list[dict[str, Any]]", found)}


def served(server: Server, view: str) -> list[str]:
    items = get(server.http_port, f"/views/{view}/apis", JSON_V2).json()["items"]
    return [item["metadata"]["name"] for item in cast("list[dict[str, Any]]", items)]


def test_the_fleet_is_served_side_by_side(server: Server) -> None:
    assert kinds(server) == {"Pod": "Same", "Own": "Different", "Shared": "Same"}
    assert kinds(server, "?different=true") == {"Own": "Different"}
    eventually(
        lambda: [each.get("version") for each in columns(server)] == ["v1.36.2", "v1.31.0"],
        "the releases are known",
    )
    assert served(server, "union") == ["shared.test", "own.test"]
    assert served(server, "common") == ["shared.test"]
    assert served(server, "none") == []
    version = get(server.http_port, "/views/union/version").json()
    assert version["gitVersion"] == "v1.31.0"


def documents(server: Server, view: str) -> object:
    return get(server.http_port, f"/views/{view}/openapi/v3").json()["paths"]


def test_kubectl_reads_a_view(server: Server, kubectl: Kubectl) -> None:
    for view, names in (
        ("union", {"pods", "owns.own.test", "shareds.shared.test"}),
        ("common", {"pods", "shareds.shared.test"}),
    ):
        url = f"{server.url}/views/{view}"
        listed = kubectl(url, view, "api-resources", "-o", "name")
        assert listed.exit_code == 0, listed.stderr
        assert set(listed.stdout.split()) == names
        eventually(partial(documents, server, view), "a document is read")
        told = kubectl(url, view, "explain", "shared")
        assert told.exit_code == 0, told.stderr
        assert "As east tells it." in told.stdout


def test_a_change_is_seen_and_a_failure_empties_nothing(
    server: Server, clusters: dict[str, FakeApiServer]
) -> None:
    """Last of this file: it changes a cluster."""
    etag = get(server.http_port, "/fleet/matrix").etag
    answers = cast("dict[str, Answer]", clusters["west"].answers)
    shared, new = served_group("shared.test", "shareds"), served_group("new.test", "news")
    clusters["west"].answers = {**answers, "/apis": aggregated(shared, new)}
    eventually(lambda: "New" in kinds(server), "the new kind is in the matrix")
    assert get(server.http_port, "/fleet/matrix").etag != etag
    assert "new.test" in served(server, "union")

    clusters["west"].answers = DOWN
    eventually(lambda: states(server) == ["Current", "Stale"], "one is stale")
    west = columns(server)[1]
    assert west["since"]
    assert "503" in west["reason"]
    assert kinds(server)["New"] == "Different"
    assert served(server, "union") == ["shared.test", "new.test", "own.test"]
