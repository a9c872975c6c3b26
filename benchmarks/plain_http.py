"""A minimal HTTP/1.1 client, so that its own cost does not distort measurements."""

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

V2_JSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# The receive buffer is reused: clearing new memory takes longer than what is measured. It grows for
# larger responses.
_BUFFER_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, with the `time.perf_counter` at which its head and its body had arrived."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    head_at: float
    read_at: float

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


class Connection:
    """A connection to `host:port`, over TLS with a context."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._buffer = bytearray(b"\xff") * _BUFFER_BYTES  # written, so that its pages are there
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)

    def close(self) -> None:
        self._socket.close()

    def get(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a request."""
        lines = [f"GET {path} HTTP/1.1", f"host: {self._address}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        received, end = 0, -1
        while end < 0:
            received = self._receive(received)
            end = self._buffer.find(b"\r\n\r\n", 0, received)
        head_at = time.perf_counter()
        first, *others = self._buffer[:end].decode("latin-1").split("\r\n")
        fields = [line.split(": ", 1) for line in others]
        named = [(name.lower(), value) for name, value in fields]
        begin = end + len(b"\r\n\r\n")
        whole = begin + int(dict(named).get("content-length", "0"))
        while received < whole:
            received = self._receive(received)
        read_at = time.perf_counter()
        body = bytes(memoryview(self._buffer)[begin:whole])
        return Answer(int(first.split()[1]), named, body, head_at, read_at)

    def _receive(self, have: int) -> int:
        """Receive after the first `have` bytes; return the new count."""
        if have == len(self._buffer):
            self._buffer += bytes(have)
        with memoryview(self._buffer) as view:
            count = self._socket.recv_into(view[have:])
        if not count:
            raise ConnectionError(f"{self._address} closed the connection")
        return have + count


def get(
    address: str, path: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None
) -> Answer:
    """Return the answer to one request on a connection of its own."""
    connection = Connection(address, tls)
    try:
        return connection.get(path, headers)
    finally:
        connection.close()
