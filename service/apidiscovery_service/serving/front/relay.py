"""The two halves of a connection that is carried on, and the bytes between them.

A connection is carried on once its client has begun, by bytes that tell HTTP/1.1 from HTTP/2:
Granian waits for these without end, the front does not.
Each half stops reading while the other cannot write, so that what waits in between is bounded by
the buffers of the two transports. When one half ends, what it has sent goes out before the other
is closed.
"""

import asyncio
from collections.abc import Callable
from typing import cast

# How much may wait to be written before the other half stops reading.
_HIGH_WATER_BYTES = 256 * 1024

# How a client begins HTTP/2 (RFC 9113, section 3.4); less of it tells no version.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Relay:
    """One connection of a client, carried on to a server.

    Attributes:
        client_side: The protocol of the client's connection.
        server_side: The protocol of the connection to the server.
        client: The transport to the client, None before its handshake.
        server: The transport to the server, None before it is connected.
        key: By which the connection is counted.
        early: What came before there was a server; no more than the transport had read already.
        certified: Whether a certificate speaks for the client.
        quiet: How many looks ago something was carried.
    """

    __slots__ = (
        "_begun",
        "_ended",
        "_release",
        "certified",
        "client",
        "client_side",
        "early",
        "key",
        "quiet",
        "server",
        "server_side",
    )

    def __init__(self, ended: Callable[["Relay"], None], key: str) -> None:
        self.client_side = _ClientSide(self)
        self.server_side = _ServerSide(self)
        self.client: asyncio.Transport | None = None
        self.server: asyncio.Transport | None = None
        self.key = key
        self.certified = False
        self.quiet = 0
        self.early = b""
        self._begun = asyncio.Event()
        self._ended = ended
        self._release: Callable[[], None] | None = None

    async def has_begun(self) -> bool:
        """Wait for the client's first bytes; False if it has gone instead."""
        await self._begun.wait()
        return self.client is not None and not self.client.is_closing()

    def on_release(self, release: Callable[[], None]) -> None:
        """Call this once, when either side has ended."""
        self._release = release

    def release(self) -> None:
        """Have it known that the connection is over."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def abort(self) -> None:
        """End both halves at once."""
        self.release()
        for transport in (self.client, self.server):
            if transport is not None:
                transport.abort()

    def client_lost(self) -> None:
        """End the other half: there is nobody to answer any more."""
        self.release()
        self._begun.set()
        if self.server is not None:
            self.server.abort()
        self._ended(self)

    def take_early(self, data: bytes) -> None:
        """Keep what the client says before there is a server; take no more once it has begun."""
        self.early += data
        if self.client is not None and (
            not _PREFACE.startswith(self.early) or len(self.early) == len(_PREFACE)
        ):
            self.client.pause_reading()
            self._begun.set()

    def server_lost(self) -> None:
        """Send out what the server has said, then end."""
        self.release()
        if self.client is not None:
            self.client.close()


class _ClientSide(asyncio.Protocol):
    __slots__ = ("_relay",)

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        client = cast("asyncio.Transport", transport)
        client.set_write_buffer_limits(_HIGH_WATER_BYTES)
        self._relay.client = client

    def data_received(self, data: bytes) -> None:
        relay = self._relay
        relay.quiet = 0
        if relay.server is None:
            relay.take_early(data)
        else:
            relay.server.write(data)

    def eof_received(self) -> bool:
        """Pass it on; keep what can be half open, for the answer."""
        client, server = self._relay.client, self._relay.server
        if client is None or server is None or server.is_closing():
            return False
        server.write_eof()
        return client.get_extra_info("ssl_object") is None

    def pause_writing(self) -> None:
        if self._relay.server is not None:
            self._relay.server.pause_reading()

    def resume_writing(self) -> None:
        if self._relay.server is not None and not self._relay.server.is_closing():
            self._relay.server.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._relay.client_lost()


class _ServerSide(asyncio.Protocol):
    __slots__ = ("_relay",)

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        relay = self._relay
        server = cast("asyncio.Transport", transport)
        if relay.client is None or relay.client.is_closing():
            server.abort()
            return
        server.set_write_buffer_limits(_HIGH_WATER_BYTES)
        relay.server = server
        server.write(relay.early)
        relay.early = b""
        relay.client.resume_reading()

    def data_received(self, data: bytes) -> None:
        relay = self._relay
        relay.quiet = 0
        if relay.client is not None:
            relay.client.write(data)

    def pause_writing(self) -> None:
        if self._relay.client is not None:
            self._relay.client.pause_reading()

    def resume_writing(self) -> None:
        if self._relay.client is not None and not self._relay.client.is_closing():
            self._relay.client.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self._relay.server_lost()
