"""A plain listener that other machines reach: one address cannot keep the others out."""

import contextlib
import errno
import itertools
import re
import resource
import socket
import sys
from collections.abc import Generator

import pytest
from raw_http import RawResponse, parse
from server import Serve, Server
from waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs more than one 127.0.0.1")

MANY = 4500
GOOD = "127.0.0.2"
# What a connection says that asks for nothing: nothing, less than a version, less than a head.
HALVES = [b"", b"PRI * HT", b"GET /api HTTP/1.1\r\n"]


@contextlib.contextmanager
def half_open(port: int) -> Generator[None]:
    """Hold as many connections as the server takes from 127.0.0.1."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * MANY:
        pytest.skip(f"needs {2 * MANY} descriptors, may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(socket.socket()) for _ in range(MANY)]
            for connection in held:
                connection.setblocking(False)  # noqa: FBT003 - its only argument
                assert connection.connect_ex(("127.0.0.1", port)) in (0, errno.EINPROGRESS)
            for connection, said in zip(held, itertools.cycle(HALVES), strict=False):
                with contextlib.suppress(OSError):  # refused, or not connected yet
                    connection.sendall(said)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(port: int, path: str) -> RawResponse:
    """Return what another address is answered."""
    with socket.create_connection(("127.0.0.1", port), 30, source_address=(GOOD, 0)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while some := connection.recv(1 << 16):
            received += some
    return parse(received)


def refused(port: int) -> int:
    """Return how many connections were refused for their address."""
    text = ask(port, "/metrics").body.decode()
    counts = re.findall(r'_front_cut_connections_total{front="http",reason="(.*)"} (.*)', text)
    return sum(int(float(count)) for reason, count in counts if reason in ("address", "rate"))


@pytest.fixture
def open_server(serve: Serve) -> Server:
    addresses = ("--http", "0.0.0.0:0", "--grpc", "0.0.0.0:0")
    return serve(*addresses, "--insecure-bind", "--store", "memory", addresses=False)


def test_half_open_connections_of_one_address_keep_no_other_out(open_server: Server) -> None:
    port = open_server.http_port
    with half_open(port):
        assert [ask(port, "/livez").status for _ in range(20)] == [200] * 20
        # Of what overflows the kernel's backlog on a busy machine the server hears nothing.
        eventually(lambda: refused(port) > 500, "connections are refused", 60)
