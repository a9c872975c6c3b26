"""Floods of frames and fields, against the real process: it goes on, and stays small."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_http import exchange
from raw_http2 import (
    CONTINUATION,
    DATA,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    RawHttp2,
    block,
    frame,
    get,
)
from server import Server

_MANY = 20_000
_MOST_BYTES = 400 * 2**20
_CANCEL = (8).to_bytes(4, "big")


def _request(stream: int, path: str = "/openapi/v2") -> bytes:
    return frame(HEADERS, 5, stream, block(get(path)))


def _resets() -> bytes:
    streams = range(1, 2 * _MANY, 2)
    return b"".join(_request(each) + frame(RST_STREAM, 0, each, _CANCEL) for each in streams)


def _bomb() -> bytes:
    """Return requests whose fields name one entry of the table again and again (RFC 7541, 7.3)."""
    entry = b"\x40\1x" + b"\x7f\x81\x1e" + b"y" * 4000
    first = frame(HEADERS, 5, 1, block(get("/apis")) + entry)
    return first + b"".join(
        frame(HEADERS, 5, each, block(get("/apis")) + b"\xbe" * 12_000) for each in range(3, 200, 2)
    )


FLOODS: dict[str, Callable[[], bytes]] = {
    "resets (CVE-2023-44487)": _resets,
    "pings": lambda: frame(PING, 0, 0, b"12345678") * _MANY,
    "settings": lambda: frame(SETTINGS, 0, 0) * _MANY,
    "window updates": lambda: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * _MANY,
    "continuations (CVE-2024-27316)": lambda: (
        frame(HEADERS, 1, 1, block(get("/apis")))
        + frame(CONTINUATION, 0, 1, block([("x", "y" * 1000)])) * _MANY
    ),
    "empty data": lambda: frame(HEADERS, 4, 1, block(get("/apis"))) + frame(DATA, 0, 1) * _MANY,
    "fields that repeat from the table": _bomb,
    "streams": lambda: b"".join(_request(each, "/healthz") for each in range(1, 2 * _MANY, 2)),
}


def _alive(server: Server) -> None:
    answer = exchange(
        server.http_port, b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_leaves_the_server_small_and_answering(server: Server, flood: str) -> None:
    with RawHttp2(server.http_port) as connection:
        with contextlib.suppress(OSError):  # it has closed the connection
            connection.send(FLOODS[flood]())
        _alive(server)
    _alive(server)
    assert _peak_bytes(server) < _MOST_BYTES


def _peak_bytes(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():  # no Linux
        return 0
    lines = status.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


_HEAD = b"POST /apis HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(_HEAD + b"content-length: 1000000000\r\n\r\n" + b"x" * 10**7, id="long body"),
        pytest.param(
            _HEAD + b"transfer-encoding: chunked\r\n\r\n" + (b"1\r\nx\r\n" * 10**6), id="chunks"
        ),
        pytest.param(
            _HEAD + b"transfer-encoding: chunked\r\n\r\n1;" + b"x" * 10**6, id="chunk extension"
        ),
        pytest.param(b"GET /" + b"x" * 10**6, id="long path"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 10**6, id="long field"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 10**5, id="many fields"),
    ],
)
def test_a_request_without_end_leaves_the_server_small_and_answering(
    server: Server, sent: bytes
) -> None:
    with RawHttp2(server.http_port, preface=b"") as connection:
        with contextlib.suppress(OSError):
            connection.send(sent)
        _alive(server)
    assert _peak_bytes(server) < _MOST_BYTES
