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


@pytest.mark.parametrize("size", [b"5", b"5;a=b", b"05", b"0000000000000000005", b"5 "])
def test_a_chunk_is_as_long_as_it_says(size: bytes) -> None:
    assert answered(CHUNKED + size + b"\r\nhello\r\n0\r\nETag: x\r\n\r\n").body == b"hello"


@pytest.mark.parametrize("size", [b"5zz", b"0x5", b"-1", b"+5", b"", b" 5", b"5 5", b"f" * 21])
def test_what_is_no_size_of_a_chunk_is_not_taken_for_one(size: bytes) -> None:
    with pytest.raises(ProtocolError, match="illegal chunk header"):
        answered(CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n")


def test_a_connection_with_two_opinions_on_a_length_is_not_used_again() -> None:
    both = HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = answered(both + b"5\r\nhello\r\n0\r\n\r\n")
    assert (found.body, found.is_reusable) == (b"hello", False)


def test_a_header_in_several_lines_is_one() -> None:
    """RFC 9112 section 5.2: user agents must read it so."""
    found = answered(HEAD + b"X: a\r\n b\r\n\tc\r\nContent-Length: 2\r\n\r\n{}")
    assert (found.headers["x"], found.body) == ("a b c", b"{}")


@pytest.mark.parametrize("line", [b" X: a", b"X: a\rY: b", b"X: a\0", b"X : a", b": a", b"X"])
def test_what_is_no_header_is_told(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="header"):
        answered(b"HTTP/1.1 200 OK\r\n" + line + b"\r\nContent-Length: 2\r\n\r\n{}")


def test_nobody_asked_for_another_protocol() -> None:
    switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"
    with pytest.raises(ProtocolError, match="SWITCH_UPGRADE"):
        answered(switching + HEAD + b"Content-Length: 2\r\n\r\n{}")


def test_of_several_compressed_parts_none_is_left_out() -> None:
    body = b"".join(map(gzip.compress, (b"hel", b"", b"lo")))
    assert answered(compressed(body)).body == b"hello"


@pytest.mark.parametrize("rest", [b"x", b"\0" * 100, gzip.compress(b"lo", mtime=0)[:-1]])
def test_what_follows_a_compressed_body_is_told(rest: bytes) -> None:
    with pytest.raises(BodyError, match="cannot be decoded"):
        answered(compressed(gzip.compress(b"hel") + rest))


def test_a_bomb_of_many_parts_does_not_go_off() -> None:
    bomb = gzip.compress(bytes(1 << 20)) * 40
    with pytest.raises(BodyError, match="exceeds"):
        answered(compressed(bomb), max_body_bytes=1 << 21)


def test_many_small_parts_take_no_longer_than_they_are_long() -> None:
    body = gzip.compress(b"") * 4000
    begin = time.process_time()
    assert answered(compressed(body)).body == b""
    assert time.process_time() - begin < 5
