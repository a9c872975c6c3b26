"""What breaks the rules of HTTP is refused where the server gets to see it."""

import pytest
from raw_http import exchange, parse
from server import Server


def answer(server: Server, *lines: str) -> tuple[int, bytes]:
    """Return status and body of the one answer; after it the connection is closed."""
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    later = b"GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    response = parse(exchange(server.http_port, head + later))
    assert response.values("connection") == ["close"]
    return response.status, response.body


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        pytest.param(["GET /livez HTTP/1.1"], "missing required Host header", id="none"),
        pytest.param(["GET /livez HTTP/1.1", "Host:"], "missing required Host header", id="empty"),
        pytest.param(
            ["GET /livez HTTP/1.1", "Host: a", "Host: a"], "too many Host headers", id="twice"
        ),
        pytest.param(
            ["GET /livez HTTP/1.0", "Host: a", "Host: b"], "too many Host headers", id="two"
        ),
        pytest.param(["GET /livez HTTP/1.1", "Host: a b"], "malformed Host header", id="space"),
        pytest.param(["GET /livez HTTP/1.1", "Host: a/b"], "malformed Host header", id="slash"),
    ],
)
def test_a_request_has_one_host(server: Server, lines: list[str], wrong: str) -> None:
    """As Go's server has it, word for word; what comes behind on the connection is not read."""
    assert answer(server, *lines) == (400, f"400 Bad Request: {wrong}".encode())


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["GET /livez HTTP/1.0"], id="HTTP/1.0 needs none"),
        pytest.param(["GET /livez HTTP/1.1", "Host: [::1]:8080", "Connection: close"], id="IPv6"),
        pytest.param(["GET /livez HTTP/1.1", "Host: a.b_c", "Connection: close"], id="name"),
        pytest.param(["GET http://a/livez HTTP/1.1", "Host: a", "Connection: close"], id="proxy"),
    ],
)
def test_honest_hosts_are_taken(server: Server, lines: list[str]) -> None:
    head = "\r\n".join([*lines, "", ""]).encode()
    assert parse(exchange(server.http_port, head)).body == b"ok"
