"""Proxies on loopback: a TCP proxy that can be cut, and a forward proxy for HTTP."""

import asyncio
import contextlib
import ssl
from urllib.parse import urlsplit

from fake_api_server import LoopbackServer, Request, read_head

_PIECE = 1 << 16


class _Proxy(LoopbackServer):
    """Forwards connections to other addresses of this machine."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self._far = list[asyncio.StreamWriter]()

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        for writer in self._far:
            writer.transport.abort()  # a closed writer waits until its peer has read

    async def _connected(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, port)
        self._far.append(writer)
        return reader, writer


async def _join(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    flows: asyncio.Event,
) -> None:
    """Forward the bytes of both ends while `flows` is set, until one of them closes."""
    pumps = [
        asyncio.ensure_future(_pump(reader, writer, flows))
        for reader, writer in ((near[0], far[1]), (far[0], near[1]))
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        far[1].close()
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event
) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            await flows.wait()
            writer.write(piece)
            await writer.drain()


def _flowing() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class TcpProxy(_Proxy):
    """A proxy to one address that stands for a network: connections pass, hang, or are refused.

    Nothing is lost while it is cut: the bytes arrive when it is mended, as in a network that comes
    back before the connection times out.

    Args:
        target: HOST:PORT.

    Attributes:
        address: HOST:PORT to connect to.
        taken: Set with the first connection.
    """

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target
        self.address = f"127.0.0.1:{self.port}"
        self.taken = asyncio.Event()
        self._flows = _flowing()
        self._refuses = False
        self._tasks = set[asyncio.Task[None]]()

    def cut(self) -> None:
        """Stop forwarding; neither end notices."""
        self._flows.clear()

    def refuse(self) -> None:
        """Close all connections, and new ones at once."""
        self._refuses = True
        self.drop()

    def mend(self) -> None:
        """Forward again."""
        self._refuses = False
        self._flows.set()

    def strand(self) -> None:
        """Stop forwarding on the present connections for good; new connections work."""
        self._flows.clear()
        self._flows = _flowing()

    def drop(self) -> None:
        """Close all connections; new ones work."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken.set()
        if self._refuses:
            return
        task = asyncio.ensure_future(self._forward(reader, writer, self._flows))
        self._tasks.add(task)
        try:
            await task
        finally:
            self._tasks.discard(task)
            task.cancel()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        await flows.wait()
        host, _, port = self._target.rpartition(":")
        with contextlib.suppress(OSError):
            far = await self._connected(host, int(port))
            try:
                await _join((reader, writer), far, flows)
            except asyncio.CancelledError:
                far[1].transport.abort()
                raise


class ForwardProxy(_Proxy):
    """A forward proxy: CONNECT, and requests whose target is a URL.

    Args:
        port: The port of this machine for all targets; by default that of the target.
        tls: The context for https.
        refusal: Status and phrase of the answer to all requests; empty to forward them.

    Attributes:
        requests: The requests; each path is the method and the target.
    """

    def __init__(
        self, port: int | None = None, tls: ssl.SSLContext | None = None, refusal: str = ""
    ) -> None:
        super().__init__(tls)
        self.requests = list[Request]()
        self._to = port
        self._refusal = refusal

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, fields = await read_head(reader)
        self.requests.append(Request(f"{method} {target}", dict(fields), method, fields=fields))
        if self._refusal:
            head = f"HTTP/1.1 {self._refusal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            return
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        far = await self._connected("127.0.0.1", self._to or parts.port or 0)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
            far[1].write(f"{method} {parts.path} HTTP/1.1\r\n{lines}\r\n".encode())
        await _join((reader, writer), far, _flowing())
