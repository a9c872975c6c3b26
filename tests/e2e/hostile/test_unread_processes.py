"""Clients that ask for everything and read nothing, against the real process."""

import http.client
import json
import socket
import ssl
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc, openapi_pb2
from certificates import Authority
from crd_manifests import simple
from google.protobuf.message import Message
from media_types import JSON_V2
from raw_http2 import RawHttp2, call, get
from server import Serve, Server, serving
from waiting import WITHIN_S, eventually

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is told by Linux's /proc"
)

MOST_BYTES = 400 * 2**20

CONNECTIONS = 256
# The server allows fewer, and resets the rest.
STREAMS = 250

_MANY_GROUPS = 1500


def peak_bytes(server: Server) -> int:
    """Return the most memory that a server has had."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@dataclass(frozen=True)
class Callers:
    """Makes connections: of a client that reads, and of those who do not.

    Attributes:
        server: Where to.
        good: The TLS of the client that reads; None without TLS.
        bad: That of the others.
    """

    server: Server
    good: ssl.SSLContext | None = None
    bad: ssl.SSLContext | None = None

    def answered(self, path: str, accept: str) -> bytes:
        """Return what a client gets that reads, from an address of its own."""
        host, _, port = self.server.http.rpartition(":")
        source = ("127.0.0.9", 0)
        asking = (
            http.client.HTTPConnection(host, int(port), timeout=WITHIN_S, source_address=source)
            if self.good is None
            else http.client.HTTPSConnection(
                host, int(port), timeout=WITHIN_S, source_address=source, context=self.good
            )
        )
        try:
            asking.request("GET", path, headers={"accept": accept})
            answer = asking.getresponse()
            body = answer.read()
            assert answer.status == 200, (answer.status, body[:200])
            return body
        finally:
            asking.close()

    def unread(self) -> float:
        """Return how many bytes the server counts as unread."""
        for line in self.answered("/metrics", "*/*").decode().splitlines():
            if line.startswith("apidiscovery_unread_bytes "):
                return float(line.split()[1])
        raise AssertionError("no such metric")

    @contextmanager
    def asking(
        self, path: str, accept: str, window: int, connections: int = CONNECTIONS
    ) -> Generator[None]:
        """Ask on all connections and read nothing; each address has 128 of them."""
        with ExitStack() as stack:
            for number in range(connections):
                source = f"127.0.0.{10 + number // 128}"
                connection = RawHttp2(
                    self.server.http_port, window=window, source=source, tls=self.bad
                )
                stack.enter_context(connection).ask(get(path, ("accept", accept)), STREAMS)
            eventually(self.unread, "places are taken")
            yield
        eventually(lambda: not self.unread(), "no place is taken")

    @contextmanager
    def calling(self, method: str, request: bytes) -> Generator[None]:
        """Call a method of gRPC on three connections and read nothing."""
        port = int(self.server.grpc.rpartition(":")[2])
        message = b"\0" + len(request).to_bytes(4, "big") + request
        with ExitStack() as stack:
            for number in range(3):
                connection = RawHttp2(port, source=f"127.0.0.{10 + number}")
                stack.enter_context(connection).ask(call(method), STREAMS, message)
            eventually(self.unread, "places are taken")
            yield
        eventually(lambda: not self.unread(), "no place is taken")


@pytest.fixture(scope="module")
def many_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    manifests = tmp_path_factory.mktemp("manifests")
    crds = "\n---\n".join(
        json.dumps(simple("things", f"g{number}.example")) for number in range(_MANY_GROUPS)
    )
    (manifests / "crds.yaml").write_text(crds, encoding="utf-8")
    with serving(tmp_path_factory.mktemp("many"), "--manifests", str(manifests)) as server:
        yield server


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    with serving(tmp_path_factory.mktemp("plain"), "--store", "memory") as server:
        yield Callers(server)


@pytest.fixture
def secured(serve: Serve, tmp_path: Path) -> Callers:
    authority = Authority(tmp_path / "ca")
    pair = authority.server(["127.0.0.1"])
    config = tmp_path / "config.yaml"
    config.write_text("access: [{role: admin, users: [ada]}, {role: reader, users: [eve]}]")
    server = serve(
        *("--tls-cert-file", str(pair.cert_file), "--tls-private-key-file", str(pair.key_file)),
        *("--client-ca-file", str(authority.ca_file), "--config", str(config)),
        *("--store", "memory"),
    )

    def known(user: str) -> ssl.SSLContext:
        return authority.trusted(authority.client(user, []))

    return Callers(server, known("ada"), known("eve"))


@pytest.mark.parametrize(
    ("path", "accept", "window"),
    [("/openapi/v2", "application/json", 0), ("/apis", JSON_V2, 65_535)],
)
def test_streams_that_nobody_reads_take_little(
    plain: Callers, path: str, accept: str, window: int
) -> None:
    whole = plain.answered(path, accept)
    with plain.asking(path, accept, window):
        for _ in range(5):
            assert plain.answered(path, accept) == whole
    assert peak_bytes(plain.server) < MOST_BYTES


def test_streams_behind_tls_that_nobody_reads_take_little(secured: Callers) -> None:
    whole = secured.answered("/apis", JSON_V2)
    with secured.asking("/apis", JSON_V2, 0, connections=96):
        for _ in range(5):
            assert secured.answered("/apis", JSON_V2) == whole
    assert peak_bytes(secured.server) < MOST_BYTES


def test_readers_of_http_1_that_stop_take_little(plain: Callers) -> None:
    whole = plain.answered("/openapi/v2", "application/json")
    request = b"GET /openapi/v2 HTTP/1.1\r\nhost: x\r\naccept: application/json\r\n\r\n"
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.bind((f"127.0.0.{2 + number // 256}", 0))
            connection.connect(("127.0.0.1", plain.server.http_port))
            connection.sendall(request)
        for _ in range(5):
            assert plain.answered("/openapi/v2", "application/json") == whole
    assert peak_bytes(plain.server) < MOST_BYTES


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("DiscoveryService/WatchDiscovery", discovery_pb2.WatchDiscoveryRequest()),
        ("DiscoveryService/GetDiscovery", discovery_pb2.GetDiscoveryRequest()),
        ("OpenAPIService/GetBundle", openapi_pb2.GetBundleRequest()),
        ("OpenAPIService/GetDocument", openapi_pb2.GetDocumentRequest(key="apis/g7.example/v1")),
    ],
    ids=["WatchDiscovery", "GetDiscovery", "GetBundle", "GetDocument"],
)
def test_calls_that_nobody_reads_take_little(
    many_groups: Server, method: str, request_: Message
) -> None:
    callers = Callers(many_groups)
    path = f"/apidiscovery.service.v1.{method}"
    with (
        callers.calling(path, request_.SerializeToString()),
        grpc.insecure_channel(many_groups.grpc) as channel,
    ):
        watching = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        watch = discovery_pb2.WatchDiscoveryRequest()
        first = next(iter(watching.WatchDiscovery(watch, timeout=90)))
        assert len(first.changes.delta.changed) == _MANY_GROUPS
    assert peak_bytes(many_groups) < MOST_BYTES
