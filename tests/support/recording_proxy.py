"""A small forward proxy in the test's own event loop, which notes what it is asked."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fake_api_server import Request, listening, read_head


@dataclass(slots=True)
class Proxy:
    """A proxy that runs.

    Attributes:
        requests: All that came in; the method stands before each target.
        connections: How many were accepted.
    """

    port: int = 0
    requests: list[Request] = field(default_factory=list[Request])
    connections: int = 0


@asynccontextmanager
async def proxying(port: int, refusal: str = "") -> AsyncGenerator[Proxy]:
    """Run a proxy, CONNECT or forward, to which every name is this port of loopback."""
    state = Proxy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        method, target, headers = await read_head(reader)
        state.requests.append(Request(f"{method} {target}", dict(headers), method, fields=headers))
        if refusal:
            writer.write(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = "/" + target.split("/", 3)[3]
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
            far_writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_carry(reader, far_writer))
                tasks.create_task(_carry(far_reader, writer))
        finally:
            far_writer.transport.abort()

    async with listening(serve) as state.port:
        yield state


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while some := await reader.read(1 << 16):
            writer.write(some)
            await writer.drain()
    writer.transport.abort()
