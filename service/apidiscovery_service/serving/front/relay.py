"""Relays the bytes of one connection between client and server.

A connection to the server is made once the client has sent the bytes that distinguish HTTP/1.1 and
HTTP/2: Granian waits for them forever, the front does not. Each side stops reading while the other
cannot write, so that the buffers of the two transports bound what is in flight. When one side ends,
its bytes are delivered before the other is closed.
"""

import asyncio
from collections.abc import Callable
from typing import cast

# Unwritten bytes from which on the other side stops reading.
_HIGH_WATER_BYTES = 256 * 1024

# The connection preface of HTTP/2 (RFC 9113, section 3.4); a part of it may be of either version.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Relay:
    """One connection of a client, relayed to a server.

    Attributes:
        client_side: The protocol of the client's connection.
        server_side: The protocol of the connection to the server.
        client: The transport to the client, None before its handshake.
        server: The transport to the server, None before it is connected.
        key: Key by which the connection is counted.
        early: Bytes of the client before the server is connected, as many as the transport reads.
        certified: Whether the client has a certificate.
        idle_checks: Searches for idle connections since the last byte.
    """

    __slots__ = (
        "_begun",
        "_ended",
        "_release",
        "certified",
        "client",
        "client_side",
        "early",
        "idle_checks",
        "key",
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
        self.idle_checks = 0
        self.early = b""
        self._begun = asyncio.Event()
        self._ended = ended
        self._release: Callable[[], None] | None = None

    async def has_begun(self) -> bool:
        """Wait for the client's first bytes; return False if it has gone instead."""
        await self._begun.wait()
        return self.client is not None and not self.client.is_closing()

    def on_release(self, release: Callable[[], None]) -> None:
        """Call `release` once, when either side has ended."""
        self._release = release

    def release(self) -> None:
        """Call the function given to `on_release`, the first time."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def abort(self) -> None:
        """End both sides at once."""
        self.release()
        for transport in (self.client, self.server):
            if transport is not None:
                transport.abort()

    def client_lost(self) -> None:
        """End the connection to the server."""
        self.release()
        self._begun.set()
        if self.server is not None:
            self.server.abort()
        self._ended(self)

    def take_early(self, data: bytes) -> None:
        """Buffer the first bytes of the client, until they show the HTTP version."""
        self.early += data
        if self.client is not None and (
            not _PREFACE.startswith(self.early) or len(self.early) == len(_PREFACE)
        ):
            self.client.pause_reading()
            self._begun.set()

    def server_lost(self) -> None:
        """End after the bytes of the server are delivered."""
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
        relay.idle_checks = 0
        if relay.server is None:
            relay.take_early(data)
        else:
            relay.server.write(data)

    def eof_received(self) -> bool:
        """Relay the end; return whether the client's side stays open for the answer."""
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
        relay.idle_checks = 0
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
