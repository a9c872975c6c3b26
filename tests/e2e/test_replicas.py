"""Several servers on one etcd: the same bytes everywhere, one poller, nothing lost."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest
from apidiscovery.service.v1 import registry_pb2, registry_pb2_grpc
from crd_manifests import simple
from etcd import EtcdServer
from fake_api_server import Answer, FakeApiServer, aggregated, served_group
from media_types import JSON_V2
from metrics_text import total
from raw_http import RawResponse, get
from server import Serve, Server
from waiting import WITHIN_S, eventually

# The lease of a claim, and what finding out and taking over may take besides.
TAKEOVER_S = 30.0
VISIBLE_S = 15.0


@pytest.fixture(name="etcd")
def fixture_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path / "etcd") as etcd:
        yield etcd


@pytest.fixture(name="routes")
def fixture_routes() -> dict[str, Answer]:
    """What the upstream answers, to be changed on the way."""
    return {"/apis": aggregated(served_group("east.example.com", "ones"))}


def apply(server: Server, *plurals: str) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = registry_pb2_grpc.RegistryServiceStub(channel)
        crds = [simple(plural, "example.com", kind=plural.capitalize()) for plural in plurals]
        manifests = [
            registry_pb2.ApplyRequest.Manifest(content=json.dumps(crd).encode()) for crd in crds
        ]
        stub.Apply(registry_pb2.ApplyRequest(manifests=manifests), timeout=WITHIN_S)


def document(server: Server) -> RawResponse:
    return get(server.http_port, "/apis", JSON_V2)


def served(server: Server) -> dict[str, str]:
    """Return the resources and the freshness of each group that a server has."""
    items = json.loads(document(server).body)["items"]
    return {
        item["metadata"]["name"]: ",".join(
            [
                *(r["resource"] for v in item["versions"] for r in v.get("resources", [])),
                *(v["freshness"] for v in item["versions"] if v["freshness"] != "Current"),
            ]
        )
        for item in items
    }


def shows(server: Server, resource: str) -> bool:
    return any(resource in text.split(",") for text in served(server).values())


def agree(servers: list[Server]) -> bool:
    return len({document(server).etag for server in servers}) == 1


def replicas(serve: Serve, etcd: EtcdServer, *flags: str, count: int = 3) -> list[Server]:
    store = f"etcd://{etcd.endpoint}/replicas"
    return [serve("--catalog", "none", "--store", store, *flags) for _ in range(count)]


def polls(server: Server) -> float:
    """Return how often a server has asked its upstreams."""
    return total(server.http_port, "apidiscovery_upstream_polls_total")


def pollers(servers: list[Server]) -> list[Server]:
    return [server for server in servers if polls(server)]


def everywhere(servers: list[Server], resource: str, within_s: float) -> None:
    for server in servers:
        eventually(partial(shows, server, resource), f"{resource} on {server.http}", within_s)


def test_one_replica_polls_and_when_it_hangs_or_dies_another_does_and_all_come_back(
    serve: Serve, etcd: EtcdServer, routes: dict[str, Answer]
) -> None:
    """One that hung finds that another has taken over, and cannot overwrite what came after."""
    with FakeApiServer(routes) as upstream:
        flags = ("--upstream", f"east={upstream.url}")
        servers = replicas(serve, etcd, *flags)
        left = one_polls(servers, routes)
        apply(left[0], "widgets")
        everywhere(left, "widgets", VISIBLE_S)
        for server in left:
            server.process.kill()
            server.process.wait()
    etcd.kill()
    etcd.start()
    (again,) = replicas(serve, etcd, *flags, count=1)
    # Ready with what was known, for which nobody can vouch now.
    assert served(again) == {"example.com": "widgets", "east.example.com": "threes,Stale"}


def one_polls(servers: list[Server], routes: dict[str, Answer]) -> list[Server]:
    """Let the replica that polls hang, and the next one die; return those that are left."""
    everywhere(servers, "ones", VISIBLE_S * 5)
    (hung,) = pollers(servers)
    asked = polls(hung)
    others = [server for server in servers if server is not hung]
    eventually(partial(agree, servers), "all have one ETag")

    hung.process.send_signal(signal.SIGSTOP)
    try:
        routes["/apis"] = aggregated(served_group("east.example.com", "twos"))
        everywhere(others, "twos", TAKEOVER_S)
    finally:
        hung.process.send_signal(signal.SIGCONT)
    everywhere(servers, "twos", TAKEOVER_S)
    assert polls(hung) == asked
    # A group is Stale on the way from one poller to the next.
    eventually(partial(agree, servers), "all have one ETag")

    (poller,) = pollers(others)
    routes["/apis"] = aggregated(served_group("east.example.com", "threes"))
    poller.process.kill()
    poller.process.wait()
    left = [server for server in servers if server is not poller]
    wanted = [{"east.example.com": "threes"}] * len(left)
    eventually(lambda: list(map(served, left)) == wanted, "all are current", TAKEOVER_S)
    return left


def test_a_change_is_on_every_replica_without_etcd_and_through_a_rolling_restart(
    serve: Serve, etcd: EtcdServer
) -> None:
    """The same bytes everywhere; without etcd what is known, and no writes until it is back."""
    servers = replicas(serve, etcd, count=2)
    for number, writer in enumerate(servers):
        plural = f"widgets{number}"
        began = time.monotonic()
        apply(writer, plural)
        everywhere(servers, plural, VISIBLE_S)
        assert time.monotonic() - began < VISIBLE_S
        answers = [document(server) for server in servers]
        assert len({(answer.body, answer.etag) for answer in answers}) == 1
    before = document(servers[0])

    etcd.kill()
    with pytest.raises(grpc.RpcError) as caught:
        apply(servers[0], "gadgets")
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert [document(server).body for server in servers] == [before.body] * 2
    assert get(servers[0].http_port, "/readyz").status == 200

    etcd.start()
    eventually(lambda: can_apply(servers[0], "gadgets"), "writes are taken again", TAKEOVER_S)
    everywhere(servers, "gadgets", TAKEOVER_S)
    assert shows(servers[1], "widgets0")
    restart_one_by_one(serve, etcd, servers)


def can_apply(server: Server, plural: str) -> bool:
    try:
        apply(server, plural)
    except grpc.RpcError:
        return False
    return True


def restart_one_by_one(serve: Serve, etcd: EtcdServer, servers: list[Server]) -> None:
    """See that nobody is shown anything empty or older meanwhile."""
    client = RollingClient(servers, "gadgets")
    for place in range(len(servers)):
        apply(client.servers[(place + 1) % 2], f"things{place}")
        everywhere(client.servers, f"things{place}", VISIBLE_S)
        client.require(f"things{place}")
        fresh = replicas(serve, etcd, count=1)
        leaving = client.servers[place]
        client.servers = [*fresh, *(s for s in client.servers if s is not leaving)]
        leaving.stop()
    client.close()
    assert client.looked > 20
    assert not client.wrong


class RollingClient:
    """Asks whichever replica is there, all the time, and notes what must not be.

    Attributes:
        servers: The replicas that a load balancer would have now.
        looked: How many answers came.
        wrong: What was missing from an answer though it was everywhere before.
    """

    def __init__(self, servers: list[Server], required: str) -> None:
        self.servers = list(servers)
        self.looked = 0
        self.wrong: list[str] = []
        self._required = {required}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def require(self, resource: str) -> None:
        self._required |= {resource}

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._closed.wait(0.05):
            server = self.servers[self.looked % len(self.servers)]
            required = frozenset(self._required)
            try:
                seen = ",".join(served(server).values())
            except (OSError, ValueError):
                continue  # this one is leaving: a client goes to the next
            self.looked += 1
            self.wrong += [name for name in required if name not in seen]
