"""HTTP/2 without a library, for clients that misbehave as no library lets them."""

import socket
import ssl
import struct
from collections.abc import Iterable, Sequence
from typing import Self

from waiting import WITHIN_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
ACK = END_STREAM = 1
END_HEADERS = 4
_INITIAL_WINDOW_SIZE = 4
_FRAME_HEAD_BYTES = 9
_LONG = 127

Fields = Sequence[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame (RFC 9113, 4.1)."""
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def literal(text: str) -> bytes:
    """Return a string as HPACK has it, not compressed (RFC 7541, 5.2)."""
    data = text.encode()
    if len(data) < _LONG:
        return bytes([len(data)]) + data
    rest, size = len(data) - _LONG, bytearray([_LONG])
    while rest >= 0x80:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*size, rest]) + data


def block(fields: Iterable[tuple[str, str]]) -> bytes:
    """Return header fields as literals that change no table (RFC 7541, 6.2.2)."""
    return b"".join(b"\0" + literal(name) + literal(value) for name, value in fields)


def get(path: str, *further: tuple[str, str]) -> Fields:
    """Return the header fields of a GET request."""
    pseudo = ((":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", path))
    return (*pseudo, *further)


def call(method: str) -> Fields:
    """Return the header fields of a gRPC call."""
    pseudo = ((":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", method))
    return (*pseudo, ("te", "trailers"), ("content-type", "application/grpc"))


class RawHttp2:
    """A connection.

    Args:
        port: The port of a server on loopback.
        window: The initial window of each stream, in bytes.
        source: The address of the client.
        preface: The connection preface; empty to send neither preface nor settings.
        tls: The context of a connection over TLS.
    """

    def __init__(
        self,
        port: int,
        *,
        window: int = 0,
        source: str = "127.0.0.1",
        preface: bytes = PREFACE,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = socket.create_connection(
            ("127.0.0.1", port), timeout=WITHIN_S, source_address=(source, 0)
        )
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
        self._next = 1
        self._read = b""
        settings = struct.pack(">HI", _INITIAL_WINDOW_SIZE, window)
        if preface:
            self.send(preface + frame(SETTINGS, 0, 0, settings) + frame(SETTINGS, ACK, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            OSError: The server has closed the connection.
        """
        self._socket.sendall(data)

    def ask(self, fields: Fields, times: int = 1, body: bytes = b"") -> int:
        """Send a request several times at once; return the first stream."""
        first = self._next
        sent: list[bytes] = []
        for _ in range(times):
            flags = END_HEADERS if body else END_HEADERS | END_STREAM
            sent.append(frame(HEADERS, flags, self._next, block(fields)))
            if body:
                sent.append(frame(DATA, END_STREAM, self._next, body))
            self._next += 2
        self.send(b"".join(sent))
        return first

    def frame(self) -> tuple[int, int, int, bytes]:
        """Return the next frame: kind, flags, stream and payload.

        Raises:
            EOFError: The server has closed the connection.
        """
        head = self._exactly(_FRAME_HEAD_BYTES)
        size = int.from_bytes(head[:3], "big")
        return head[3], head[4], int.from_bytes(head[5:], "big"), self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            try:
                more = self._socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                raise EOFError
            self._read += more
        data, self._read = self._read[:size], self._read[size:]
        return data

    def headers_of(self, stream: int) -> tuple[int, bytes]:
        """Wait for the header fields of a stream; return flags and block."""
        while True:
            kind, flags, number, payload = self.frame()
            if (kind, number) == (HEADERS, stream):
                return flags, payload

    def until_read(self) -> None:
        """Wait until the server has read everything: send a ping, and wait for its answer."""
        self.send(frame(PING, 0, 0, b"are here"))
        while self.frame()[:2] != (PING, ACK):
            continue

    def until_closed(self) -> None:
        """Read until the server closes the connection; raise TimeoutError if it does not."""
        while True:
            try:
                self.frame()
            except EOFError:
                return
