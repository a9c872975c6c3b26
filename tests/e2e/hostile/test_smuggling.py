"""Requests that two servers in a row could read differently: one of them is answered, or none."""

import pytest
from raw_http import exchange
from server import Server

# What a second request would be if the first one ended before it.
_HIDDEN = b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
_CHUNKED = b"0\r\n\r\n" + _HIDDEN


def _post(fields: bytes, body: bytes) -> bytes:
    return b"POST /apis HTTP/1.1\r\nhost: x\r\n" + fields + b"\r\n" + body


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            _post(b"content-length: 5\r\ncontent-length: 6\r\n", _CHUNKED), id="two lengths"
        ),
        pytest.param(_post(b"content-length: +5\r\n", _CHUNKED), id="a sign"),
        pytest.param(_post(b"content-length: 5, 6\r\n", _CHUNKED), id="a list of lengths"),
        pytest.param(_post(b"content-length: 0x5\r\n", _CHUNKED), id="a hexadecimal length"),
        pytest.param(
            _post(b"transfer-encoding: chunked, identity\r\n", _CHUNKED), id="chunked not last"
        ),
        pytest.param(_post(b"transfer-encoding : chunked\r\n", _CHUNKED), id="space before colon"),
        pytest.param(_post(b"transfer-encoding: xchunked\r\n", _CHUNKED), id="an unknown coding"),
        pytest.param(_post(b"content-length: 5\r\n folded: x\r\n", _CHUNKED), id="a folded line"),
        pytest.param(
            _post(b"transfer-encoding: chunked\r\n", b"-1\r\n" + _CHUNKED), id="a negative chunk"
        ),
        pytest.param(
            _post(b"transfer-encoding: chunked\r\n", b"f" * 17 + b"\r\n" + _CHUNKED),
            id="a chunk whose size overflows",
        ),
        pytest.param(
            b"GET /apis HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n" + _HIDDEN, id="a zero byte"
        ),
    ],
)
def test_what_is_ambiguous_is_refused_and_nothing_after_it_is_read(
    server: Server, sent: bytes
) -> None:
    answer = exchange(server.http_port, sent)
    assert b"gitVersion" not in answer
    assert answer.count(b"HTTP/1.1 ") <= 1


def test_a_length_beside_chunks_counts_for_nothing(server: Server) -> None:
    """The chunks count (RFC 9112, 6.3), and the connection is not used again."""
    fields = b"content-length: 5\r\ntransfer-encoding: chunked\r\n"
    answer = exchange(server.http_port, _post(fields, _CHUNKED))
    assert answer.count(b"HTTP/1.1 ") <= 2


@pytest.mark.parametrize(
    "path",
    ["/apis/../../etc/passwd", "/apis/%2e%2e/%2e%2e/etc/passwd", "/openapi/v3/..%2f..%2fetc/passwd",
     "/apis/%00", "/apis/%ff%fe", "/apis/\\..\\..", "//etc/passwd", "/proc/self/environ"],
)  # fmt: skip
def test_no_path_leads_out_of_what_is_served(server: Server, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()
    answer = exchange(server.http_port, request)
    assert answer.split(b" ")[1] in (b"400", b"404"), answer[:200]
    assert b"root:" not in answer
