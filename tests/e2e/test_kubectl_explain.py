"""What kubectl does with documents: with those of this server as with those of the reference."""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import crd_goldens
import programs
import pytest
from apidiscovery_releases import newest
from command_line import Outcome
from fake_api_server import Answer, FakeApiServer
from media_types import JSON_V2
from programs import Kubectl
from raw_http import get
from repository import GOLDEN
from server import Server, serving

PACKAGES = sorted((GOLDEN / "crds" / "manifests").glob("*.gz"))
INDEX = "/openapi/v3"
# Of the group batch alone: kubectl looks into it for kinds that are in no other document.
REFERENCE_V2 = GOLDEN / "openapi-v2-protobuf" / "batch.v1.pb.gz"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Before what kubectl warns of.
LOG_PREFIX = re.compile(r"^W\d{4} [\d:.]+ +\d+ ", re.MULTILINE)


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""
CERTIFICATE = """\
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web}
spec: {secretName: web, dnsNames: [web.example.com], issuerRef: {name: ca}}
"""
ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec: {hostnames: [web.example.com], rules: [{backendRefs: [{name: web, port: 80}]}]}
"""
# What may be wrong with an object is for the server to say: its documents tell kubectl so.
MANIFESTS = {
    "deployment": DEPLOYMENT,
    "invalid deployment": DEPLOYMENT.replace("replicas: 2", "replicas: two"),
    "deployment of an unknown version": DEPLOYMENT.replace("apps/v1", "apps/v7"),
    "certificate": CERTIFICATE,
    "invalid certificate": CERTIFICATE.replace("secretName", "secret"),
    "route": ROUTE,
    "invalid route": ROUTE.replace("port: 80", "port: http"),
    "no kind": ROUTE.replace("kind: HTTPRoute\n", ""),
}

# What kubectl says of those that it cannot even send.
UNUSABLE = ('no matches for kind "Deployment" in version "apps/v7"', "kind not set")


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("packages")
    for package in PACKAGES:
        (folder / package.stem).write_bytes(gzip.decompress(package.read_bytes()))
    with serving(
        tmp_path_factory.mktemp("server"), "--catalog", "kubernetes", "--manifests", str(folder)
    ) as started:
        yield started


def reference_documents() -> dict[str, bytes]:
    """Return the reference's documents by key."""
    own = (key for key in newest().openapi_hashes if key.count("/") == 2)
    made = (f"apis/{group}/{version}" for group, version in crd_goldens.group_versions())
    return {
        **newest().openapi_v3_documents(["api/v1", *own]),
        **{key: crd_goldens.document(key) for key in made},
    }


@pytest.fixture(scope="module", name="reference")
def fixture_reference(server: Server) -> Iterator[FakeApiServer]:
    """Serve the reference's documents with the discovery of ours."""
    documents = reference_documents()
    paths = {key: {"serverRelativeURL": f"{INDEX}/{key}?hash=REFERENCE"} for key in documents}
    routes = {f"{INDEX}/{key}": Answer(body) for key, body in documents.items()}
    routes |= {f"{INDEX}/{key}?hash=REFERENCE": Answer(body) for key, body in documents.items()}
    routes[INDEX] = Answer(json.dumps({"paths": paths}).encode())
    routes["/openapi/v2"] = Answer(gzip.decompress(REFERENCE_V2.read_bytes()), V2_PROTOBUF)
    for path in ("/api", "/apis"):
        answer = get(server.http_port, path, JSON_V2)
        routes[path] = Answer(answer.body, answer.content_type[0])
    with FakeApiServer(routes) as fake:
        yield fake


@pytest.fixture(name="kubectl", scope="module")
def fixture_kubectl(tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Return what runs kubectl against a URL, with a cache for the whole module."""
    folder = tmp_path_factory.mktemp("kubectl")
    return partial(programs.kubectl, folder, "--server")


@pytest.mark.parametrize(
    "arguments",
    [
        *((kind, "--recursive") for kind in ("deployment", "prometheus")),
        ("deployments.spec.strategy.rollingUpdate.maxSurge",),
        ("certificates.cert-manager.io.spec.privateKey", "--recursive"),
        ("application.spec.source.helm.parameters",),
        ("httproute", "--api-version=gateway.networking.k8s.io/v1beta1"),
        ("cronjob.spec.jobTemplate.spec", "--api-version=batch/v1"),
        ("deployment.spec.nothing",),
        ("deployment", "--api-version=apps/v7"),
        ("nothing",),
    ],
    ids=" ".join,
)
def test_explain_prints_what_it_prints_against_the_reference(
    server: Server, reference: FakeApiServer, kubectl: Kubectl, arguments: tuple[str, ...]
) -> None:
    ours = kubectl(server.url, "explain", *arguments)
    assert ours == kubectl(reference.url, "explain", *arguments)
    assert bool(ours.stderr) == bool(ours.exit_code)


@pytest.mark.parametrize(
    "arguments",
    [("deployment.spec",), ("prometheus.spec", "--recursive")],
    ids=" ".join,
)
def test_an_old_explain_tells_of_the_same_fields(
    server: Server, kubectl: Kubectl, arguments: tuple[str, ...]
) -> None:
    """That is how kubectl explained before 1.27, from the document of everything."""
    old = kubectl(server.url, "explain", "--output=plaintext-openapiv2", *arguments)
    new = kubectl(server.url, "explain", *arguments)
    assert (old.exit_code, old.stderr) == (0, "")
    assert fields(old.stdout) == fields(new.stdout)
    assert len(fields(old.stdout)) > 4


def fields(explained: str) -> list[str]:
    """Return the names of fields that kubectl prints, in either of its forms."""
    return re.findall(r"^ +([^ \t]+)\t<", explained, re.MULTILINE)


# Validation.


def test_create_says_what_it_says_against_the_reference(
    server: Server, reference: FakeApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_text("---\n".join(MANIFESTS.values()))

    def outcome(url: str) -> Outcome:
        how = ("--validate=strict", "--dry-run=client", "-f", str(file))
        found = kubectl(url, "create", *how)
        return replace(found, stderr=LOG_PREFIX.sub("", found.stderr))

    ours = outcome(server.url)
    assert ours == outcome(reference.url)
    assert ours.exit_code == 1
    assert ours.stdout.count(" created (dry run)\n") == len(MANIFESTS) - len(UNUSABLE)
    assert [said for said in UNUSABLE if said not in ours.stderr] == []


def downloads(server: Server) -> int:
    """Return how many documents were sent whole."""
    text = get(server.http_port, "/metrics").body.decode()
    return sum(
        int(float(line.split()[-1]))
        for line in text.splitlines()
        if line.startswith("apidiscovery_http_requests_total{")
        and "/openapi/v3/" in line
        and 'code="200"' in line
    )


def test_a_second_explain_downloads_no_document(server: Server, kubectl: Kubectl) -> None:
    before = downloads(server)
    first = kubectl(server.url, "explain", "networkpolicy.spec")
    assert downloads(server) == before + 1
    assert kubectl(server.url, "explain", "networkpolicy.spec") == first
    assert downloads(server) == before + 1


def test_every_kind_can_be_explained(server: Server, kubectl: Kubectl) -> None:
    names = kubectl(server.url, "api-resources", "-o", "name").stdout.split()
    documents = json.loads(get(server.http_port, INDEX).body)["paths"]
    groups = cast("list[dict[str, Any]]", get(server.http_port, "/apis", JSON_V2).json()["items"])
    for group in groups:
        for version in group["versions"]:
            assert f"apis/{group['metadata']['name']}/{version['version']}" in documents
    # Kinds that are only ever sent, such as reviews, are explained too.
    assert len(names) > 90
    for name in [name.partition(".")[0] for name in names][:: len(names) // 3]:
        outcome = kubectl(server.url, "explain", name)
        assert (outcome.exit_code, outcome.stderr) == (0, ""), name
