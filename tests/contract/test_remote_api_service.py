"""A remote APIService beside built-ins and definitions."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from fake_api_server import Answer, FakeApiServer, aggregated, document, status
from raw_http import AGG, PBAGG, get
from server import Server, eventually, serving

API_SERVICE = """
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.remote.example.com}
spec:
  group: remote.example.com
  version: v1
  groupPriorityMinimum: 2000
  versionPriority: 20
  service: {namespace: remote, name: server}
---
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
        "metadata": {"name": "remote.example.com"},
        "versions": [{"version": "v1", "resources": [GIZMOS], "freshness": "Stale"}],
    }
)


@pytest.fixture(name="stack")
def fixture_stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(stack: ExitStack, folder: Path, remote: str) -> Server:
    """Serve built-ins, a definition and an APIService whose server is at `remote`."""
    (folder / "f.yaml").write_text(API_SERVICE, encoding="utf-8")
    (folder / "config.yaml").write_text(
        json.dumps({"services": {"remote/server": remote}}), encoding="utf-8"
    )
    flags = ("--catalog", "kubernetes", "--manifests", str(folder / "f.yaml"), "--store", "memory")
    return stack.enter_context(serving(folder, *flags, "--config", str(folder / "config.yaml")))


def nobody() -> str:
    """Return an address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def groups(server: Server) -> dict[str, list[dict[str, Any]]]:
    items = cast("list[dict[str, Any]]", get(server.http_port, "/apis", AGG).json()["items"])
    return {item["metadata"]["name"]: item["versions"] for item in items}


def is_current(server: Server) -> bool:
    return bool(groups(server)["remote.example.com"][0]["freshness"] == "Current")


def test_the_versions_of_a_remote_that_is_down_are_stale(stack: ExitStack, tmp_path: Path) -> None:
    server = started(stack, tmp_path, nobody())
    names = list(groups(server))
    assert names[0] == "apiregistration.k8s.io"
    assert names[-2:] == ["remote.example.com", "stable.example.com"]

    assert groups(server)["remote.example.com"] == [{"version": "v1", "freshness": "Stale"}]
    protobuf = get(server.http_port, "/apis", PBAGG).body
    assert bytes.fromhex("0a0276311a055374616c65") in protobuf

    missing = get(server.http_port, "/apis/remote.example.com/v1")
    assert (missing.status, missing.body) == (503, b"service unavailable\n")
    assert missing.content_type == ["text/plain; charset=utf-8"]
    plain = cast("list[dict[str, Any]]", get(server.http_port, "/apis").json()["groups"])
    assert "remote.example.com" in [group["name"] for group in plain]
    assert get(server.http_port, "/readyz").status == 200


def test_a_remote_is_asked_as_kube_aggregator_asks(stack: ExitStack, tmp_path: Path) -> None:
    remote = stack.enter_context(FakeApiServer({"/apis": AGGREGATED_ANSWER}))
    server = started(stack, tmp_path, remote.url)
    eventually(lambda: is_current(server), 5, "the remote group-version is current")

    # The list besides, for its storage version hashes.
    assert remote.paths[0] == "/apis"
    assert set(remote.paths) <= {"/apis", "/apis/remote.example.com/v1"}
    headers = remote.requests[0].headers
    accepted = headers["accept"].split(",")
    assert accepted[0] == AGG
    assert "application/json" not in accepted
    assert headers["x-remote-user"] == "system:kube-aggregator"
    assert headers["x-remote-group"] == "system:masters"
    assert "authorization" not in headers

    (version,) = groups(server)["remote.example.com"]
    (resource,) = version["resources"]
    assert resource["responseKind"] == {"group": "", "version": "", "kind": ""}


def test_an_old_remote_is_read_and_converted(stack: ExitStack, tmp_path: Path) -> None:
    listed = {"kind": "APIResourceList", "groupVersion": "remote.example.com/v1"}
    routes: dict[str, Answer] = {
        "/apis": status(406, "NotAcceptable", "only these: application/json"),
        "/apis/remote.example.com/v1": document({**listed, "resources": [LISTED]}),
    }
    remote = stack.enter_context(FakeApiServer(routes))
    server = started(stack, tmp_path, remote.url)
    eventually(lambda: is_current(server), 5, "the remote group-version is converted")

    (version,) = groups(server)["remote.example.com"]
    assert version == {
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
    assert remote.paths[:2] == ["/apis", "/apis/remote.example.com/v1"]
    assert remote.requests[1].headers["accept"] == "application/json"
    assert "x-remote-group" not in remote.requests[1].headers
