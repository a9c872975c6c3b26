"""A server that is told to stop answers for a while, and says that it will not for long."""

import http.client
import json
import signal
import socket
import time
from collections.abc import Generator

import grpc
import h2.connection
from grpc_health.v1 import health_pb2
from raw_http import get
from server import STOP_S, Serve
from waiting import WITHIN_S, eventually

# Far longer than the test takes: a second signal ends it.
LONG = "60s"
HEADERS, GOAWAY = 1, 7
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def test_load_balancers_notice_before_the_listeners_close(serve: Serve) -> None:
    server = serve("--shutdown-delay", LONG)
    kept = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=WITHIN_S)
    assert ask(kept, "/readyz") == (200, None)
    with grpc.insecure_channel(server.grpc) as channel:
        assert health(channel) == health_pb2.HealthCheckResponse.SERVING
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: health(channel) == NOT_SERVING, "health over gRPC says so")
    assert not server.ready_file.exists()
    # The connection that is there ends with its next answer, and says so.
    assert ask(kept, "/readyz") == (500, "close")
    assert kept.sock is None
    # New ones are taken, and answered.
    assert get(server.http_port, "/apis").status == 200
    server.stop()  # far sooner than in 60 s


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, str | None]:
    """Return the status, and what is said of the connection."""
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("connection")


def health(channel: grpc.Channel) -> int:
    check: grpc.UnaryUnaryMultiCallable[
        health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
    ]
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    return check(health_pb2.HealthCheckRequest(), timeout=WITHIN_S).status


def frames(connection: socket.socket) -> Generator[tuple[int, int]]:
    """Yield type and stream of each HTTP/2 frame that comes (RFC 9113, section 4.1)."""
    with connection.makefile("rb") as file:
        while head := file.read(9):
            file.read(int.from_bytes(head[:3]))
            yield head[3], int.from_bytes(head[5:])


def request(state: h2.connection.H2Connection, stream: int) -> bytes:
    fields = {":method": "GET", ":scheme": "http", ":path": "/livez", ":authority": "a"}
    state.send_headers(stream, list(fields.items()), end_stream=True)
    return state.data_to_send()


def test_over_http_2_no_request_is_lost_and_the_delay_ends_by_itself(serve: Serve) -> None:
    """The client is told to go away, and what it has sent until it knows is answered."""
    server = serve("--shutdown-delay", "100ms", "--log-format", "json")
    state = h2.connection.H2Connection()
    state.initiate_connection()
    with socket.create_connection(("127.0.0.1", server.http_port), WITHIN_S) as connection:
        received = frames(connection)
        connection.sendall(request(state, 1))
        assert (HEADERS, 1) in received
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert (GOAWAY, 0) in received
        connection.sendall(request(state, 3))
        assert (HEADERS, 3) in received
    assert server.process.wait(STOP_S) == 0
    assert time.monotonic() - began >= 0.1
    (stopping,) = (
        entry
        for entry in map(json.loads, server.log().splitlines())
        if entry["event"] == "stopping"
    )
    assert stopping["delay_s"] == 0.1
