"""The sockets of connections to upstreams, which fill four gaps of httpcore.

1. It leaves the socket open when a TLS handshake is cancelled: a server that hangs would cost a
   socket at each attempt.
2. It takes bytes after the end of an answer for the answer to the next request.
3. It reads 64 KiB at once: thousands of the smallest chunks or frames, which take 0.3 s to parse.
4. Closing a pool leaves connections out that are still being made; nothing closes them later.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from contextvars import ContextVar
from typing import cast

import httpcore2
from httpcore2._utils import is_socket_readable

# How much is read before other tasks run.
_READ_AT_ONCE = 8 * 1024

has_connected: ContextVar[bool] = ContextVar("has_connected", default=False)
"""Set when a connection is made, in the context of the request for which it is made."""


class Network(httpcore2.AsyncNetworkBackend):
    """Makes connections.

    Attributes:
        is_closed: Set when its pools are closed. Connections that are still being made are then
            closed, and their requests fail.
    """

    def __init__(self) -> None:
        self.is_closed = False
        # Of two types for type checkers: it needs anyio, which comes with httpx2.
        self._backend = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore calls it
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a server or a proxy."""
        has_connected.set(True)
        return await _wrapped(
            await self._backend.connect_tcp(host, port, timeout, local_address, socket_options),
            self,
        )


class Stream(httpcore2.AsyncNetworkStream):
    """A connection, with or without TLS.

    Attributes:
        has_read: Whether anything was read since something was written.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream, network: Network) -> None:
        self.has_read = False
        self._inner = inner
        self._network = network
        # Needed for each request; looking them up takes as long as writing.
        self._socket = inner.get_extra_info("socket")
        self._ssl_object = inner.get_extra_info("ssl_object")

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore calls it
    ) -> bytes:
        """Read little at once, and let other tasks run before."""
        await asyncio.sleep(0)
        data = await self._inner.read(min(max_bytes, _READ_AT_ONCE), timeout)
        self.has_read = True
        return data

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore calls it
    ) -> None:
        """Write everything."""
        self.has_read = False
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the socket."""
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore calls it
    ) -> httpcore2.AsyncNetworkStream:
        """Return the connection with TLS; close it if that fails or is cancelled."""
        try:
            stream = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._inner.aclose()
            raise
        return await _wrapped(stream, self._network)

    def get_extra_info(self, info: str) -> object:
        """Return a property of the connection."""
        match info:
            case "is_readable":
                return is_socket_readable(self._socket)
            case "ssl_object":
                return self._ssl_object
            case _:
                return self._inner.get_extra_info(info)


async def _wrapped(stream: httpcore2.AsyncNetworkStream, network: Network) -> Stream:
    # anyio asks a connection that was closed just now for its socket, which is None then
    # (`SocketStream.extra_attributes`).
    with contextlib.suppress(AttributeError):
        if not network.is_closed:
            return Stream(stream, network)
    await stream.aclose()
    raise httpcore2.ConnectError("closed while it was made")
