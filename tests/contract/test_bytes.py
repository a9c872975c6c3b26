"""What is served is, byte for byte, what Kubernetes' own handler makes of the same documents."""

import gzip
import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest
import zstandard
from raw_http import RawResponse, get
from server import Server, serving

GOLDEN = Path(__file__).parent.parent / "golden"
CATALOG = files("apidiscovery_service.sources") / "catalog_data"

MEDIA_TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "pb": "application/vnd.kubernetes.protobuf",
}
FORMS = [
    pytest.param(version, suffix, id=f"{version}.{suffix}")
    for version in ("v2", "v2beta1")
    for suffix in MEDIA_TYPES
]
DOCUMENTS = [
    pytest.param("builtin", "/api", "builtin/api", id="builtin-api"),
    pytest.param("builtin", "/apis", "builtin/apis", id="builtin-apis"),
    pytest.param("edge", "/apis", "edge/edge", id="edge-apis"),
]


def content_type(version: str, suffix: str) -> str:
    return f"{MEDIA_TYPES[suffix]};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Return a server of each set of documents, given as manifests and not as the catalogue."""
    builtin, edge = tmp_path_factory.mktemp("builtin"), tmp_path_factory.mktemp("edge")
    sources = builtin / "manifests"
    sources.mkdir()
    for name in ("api.json", "apis.json"):
        (sources / name).write_bytes((CATALOG / name).read_bytes())
    shutil.copy(GOLDEN / "edge" / "edge.json", edge)
    none = ("--catalog", "none", "--manifests")
    with (
        serving(builtin, *none, str(sources)) as of_builtin,
        serving(edge, *none, str(edge / "edge.json")) as of_edge,
    ):
        yield {"builtin": of_builtin, "edge": of_edge}


@pytest.fixture(scope="module")
def h2() -> Iterator[httpx2.Client]:
    """Return a client that speaks HTTP/2 by prior knowledge."""
    with httpx2.Client(http1=False, http2=True, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(("version", "suffix"), FORMS)
@pytest.mark.parametrize(("name", "path", "golden"), DOCUMENTS)
class TestAggregated:
    def test_over_http_1(
        self,
        servers: dict[str, Server],
        name: str,
        path: str,
        golden: str,
        version: str,
        suffix: str,
    ) -> None:
        accept = content_type(version, suffix)
        response = get(servers[name].http_port, path, accept)
        assert response.body == (GOLDEN / f"{golden}.{version}.{suffix}").read_bytes()
        assert response.etag.strip('"') == (GOLDEN / f"{golden}.etag").read_text().strip().strip('"')
        assert response.content_type == [accept]

    def test_over_http_2(
        self,
        servers: dict[str, Server],
        h2: httpx2.Client,
        name: str,
        path: str,
        golden: str,
        version: str,
        suffix: str,
    ) -> None:
        accept = content_type(version, suffix)
        response = h2.get(servers[name].url + path, headers={"accept": accept})
        assert response.http_version == "HTTP/2"
        assert response.content == (GOLDEN / f"{golden}.{version}.{suffix}").read_bytes()
        assert response.headers["etag"] == get(servers[name].http_port, path, accept).etag
        assert response.headers["content-type"] == accept

    @pytest.mark.parametrize("coding", ["gzip", "zstd"])
    def test_compressed(
        self,
        servers: dict[str, Server],
        name: str,
        path: str,
        golden: str,
        version: str,
        suffix: str,
        coding: str,
    ) -> None:
        accept = content_type(version, suffix)
        port = servers[name].http_port
        response = get(port, path, accept, ("Accept-Encoding", coding))
        assert response.values("content-encoding") == [coding]
        assert response.values("vary") == ["Accept", "Accept-Encoding"]
        assert decoded(response) == (GOLDEN / f"{golden}.{version}.{suffix}").read_bytes()
        assert response.etag == get(port, path, accept).etag


def decoded(response: RawResponse) -> bytes:
    if response.values("content-encoding") == ["gzip"]:
        return gzip.decompress(response.body)
    return zstandard.ZstdDecompressor().decompress(response.body)


@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize(("version", "suffix"), FORMS)
def test_the_catalogue_has_the_same_bytes_as_its_documents(
    server: Server, servers: dict[str, Server], path: str, version: str, suffix: str
) -> None:
    accept = content_type(version, suffix)
    ours = get(server.http_port, path, accept)
    theirs = get(servers["builtin"].http_port, path, accept)
    assert (ours.etag, ours.body) == (theirs.etag, theirs.body)


def test_a_list_keeps_the_order_of_its_groups_and_versions(tmp_path: Path) -> None:
    """Neither names nor priorities that Kubernetes gives to its own groups change it."""
    order = ["zoo.example.com", "apps", "batch", "aaa.example.com", "apiregistration.k8s.io"]
    groups = [
        {
            "metadata": {"name": name},
            "versions": [
                {"version": version, "resources": [], "freshness": "Current"}
                for version in ("v1alpha1", "v2", "v1beta1", "v1")
            ],
        }
        for name in order
    ]
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups,
    }
    manifest = tmp_path / "order.json"
    manifest.write_text(json.dumps(document))
    with serving(tmp_path, "--manifests", str(manifest)) as started:
        served = get(started.http_port, "/apis", content_type("v2", "json")).json()
    for item in groups:
        for version in item["versions"]:
            assert isinstance(version, dict)
            del version["resources"]  # an empty list is not written
    assert served == document
