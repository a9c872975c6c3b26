"""HTTP/1.1 without a library: the exact bytes of requests and answers."""

import json
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from waiting import WITHIN_S

_STATUS_LINE = re.compile(r"HTTP/1\.[01] ([0-9]{3}) .+")


@dataclass(frozen=True, slots=True)
class RawResponse:
    """An answer as it arrived.

    Attributes:
        headers: Name in lower case and value of each line.
        body: All bytes after the empty line.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        """Return the value of each line with this name."""
        return [value for other, value in self.headers if other == name]

    def undated(self) -> "RawResponse":
        """Return the answer without its date, for comparisons."""
        headers = tuple(line for line in self.headers if line[0] != "date")
        return replace(self, headers=headers)

    @property
    def content_type(self) -> list[str]:
        return self.values("content-type")

    @property
    def etag(self) -> str:
        """The one ETag."""
        (etag,) = self.values("etag")
        return etag

    def json(self) -> dict[str, object]:
        """Return the body, which must be a JSON object."""
        value = cast("object", json.loads(self.body))
        assert isinstance(value, dict)
        return cast("dict[str, object]", value)


def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes; return all bytes until the server closes the connection."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), WITHIN_S) as connection:
        try:
            connection.sendall(sent)
            while some := connection.recv(1 << 16):
                received += some
        except ConnectionError:
            pass  # the server may close before it has read everything
    return bytes(received)


def parse(received: bytes) -> RawResponse:
    """Parse the answer of a connection that was closed after it."""
    head, empty_line, body = received.partition(b"\r\n\r\n")
    assert empty_line, received
    status_line, *lines = head.decode("latin-1").split("\r\n")
    match = _STATUS_LINE.fullmatch(status_line)
    assert match, status_line
    pairs = [line.split(": ", 1) for line in lines]
    return RawResponse(int(match[1]), tuple((name.lower(), value) for name, value in pairs), body)


def request(
    port: int,
    target: str,
    headers: Sequence[tuple[str, str]] = (),
    *,
    method: str = "GET",
    body: bytes | None = None,
) -> RawResponse:
    """Send one request with these headers, Host and Connection; return the answer.

    The length of the body is checked against Content-Length.
    """
    lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    response = parse(exchange(port, head + (body or b"")))
    if method != "HEAD" and response.body:
        assert response.values("content-length") == [str(len(response.body))]
    return response


def get(port: int, target: str, accept: str | None = None, *more: tuple[str, str]) -> RawResponse:
    """GET with an Accept line, or with none."""
    return request(port, target, [*([] if accept is None else [("Accept", accept)]), *more])
