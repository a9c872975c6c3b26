"""Who may read about which cluster: what one may not see is nowhere, over HTTP and gRPC."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
import httpx2
import pytest
from apidiscovery.service.v1 import (
    discovery_pb2,
    discovery_pb2_grpc,
    history_pb2,
    history_pb2_grpc,
)
from certificates import Authority
from fake_api_server import FakeApiServer, aggregated, served_group
from media_types import JSON_V2
from server import Server, serving
from waiting import WITHIN_S, eventually

TOKENS = {"rita": "secret-of-rita", "ada": "secret-of-ada", "eve": "secret-of-eve"}
GRANTS = [
    {"role": "reader", "users": ["rita"], "clusters": ["east", "shared-*"]},
    {"role": "reader", "users": ["eve"], "clusters": []},
    {"role": "admin", "users": ["ada"]},
]
# Each cluster has a group that only it has.
CLUSTERS = {"east": "eastern.test", "west": "western.test", "shared-1": "shared.test"}
HIDDEN = ("west", "western.test")

PATHS = (
    "/",
    "/api",
    "/apis",
    "/apis/western.test",
    "/apis/western.test/v1",
    "/clusters",
    "/clusters/",
    "/clusters/west",
    "/clusters/west/api",
    "/clusters/west/apis",
    "/clusters/west/apis/western.test/v1",
    "/clusters/west/apis?at=2026-11-20T10:00:00Z",
    "/clusters/west/openapi/v2",
    "/clusters/west/openapi/v3",
    "/clusters/west/schemas",
    "/clusters/west/schemas/",
    "/clusters/west/schemas/?at=2026-11-20T10:00:00Z",
    "/clusters/west/schemas/western.test/thing_v1.json",
    "/clusters/west/version",
    "/fleet",
    "/fleet/clusters",
    "/fleet/clusters?labelSelector=side%3Dwest",
    "/fleet/matrix",
    "/fleet/matrix?group=western.test",
    "/fleet/matrix?kind=western",
    "/fleet/matrix?different=true",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz?verbose",
    "/metrics",
    "/schemas/",
    "/version",
    "/views",
    "/views/common/apis",
    "/views/union/apis",
    "/views/union/apis/western.test/v1",
    "/views/union/openapi/v3",
    "/views/union/openapi/v3/apis/western.test/v1",
    "/views/union/openapi/v2",
    "/views/by-side/apis",
    "/views/by-side/schemas/",
    "/views/union/schemas/",
    "/views/union/schemas/western.test/thing_v1.json",
)


@dataclass(frozen=True, slots=True)
class Served:
    """A running server, the authority of its certificate, and a client that trusts it."""

    server: Server
    authority: Authority
    client: httpx2.Client

    def get(self, path: str, who: str, **headers: str) -> httpx2.Response:
        url = f"https://127.0.0.1:{self.server.http_port}{path}"
        credentials = {"Authorization": f"Bearer {TOKENS[who]}", "Accept": JSON_V2}
        return self.client.get(url, headers={**credentials, **headers})

    def channel(self) -> grpc.Channel:
        credentials = grpc.ssl_channel_credentials(self.authority.ca_file.read_bytes())
        return grpc.secure_channel(self.server.grpc, credentials)


@pytest.fixture(scope="module", name="served")
def fixture_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("roles")
    authority = Authority(folder / "ca")
    pair = authority.server(["127.0.0.1"])
    tokens = [f"{token},{user},{user}\n" for user, token in TOKENS.items()]
    (folder / "tokens.csv").write_text("".join(tokens))
    with ExitStack() as stack:
        upstreams = {
            name: {
                "url": stack.enter_context(FakeApiServer(_routes(own))).url,
                "labels": {"side": name.partition("-")[0]},
            }
            for name, own in CLUSTERS.items()
        }
        by_side = {"of": "union", "clusters": "side in (east, west)"}
        config = {
            "upstreams": upstreams,
            "access": GRANTS,
            "views": {"by-side": by_side},
            "tls-cert-file": str(pair.cert_file),
            "tls-private-key-file": str(pair.key_file),
            "token-auth-file": str(folder / "tokens.csv"),
        }
        path = folder / "config.json"
        path.write_text(json.dumps(config))
        flags = ("--store", "memory", "--config", str(path))
        server = stack.enter_context(serving(folder, *flags))
        trusting = authority.trusted()
        client = stack.enter_context(httpx2.Client(verify=trusting, timeout=WITHIN_S))
        served = Served(server, authority, client)
        eventually(lambda: _all_known(served), "every cluster is known")
        yield served


def _routes(own: str) -> dict[str, Any]:
    return {"/apis": aggregated(*(served_group(name, "things") for name in (own, "common.test")))}


def _all_known(served: Served) -> bool:
    body = served.get("/views/union/apis", "ada").text
    return all(name in body for name in CLUSTERS.values())


@pytest.mark.parametrize("path", PATHS)
def test_what_one_may_not_read_about_is_nowhere(served: Served, path: str) -> None:
    """An answer may repeat the path of the request, and has nothing else of that cluster."""
    for accept in (JSON_V2, "application/json", "application/yaml", "*/*"):
        answer = served.get(path, "rita", Accept=accept)
        text = f"{answer.text} {dict(answer.headers)}"
        unasked = text.replace(path, "").replace(path.partition("?")[0], "")
        assert [name for name in HIDDEN if name in unasked] == [], accept


def test_an_admin_reads_about_all(served: Served) -> None:
    assert served.get("/clusters/west/apis", "ada").status_code == 200
    assert served.get("/clusters/west/apis", "rita").status_code == 404
    assert served.get("/clusters/east/apis", "rita").status_code == 200
    assert "western.test" in served.get("/views/union/apis", "ada").text
    assert "western.test" in served.get("/views/by-side/apis", "ada").text
    names = [one["name"] for one in served.get("/fleet/clusters", "rita").json()["clusters"]]
    assert names == ["east", "shared-1"]
    names = [one["name"] for one in served.get("/fleet/clusters", "ada").json()["clusters"]]
    assert names == ["east", "shared-1", "west"]


def test_a_hidden_cluster_is_as_one_that_is_not_there(served: Served) -> None:
    for rest in ("", "/apis", "/apis/western.test/v1", "/version", "/openapi/v3", "/apis?at=x"):
        hidden = served.get(f"/clusters/west{rest}", "rita")
        unknown = served.get(f"/clusters/nope{rest}", "rita")
        assert (hidden.status_code, hidden.content) == (unknown.status_code, unknown.content), rest
        for answer in (hidden, unknown):
            del answer.headers["date"]
        assert hidden.headers == unknown.headers


def test_a_cluster_that_some_may_not_read_about_is_not_merged(served: Served) -> None:
    for who in ("rita", "ada", "eve"):
        assert served.get("/apis", who).json()["items"] == []


def test_what_was_merged_is_told_only_to_those_who_read_about_every_cluster(
    served: Served,
) -> None:
    # Grants may have been others then. Twice: an answer for one is not repeated to another.
    now = datetime.now(UTC).isoformat()
    for path in (f"/apis?at={now}", f"/api?at={now}"):
        for _ in range(2):
            assert served.get(path, "ada").status_code == 200
            for who in ("rita", "eve"):
                refused = served.get(path, who)
                assert refused.status_code == 403
                assert "want a path below /clusters/NAME" in refused.json()["message"]


def test_a_caller_without_clusters_reads_about_none(served: Served) -> None:
    assert served.get("/fleet/clusters", "eve").json()["clusters"] == []
    assert served.get("/fleet/matrix", "eve").json()["rows"] == []
    assert served.get("/clusters/east/apis", "eve").status_code == 404


def test_answers_are_not_shared_between_callers_who_see_different_clusters(
    served: Served,
) -> None:
    for path in ("/fleet/matrix", "/fleet/clusters", "/views/union/apis"):
        first = [served.get(path, who) for who in ("ada", "rita", "ada", "eve", "rita")]
        assert first[0].content == first[2].content
        assert first[1].content == first[4].content
        assert len({first[0].content, first[1].content}) == 2
        tag = {"If-None-Match": first[0].headers["etag"]}
        assert served.get(path, "ada", **tag).status_code == 304
        assert served.get(path, "rita", **tag).status_code == 200


def test_sources_of_hidden_clusters_are_not_listed(served: Served) -> None:
    with served.channel() as channel:
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)

        def sources(who: str) -> set[str]:
            metadata = (("authorization", f"Bearer {TOKENS[who]}"),)
            answer = stub.ListSources(discovery_pb2.ListSourcesRequest(), metadata=metadata)
            return {one.name for one in answer.sources}

        assert {"upstream:east", "upstream:west"} <= sources("ada")
        assert "upstream:west" not in sources("rita")
        assert not {name for name in sources("eve") if name.startswith("upstream:")}


def test_the_history_of_hidden_clusters_is_hidden(served: Served) -> None:
    with served.channel() as channel:
        stub = history_pb2_grpc.HistoryServiceStub(channel)

        def clusters(who: str, *names: str) -> set[str]:
            metadata = (("authorization", f"Bearer {TOKENS[who]}"),)
            request = history_pb2.ListChangesRequest(
                selection=history_pb2.HistorySelection(clusters=names)
            )
            answer = stub.ListChanges(request, metadata=metadata)
            return {one.cluster for one in answer.changes}

        def seen_by_ada() -> bool:
            return {"east", "west", "shared-1"} <= clusters("ada")

        eventually(seen_by_ada, "every cluster is remembered")
        assert clusters("rita") - {""} == {"east", "shared-1"}
        assert clusters("rita", "west") == set()
        assert clusters("eve") - {""} == set()
        request = history_pb2.GetAtRequest(cluster="west")
        request.time.GetCurrentTime()
        metadata = (("authorization", f"Bearer {TOKENS['rita']}"),)
        with pytest.raises(grpc.RpcError) as caught:
            stub.GetAt(request, metadata=metadata)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        # As for a name that never was.
        assert caught.value.details() == "the history has nothing of cluster west"
        with pytest.raises(grpc.RpcError) as caught:
            stub.ListChanges(history_pb2.ListChangesRequest())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
