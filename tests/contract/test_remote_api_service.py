"""A remote APIService beside built-ins and definitions."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from fake_api_server import FakeApiServer, aggregated, document, status
from media_types import JSON_V2, PROTOBUF_V2
from raw_http import get
from server import Server, serving
from waiting import eventually

API_SERVICE = """
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: v1.{name}.example.com}}
spec:
  group: {name}.example.com
  version: v1
  groupPriorityMinimum: 2000
  versionPriority: 20
  service: {{namespace: remote, name: {name}}}
---
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, kind: CronTab}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""

GIZMOS = {
    "resource": "gizmos",
    "scope": "Namespaced",
    "singularResource": "gizmo",
    "verbs": ["get"],
}
LISTED = {
    "name": "gizmos",
    "singularName": "gizmo",
    "namespaced": True,
    "kind": "Gizmo",
    "verbs": ["get"],
}
AGGREGATED_ANSWER = aggregated(
    {
        "metadata": {"name": "new.example.com"},
        "versions": [{"version": "v1", "resources": [GIZMOS], "freshness": "Stale"}],
    }
)


OLD_ANSWERS = {
    "/apis": status(406, "NotAcceptable", "only these: application/json"),
    "/apis/old.example.com/v1": document(
        {"kind": "APIResourceList", "groupVersion": "old.example.com/v1", "resources": [LISTED]}
    ),
}


@dataclass(frozen=True, slots=True)
class Remotes:
    """A server of built-ins, a definition and three APIServices, and two of their servers.

    The third APIService has no server.
    """

    server: Server
    new: FakeApiServer
    old: FakeApiServer


@pytest.fixture(scope="module", name="remotes")
def fixture_remotes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remotes]:
    folder = tmp_path_factory.mktemp("remotes")
    with FakeApiServer({"/apis": AGGREGATED_ANSWER}) as new, FakeApiServer(OLD_ANSWERS) as old:
        urls = {"down": "http://127.0.0.1:1", "new": new.url, "old": old.url}
        manifests, config = folder / "f.yaml", folder / "config.json"
        texts = [API_SERVICE.format(name=name) for name in urls]
        manifests.write_text("".join([*texts, DEFINITION]), encoding="utf-8")
        services = {f"remote/{name}": url for name, url in urls.items()}
        config.write_text(json.dumps({"services": services}), encoding="utf-8")
        flags = ("--catalog", "kubernetes", "--manifests", str(manifests), "--store", "memory")
        with serving(folder, *flags, "--config", str(config)) as server:
            yield Remotes(server, new, old)


def groups(server: Server) -> dict[str, list[dict[str, Any]]]:
    items = cast("list[dict[str, Any]]", get(server.http_port, "/apis", JSON_V2).json()["items"])
    return {item["metadata"]["name"]: item["versions"] for item in items}


def current(server: Server, name: str) -> dict[str, Any]:
    """Wait until the version of a group is current; return it."""

    def look() -> dict[str, Any] | None:
        (version,) = groups(server)[f"{name}.example.com"]
        return version if version["freshness"] == "Current" else None

    return eventually(look, f"{name} is current")


def test_the_versions_of_a_remote_that_is_down_are_stale(remotes: Remotes) -> None:
    server = remotes.server
    names = list(groups(server))
    assert names[0] == "apiregistration.k8s.io"
    assert names[-4:] == [f"{name}.example.com" for name in ("down", "new", "old", "stable")]

    assert groups(server)["down.example.com"] == [{"version": "v1", "freshness": "Stale"}]
    protobuf = get(server.http_port, "/apis", PROTOBUF_V2).body
    assert bytes.fromhex("0a0276311a055374616c65") in protobuf

    missing = get(server.http_port, "/apis/down.example.com/v1")
    assert (missing.status, missing.body) == (503, b"service unavailable\n")
    assert missing.content_type == ["text/plain; charset=utf-8"]
    plain = cast("list[dict[str, Any]]", get(server.http_port, "/apis").json()["groups"])
    assert "down.example.com" in [group["name"] for group in plain]
    assert get(server.http_port, "/readyz").status == 200


def test_a_remote_is_asked_as_kube_aggregator_asks(remotes: Remotes) -> None:
    (resource,) = current(remotes.server, "new")["resources"]
    assert resource["responseKind"] == {"group": "", "version": "", "kind": ""}
    # The list besides, for its storage version hashes.
    assert remotes.new.paths[0] == "/apis"
    assert set(remotes.new.paths) <= {"/apis", "/apis/new.example.com/v1"}
    headers = remotes.new.requests[0].headers
    accepted = headers["accept"].split(",")
    assert accepted[0] == JSON_V2
    assert "application/json" not in accepted
    assert headers["x-remote-user"] == "system:kube-aggregator"
    assert headers["x-remote-group"] == "system:masters"
    assert "authorization" not in headers


def test_an_old_remote_is_read_and_converted(remotes: Remotes) -> None:
    assert current(remotes.server, "old") == {
        "version": "v1",
        "resources": [
            {
                "resource": "gizmos",
                "responseKind": {"group": "", "version": "", "kind": "Gizmo"},
                "scope": "Namespaced",
                "singularResource": "gizmo",
                "verbs": ["get"],
            }
        ],
        "freshness": "Current",
    }
    assert remotes.old.paths[:2] == ["/apis", "/apis/old.example.com/v1"]
    assert remotes.old.requests[1].headers["accept"] == "application/json"
    assert "x-remote-group" not in remotes.old.requests[1].headers
