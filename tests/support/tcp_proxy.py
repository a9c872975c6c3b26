"""A network that can be cut: connections pass through, or are left hanging, or are refused."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from fake_api_server import accepted

_PIECE = 65536


class TcpProxy:
    """Forwards connections to an address of this machine.

    While it is cut nothing is lost: what was sent arrives when it is mended, as it does when a
    network comes back before the connection is given up.

    Args:
        target: HOST:PORT.

    Attributes:
        address: HOST:PORT to connect to.
        taken: Set with the first connection.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self.address = ""
        self.taken = asyncio.Event()
        self._flows = asyncio.Event()
        self._flows.set()
        self._refuses = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports: list[asyncio.WriteTransport] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        await accepted()
        for transport in self._transports:
            transport.abort()  # one that is closed still waits until the other end reads

    def cut(self) -> None:
        """Let nothing through from now on, without a sign to either end."""
        self._flows.clear()

    def refuse(self) -> None:
        """End all connections, and new ones as soon as they are there."""
        self._refuses = True
        self.drop()

    def mend(self) -> None:
        """Let everything through again."""
        self._refuses = False
        self._flows.set()

    def strand(self) -> None:
        """Let nothing through the connections of now, for good; others are taken."""
        self._flows.clear()
        self._flows = asyncio.Event()
        self._flows.set()

    def drop(self) -> None:
        """End all connections; new ones are taken."""
        for task in self._tasks:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken.set()
        if self._refuses or not self._server.is_serving():
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer, self._flows))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._transports.append(writer.transport)
        # Before its first step nothing else closes it.
        task.add_done_callback(lambda done: writer.transport.abort() if done.cancelled() else None)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        host, _, port = self._target.rpartition(":")
        with contextlib.suppress(OSError), contextlib.closing(writer):
            await flows.wait()
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            self._transports.append(far_writer.transport)
            with contextlib.closing(far_writer):
                pumps = [
                    asyncio.ensure_future(self._pump(reader, far_writer, flows)),
                    asyncio.ensure_future(self._pump(far_reader, writer, flows)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    far_writer.transport.abort()
                    raise
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                await flows.wait()
                writer.write(piece)
                await writer.drain()
