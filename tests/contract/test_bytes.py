"""Responses equal those of Kubernetes' own handler for the same documents, byte for byte."""

import gzip
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import zstandard
from apidiscovery_releases import newest
from raw_http import RawResponse, get
from repository import GOLDEN
from server import Server, serving
from waiting import WITHIN_S

MIN_COMPRESSED_BYTES = 1024

MEDIA_TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "pb": "application/vnd.kubernetes.protobuf",
}
FORMS = [f"{version}.{suffix}" for version in ("v2", "v2beta1") for suffix in MEDIA_TYPES]


@dataclass(frozen=True, slots=True)
class Case:
    """A document that is compared.

    Attributes:
        server: The name of the server that has it.
        golden: The common start of the files' paths.
    """

    server: str
    path: str
    golden: str

    def etag(self) -> str:
        return '"' + (GOLDEN / f"{self.golden}.etag").read_text().strip().strip('"') + '"'

    def content(self, form: str) -> bytes:
        return (GOLDEN / f"{self.golden}.{form}").read_bytes()


CASES = [
    pytest.param(Case("builtin", "/api", "builtin/api"), id="builtin-api"),
    pytest.param(Case("builtin", "/apis", "builtin/apis"), id="builtin-apis"),
    pytest.param(Case("edge", "/apis", "edge/edge"), id="edge-apis"),
]


def content_type(form: str) -> str:
    version, suffix = form.split(".")
    return f"{MEDIA_TYPES[suffix]};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Return a server of each set of documents, given as manifests."""
    builtin, edge = tmp_path_factory.mktemp("builtin"), tmp_path_factory.mktemp("edge")
    sources = builtin / "manifests"
    sources.mkdir()
    for name in ("api.v2.json", "apis.v2.json"):
        shutil.copy(GOLDEN / "builtin" / name, sources)
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
    with httpx2.Client(http1=False, http2=True, trust_env=False, timeout=WITHIN_S) as client:
        yield client


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
class TestAggregated:
    def test_over_http_1(self, servers: dict[str, Server], case: Case, form: str) -> None:
        accept = content_type(form)
        response = get(servers[case.server].http_port, case.path, accept)
        assert response.body == case.content(form)
        assert response.etag == case.etag()
        assert response.content_type == [accept]

    def test_over_http_2(
        self, servers: dict[str, Server], h2: httpx2.Client, case: Case, form: str
    ) -> None:
        accept = content_type(form)
        response = h2.get(servers[case.server].url + case.path, headers={"accept": accept})
        assert response.http_version == "HTTP/2"
        assert response.content == case.content(form)
        assert response.headers["etag"] == case.etag()
        assert response.headers["content-type"] == accept

    def test_not_modified_over_http_2(
        self, servers: dict[str, Server], h2: httpx2.Client, case: Case, form: str
    ) -> None:
        headers = {"accept": content_type(form), "if-none-match": case.etag()}
        response = h2.get(servers[case.server].url + case.path, headers=headers)
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["etag"] == case.etag()
        assert "content-type" not in response.headers

    @pytest.mark.parametrize("coding", ["gzip", "zstd"])
    def test_compressed(
        self, servers: dict[str, Server], case: Case, form: str, coding: str
    ) -> None:
        accept, content = content_type(form), case.content(form)
        port = servers[case.server].http_port
        response = get(port, case.path, accept, ("Accept-Encoding", coding))
        codings = [coding] if len(content) >= MIN_COMPRESSED_BYTES else []
        assert response.values("content-encoding") == codings
        assert response.values("vary") == ["Accept", *["Accept-Encoding" for _ in codings]]
        assert decoded(response) == content
        assert response.etag == case.etag()


def decoded(response: RawResponse) -> bytes:
    match response.values("content-encoding"):
        case ["gzip"]:
            return gzip.decompress(response.body)
        case ["zstd"]:
            return zstandard.ZstdDecompressor().decompress(response.body)
        case _:
            return response.body


@pytest.mark.parametrize(
    ("path", "accept", "recorded"),
    [
        ("/api", content_type("v2.json"), newest().aggregated("/api")),
        ("/apis", content_type("v2.json"), newest().aggregated("/apis")),
        ("/apis", "application/json", newest().plain("/apis")),
        ("/api/v1", "application/json", newest().plain("/api/v1")),
        ("/apis/apps/v1", "application/json", newest().plain("/apis/apps/v1")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_catalogue_is_what_a_kube_apiserver_answers(
    server: Server, path: str, accept: str, recorded: bytes
) -> None:
    assert get(server.http_port, path, accept).body == recorded


def test_openapi_of_the_catalogue_is_that_of_a_kube_apiserver(server: Server) -> None:
    keys = ("api", "api/v1", "apis/policy", "openid/v1/jwks")
    recorded = {f"v3/{key}": text for key, text in newest().openapi_v3_documents(keys).items()}
    recorded |= {"v3": newest().openapi_index, "v2": newest().openapi_v2}
    for path, text in recorded.items():
        assert get(server.http_port, f"/openapi/{path}", "application/json").body == text


def test_version_is_that_of_the_release_of_the_catalogue(server: Server) -> None:
    """With its fields, and nothing of how it was built."""
    ours: Any = get(server.http_port, "/version").json()
    recorded = newest().version
    assert list(ours) == list(recorded)
    assert f"{ours['major']}.{ours['minor']}" == newest().name
    assert ours["gitVersion"].startswith(f"{recorded['gitVersion']}+apidiscovery-")
    told = ("major", "minor", "emulationMinor", "minCompatibilityMinor")
    assert {name: ours[name] for name in told} == {name: recorded[name] for name in told}
    assert (ours["gitCommit"], ours["buildDate"]) == ("", "1970-01-01T00:00:00Z")
