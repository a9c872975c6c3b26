"""HTTP/1.1 as a hostile or broken server writes it, byte for byte."""

import gzip
import socket
import time

import pytest
from apidiscovery_client._http.body import BodyError
from apidiscovery_client._http.request import Deadline
from apidiscovery_client.transports._http1 import Answer, Exchange, ProtocolError, request
from apidiscovery_client.transports._streams import TcpStream

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def answered(received: bytes, max_body_bytes: int = 1 << 20) -> Answer:
    """Return what is made of these bytes and the end of the connection."""
    near, far = socket.socketpair()
    with near, far:
        far.sendall(received)
        far.shutdown(socket.SHUT_WR)
        exchange = Exchange(TcpStream(near), Deadline(10), request("/", "host", ()))
        return exchange.answer(max_body_bytes)


def compressed(body: bytes) -> bytes:
    return HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def test_a_connection_with_two_lengths_is_not_reused() -> None:
    both = HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = answered(both + b"5\r\nhello\r\n0\r\n\r\n")
    assert (found.body, found.is_reusable) == (b"hello", False)


@pytest.mark.parametrize(
    ("received", "problem"),
    [
        pytest.param(HEAD + b"X : a\r\n\r\n", "header", id="header"),
        pytest.param(CHUNKED + b"5zz\r\nhello\r\n0\r\n\r\n", "chunk", id="chunk"),
        pytest.param(CHUNKED + b"5\r\nhel", "incomplete chunked read", id="incomplete"),
        pytest.param(HEAD, "within the headers", id="head"),
        pytest.param(b"HTTP/1.1 101 Other\r\n\r\n", "SWITCH_UPGRADE", id="another protocol"),
        pytest.param(b"HTTP/1.1 103 Early\r\n\r\n" * 20, "do not end", id="interim"),
        pytest.param(HEAD + b"X: " + b"a" * (1 << 17), "too long", id="too long"),
    ],
)
def test_malformed_answers_are_errors(received: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        answered(received)


def test_all_gzip_members_are_read() -> None:
    body = b"".join(map(gzip.compress, (b"hel", b"", b"lo")))
    assert answered(compressed(body)).body == b"hello"


@pytest.mark.parametrize("rest", [b"x", b"\0" * 100, gzip.compress(b"lo", mtime=0)[:-1]])
def test_bytes_after_a_compressed_body_are_an_error(rest: bytes) -> None:
    with pytest.raises(BodyError, match="cannot be decoded"):
        answered(compressed(gzip.compress(b"hel") + rest))


def test_a_bomb_of_many_gzip_members_is_stopped() -> None:
    bomb = gzip.compress(bytes(1 << 20)) * 40
    with pytest.raises(BodyError, match="exceeds"):
        answered(compressed(bomb), max_body_bytes=1 << 21)


def test_many_small_gzip_members_take_linear_time() -> None:
    body = gzip.compress(b"") * 4000
    begin = time.process_time()
    assert answered(compressed(body)).body == b""
    assert time.process_time() - begin < 5
