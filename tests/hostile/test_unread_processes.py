"""Clients that ask for everything and read nothing, against the real process."""

import http.client
import json
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from crd_manifests import simple
from raw_http import AGG
from raw_http2 import RawHttp2, call, get
from server import Serve, Server, eventually

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is told by Linux's /proc"
)

MOST_BYTES = 400 * 2**20

CONNECTIONS = 512
# The server allows fewer, and resets the rest.
STREAMS = 250

# More than that comes from one machine in no test.
_WATCH = "/apidiscovery.service.v1.DiscoveryService/WatchDiscovery"
_MANY_GROUPS = 1500


def resident_bytes(server: Server) -> int:
    """Return the memory of a server as it is now."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def peak_bytes(server: Server) -> int:
    """Return the most memory that a server has had."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def answered(server: Server, path: str, accept: str) -> bytes:
    """Return what a client gets that reads, from an address of its own."""
    host, _, port = server.http.rpartition(":")
    asking = http.client.HTTPConnection(
        host, int(port), timeout=30, source_address=("127.0.0.9", 0)
    )
    try:
        asking.request("GET", path, headers={"accept": accept})
        answer = asking.getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body[:200])
        return body
    finally:
        asking.close()


def metric(server: Server, name: str) -> float:
    """Return a metric without labels."""
    for line in answered(server, "/metrics", "*/*").decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


@contextmanager
def unread(server: Server, path: str, accept: str, window: int) -> Generator[None]:
    """Ask on all connections and read nothing; each address has 256 of them."""
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            source = f"127.0.0.{2 + number // 256}"
            connection = RawHttp2(server.http_port, window=window, source=source)
            stack.enter_context(connection).ask(get(path, ("accept", accept)), STREAMS)
        yield


@pytest.mark.parametrize("window", [0, 65_535])
@pytest.mark.parametrize(("path", "accept"), [("/openapi/v2", "application/json"), ("/apis", AGG)])
def test_streams_that_nobody_reads_take_little(
    serve: Serve, path: str, accept: str, window: int
) -> None:
    server = serve()
    whole = answered(server, path, accept)
    with unread(server, path, accept, window):
        eventually(lambda: metric(server, "apidiscovery_unread_bytes"), 30, "places are taken")
        for _ in range(5):
            assert answered(server, path, accept) == whole
    assert peak_bytes(server) < MOST_BYTES


def test_readers_of_http_1_that_stop_take_little(serve: Serve) -> None:
    server = serve()
    whole = answered(server, "/openapi/v2", "application/json")
    request = b"GET /openapi/v2 HTTP/1.1\r\nhost: x\r\naccept: application/json\r\n\r\n"
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.bind((f"127.0.0.{2 + number // 256}", 0))
            connection.connect(("127.0.0.1", server.http_port))
            connection.sendall(request)
        for _ in range(5):
            assert answered(server, "/openapi/v2", "application/json") == whole
    assert peak_bytes(server) < MOST_BYTES


def test_watches_that_nobody_reads_take_little(serve: Serve, tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    crds = "\n---\n".join(
        json.dumps(simple("things", f"g{number}.example")) for number in range(_MANY_GROUPS)
    )
    (manifests / "crds.yaml").write_text(crds, encoding="utf-8")
    server = serve("--manifests", str(manifests))
    grpc_port = int(server.grpc.rpartition(":")[2])
    request = b"\0" * 5  # an empty message
    with ExitStack() as stack:
        for number in range(3):
            source = f"127.0.0.{2 + number}"
            connection = stack.enter_context(RawHttp2(grpc_port, source=source))
            connection.ask(call(_WATCH), 1000, request)
        eventually(lambda: metric(server, "apidiscovery_unread_bytes"), 30, "places are taken")
        with grpc.insecure_channel(server.grpc) as channel:
            watching = discovery_pb2_grpc.DiscoveryServiceStub(channel)
            request_ = discovery_pb2.WatchDiscoveryRequest()
            first = next(iter(watching.WatchDiscovery(request_, timeout=30)))
            assert len(first.changes.delta.changed) == _MANY_GROUPS
    assert peak_bytes(server) < MOST_BYTES
