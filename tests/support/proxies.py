"""Proxies on loopback: a network that can be cut, and a forward proxy of HTTP."""

import asyncio
import contextlib
import ssl
from urllib.parse import urlsplit

from fake_api_server import LoopbackServer, Request, read_head

_PIECE = 1 << 16


class _Proxy(LoopbackServer):
    """Passes connections on to other addresses of this machine."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self._far = list[asyncio.StreamWriter]()

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        for writer in self._far:
            writer.transport.abort()  # a closed one still waits until its reader reads

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
    """Pass on what either end sends, while it flows, until one of them has closed."""
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
    """A network to one address, which can be cut: connections pass, hang, or are refused.

    While it is cut nothing is lost: what was sent arrives when it is mended, as it does when a
    network comes back before the connection is given up.

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
        """Let nothing through from now on, without a sign to either end."""
        self._flows.clear()

    def refuse(self) -> None:
        """End all connections, and new ones as soon as they are made."""
        self._refuses = True
        self.drop()

    def mend(self) -> None:
        """Let everything through again."""
        self._refuses = False
        self._flows.set()

    def strand(self) -> None:
        """Let nothing through the present connections, for good; new ones are taken."""
        self._flows.clear()
        self._flows = _flowing()

    def drop(self) -> None:
        """End all connections; new ones are taken."""
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
        port: The port of this machine to which all names lead; by default that of the target.
        tls: For https.
        refusal: Status and phrase of the answer to everything; empty to forward.

    Attributes:
        requests: All that came in; the method stands before each target.
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
