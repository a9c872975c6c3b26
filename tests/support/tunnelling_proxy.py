"""A forward proxy on a loopback socket: CONNECT, and requests with a whole URL as their target."""

import contextlib
import socket
import ssl
import threading
from typing import Self
from urllib.parse import urlsplit

_PIECE = 1 << 16


class TunnellingProxy:
    """Forwards until it is closed.

    Attributes:
        url: Where it is.
        heads: The first lines and headers of all that came in.
        refusal: What is answered to everything, when that is not empty.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, refusal: bytes = b"") -> None:
        self.heads: list[str] = []
        self.refusal = refusal
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        port = self._listening.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._listening, *self._open):
            one.close()

    def _start(self, target: object, *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - any callable
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self._open.append(near)
                self._start(self._forward, near)

    def _forward(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._tls:
                near = self._tls.wrap_socket(near, server_side=True)
                self._open.append(near)
            head, _, rest = _head(near).partition(b"\r\n\r\n")
            self.heads.append(head.decode())
            if self.refusal:
                near.sendall(self.refusal)
                near.shutdown(socket.SHUT_RDWR)
                return
            method, target, _ = head.split(b"\r\n")[0].decode().split()
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            far = socket.create_connection((parts.hostname or "", parts.port or 0))
            self._open.append(far)
            if method == "CONNECT":
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n" + rest)
            else:
                far.sendall(head.replace(target.encode(), parts.path.encode(), 1))
                far.sendall(b"\r\n\r\n" + rest)
            back = self._start(_pump, far, near)
            _pump(near, far)
            back.join()


def _head(near: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = near.recv(_PIECE)
        if not piece:
            raise ConnectionError
        head += piece
    return head


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
