"""kubectl with every kind of source: built-ins, real CRDs, and another API server that dies."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fake_api_server import Answer, FakeApiServer, aggregated, served_group
from media_types import JSON_V2
from programs import Kubectl
from raw_http import get
from repository import GOLDEN
from server import Serve, Server
from waiting import eventually

PACKAGES = sorted((GOLDEN / "crds" / "manifests").glob("*.gz"))

# After Kubernetes' own groups, all of priority 1000: a list in its own order, then by name.
CUSTOM_GROUPS = [
    "east.example.com",
    "acme.cert-manager.io",
    "argoproj.io",
    "cert-manager.io",
    "gateway.networking.k8s.io",
    "gateway.networking.x-k8s.io",
    "monitoring.coreos.com",
]

POLL_S = 0.2


@pytest.fixture(name="manifests")
def fixture_manifests(tmp_path: Path) -> Path:
    folder = tmp_path / "crds"
    folder.mkdir()
    for package in PACKAGES:
        (folder / package.stem).write_bytes(gzip.decompress(package.read_bytes()))
    assert len(PACKAGES) == 4
    return folder


@pytest.fixture(name="upstream")
def fixture_upstream() -> Iterator[dict[str, Answer]]:
    """Answers of an upstream, to be changed on the way; its address is under the empty path."""
    routes: dict[str, Answer] = {"/apis": aggregated(served_group("east.example.com", "needles"))}
    with FakeApiServer(routes) as fake:
        routes[""] = Answer(fake.url.encode())
        yield routes


def start(serve: Serve, manifests: Path, url: str, folder: Path) -> Server:
    config = folder / "config.yaml"
    config.write_text(f"upstreams: {{east: {{url: '{url}', poll-interval: {POLL_S}s}}}}\n")
    flags = ("--catalog", "kubernetes", "--manifests", str(manifests))
    return serve(*flags, "--config", str(config))


def groups(server: Server, path: str = "/apis") -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", get(server.http_port, path, JSON_V2).json()["items"])


def freshness(server: Server) -> str:
    for group in groups(server):
        if group["metadata"]["name"] == "east.example.com":
            return str(group["versions"][0]["freshness"])
    return ""


def test_kubectl_lists_every_source_and_a_dead_one_as_kube_apiserver_would(
    serve: Serve,
    kubectl: Kubectl,
    manifests: Path,
    upstream: dict[str, Answer],
    tmp_path: Path,
) -> None:
    server = start(serve, manifests, upstream[""].body.decode(), tmp_path)
    eventually(lambda: freshness(server) == "Current", "the upstream is there")

    names = [group["metadata"]["name"] for group in groups(server)]
    assert names[0] == "apiregistration.k8s.io"
    assert names[-len(CUSTOM_GROUPS) :] == CUSTOM_GROUPS
    well = kubectl(server.url, "well", "api-resources", "-o", "name")
    assert (well.exit_code, well.stderr) == (0, "")
    listed = well.stdout.split()
    for name in (
        "deployments.apps",
        "httproutes.gateway.networking.k8s.io",
        "certificates.cert-manager.io",
        "prometheuses.monitoring.coreos.com",
        "applications.argoproj.io",
        "needles.east.example.com",
    ):
        assert name in listed

    upstream["/apis"] = Answer(b"service unavailable\n", "text/plain", 503)
    eventually(lambda: freshness(server) == "Stale", "the upstream is stale")
    assert get(server.http_port, "/readyz").status == 200
    plain = get(server.http_port, "/apis/east.example.com/v1")
    assert (plain.status, plain.body) == (503, b"service unavailable\n")

    with FakeApiServer(as_kube_apiserver_serves_it(server)) as kube_apiserver:
        for arguments in (["api-resources"], ["api-versions"], ["api-resources", "-o", "name"]):
            ours = kubectl(server.url, "ours", *arguments)
            theirs = kubectl(kube_apiserver.url, "theirs", *arguments)
            assert ours == theirs, arguments
        assert "deployments" in ours.stdout


def as_kube_apiserver_serves_it(server: Server) -> dict[str, Answer]:
    """Return the documents of a server with nothing in the Stale group-versions."""
    routes: dict[str, Answer] = {}
    for path in ("/api", "/apis"):
        items = groups(server, path)
        for version in (version for group in items for version in group["versions"]):
            if version["freshness"] == "Stale":
                del version["resources"]
        routes[path] = aggregated(*items)
    return routes
