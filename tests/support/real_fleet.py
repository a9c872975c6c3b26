"""Compares the answers of a real cluster and of its mirror, by path and form."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from command_line import Outcome
from media_types import JSON_V2, JSON_V2BETA1, aggregated_type
from real_cluster import Answer, RealCluster, get
from server import Server

_AGREED_S = 120.0
_PAUSE_S = 0.2

_SERIALIZERS = ("json", "yaml", "vnd.kubernetes.protobuf")
# Accept headers of clients of all releases: client-go, kubectl get --raw, curl, browsers, httpx.
FORMS = (
    *(f"application/{serializer}" for serializer in _SERIALIZERS),
    *(aggregated_type(v, s) for s in _SERIALIZERS for v in ("v2", "v2beta1")),
    f"{JSON_V2},{JSON_V2BETA1},application/json",
    f"{JSON_V2},{JSON_V2BETA1}",
    "application/json, */*",
    "*/*",
    "text/html",
)
_OPENAPI = (
    "application/json",
    "application/com.github.proto-openapi.spec.{}@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.{}.v1.0+protobuf",
    "application/json;q=0.5,*/*",
)
_FIXED = ("/api", "/api/", "/apis", "/apis/", "/version", "/api/v1", "/api/v1/")
_NOT_THERE = ("/api/v9", "/api/v1/nope", "/apis/nope", "/apis/nope/v1", "/apis/apps/v9")

Ask: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Said:
    """The parts of an answer that clients act on."""

    status: int
    etag: str
    content_type: str
    body: bytes

    @classmethod
    def of(cls, answer: Answer) -> "Said":
        """Return the parts of an answer."""
        etag, content_type = (answer.headers.get(n, "") for n in ("etag", "content-type"))
        return cls(answer.status, etag, content_type, answer.body)


def discovery_paths(cluster: RealCluster) -> list[str]:
    """Return every path of discovery of a cluster."""
    found: list[str] = list(_FIXED)
    for group in cluster.get("/apis").json()["groups"]:
        found.append(f"/apis/{group['name']}")
        found += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    return found


def asks(cluster: RealCluster) -> list[Ask]:
    """Return every path of discovery and OpenAPI with every Accept header."""
    paths = (*discovery_paths(cluster), *_NOT_THERE)
    found = [(path, form) for path in paths for form in FORMS]
    documents = cluster.get("/openapi/v3").json()["paths"].values()
    urls = [one["serverRelativeURL"] for one in documents]
    found += [(url, form.format("v3")) for url in urls for form in _OPENAPI]
    return found + [("/openapi/v2", form.format("v2")) for form in _OPENAPI]


class Mirrored:
    """A cluster as a server serves it.

    Args:
        name: The name of the cluster.
        server: The server.
    """

    def __init__(self, name: str, server: Server) -> None:
        self.url = f"{server.url}/clusters/{name}"

    def get(
        self, path: str, accept: str = "application/json", etag: str = "", *, method: str = "GET"
    ) -> Answer:
        """Return the answer."""
        return get(self.url + path, accept, etag=etag, method=method)


def different(mirrored: Mirrored, wanted: Mapping[Ask, Said]) -> list[Ask]:
    """Return the requests whose answers differ from those of a cluster."""
    return [ask for ask, said in wanted.items() if Said.of(mirrored.get(*ask)) != said]


def agreed(cluster: RealCluster, mirrored: Mirrored) -> dict[Ask, Said]:
    """Wait until a cluster and its mirror have the same answers; return these."""
    deadline, found = time.monotonic() + _AGREED_S, dict[Ask, Said]()
    while True:
        left = [ask for ask in asks(cluster) if ask not in found]
        for ask in left:
            theirs = Said.of(cluster.get(*ask))
            if Said.of(mirrored.get(*ask)) == theirs:
                found[ask] = theirs
        is_same = cluster.get("/openapi/v3").body == mirrored.get("/openapi/v3").body
        if is_same and len(found) == len(set(left) | found.keys()):
            return found
        if time.monotonic() > deadline:
            text = "\n".join(map(str, _shown(cluster, mirrored, set(left) - found.keys())))
            pytest.fail(f"not within {_AGREED_S} s: {mirrored.url} answers as the cluster\n{text}")
        time.sleep(_PAUSE_S)


def _shown(
    cluster: RealCluster, mirrored: Mirrored, left: Iterable[Ask]
) -> Iterable[tuple[object, ...]]:
    for ask in sorted(left)[:10]:
        both = Said.of(cluster.get(*ask)), Said.of(mirrored.get(*ask))
        for said in both:
            yield (*ask, said.status, said.etag, said.content_type, len(said.body), said.body[:80])


EXPLAINED = ("explain pods.spec.containers", "explain deployments --recursive")


def printed(outcome: Outcome) -> tuple[int, str]:
    """Return exit code and output of a command."""
    return outcome.exit_code, outcome.stdout
