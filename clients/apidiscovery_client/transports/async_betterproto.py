"""Asks DiscoveryService with the stubs of betterproto on grpclib, for asyncio."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import cast

import grpc

from apidiscovery_client._errors import InvalidConfiguration, MissingExtra
from apidiscovery_client._grpc.calls import (
    KEEPALIVE_TIME_S,
    KEEPALIVE_TIMEOUT_S,
    MAX_ANSWER_BYTES,
    GrpcServer,
)
from apidiscovery_client._grpc.errors import CallFailedError, Failure, plain_failure, rich_failure
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.transports import _betterproto_messages
from apidiscovery_client.transports._async_discovery import AsyncDiscovery
from apidiscovery_client.transports._async_waiting import AsyncRead
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import (
    GET,
    LIST,
    Metadata,
    decoded,
)
from apidiscovery_client.transports._grpc_watching import Patience

try:
    from grpclib.client import Channel
    from grpclib.config import Configuration
    from grpclib.const import Status
    from grpclib.encoding.base import StatusDetailsCodecBase
    from grpclib.encoding.proto import ProtoCodec
    from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
except ModuleNotFoundError as error:
    raise MissingExtra("grpclib", "betterproto") from error

# betterproto decodes about 0.1 MB in a second: larger messages than this are decoded in a thread.
SMALL_BYTES = 8 << 10

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class AsyncBetterprotoTransport(AsyncDiscovery):
    """An `AsyncTransport`, for the event loop in which it is first used.

    Args:
        server: The server; for TLS it must have a `context`.
        heartbeat_s: The interval of heartbeats in a watch; after twice that the connection counts
            as dead. Our servers accept 1 to 3600.
        unreachable_s: How long a server may be unreachable in a watch before it is stale.

    Raises:
        InvalidConfiguration: The server has credentials of grpcio, and no `context`.
    """

    def __init__(
        self, server: GrpcServer, *, heartbeat_s: float = 30.0, unreachable_s: float = 30.0
    ) -> None:
        if server.credentials is not None and server.context is None:
            raise InvalidConfiguration(
                f"{server.address}: grpclib cannot use credentials of grpcio: give an SSLContext as"
                " the server's context, too"
            )
        patience = Patience(heartbeat_s, unreachable_s)
        super().__init__(
            server,
            _betterproto_messages.MESSAGES,
            lambda traffic: _GrpclibCalls(server, traffic),
            patience,
        )


class _GrpclibCalls:
    def __init__(self, server: GrpcServer, traffic: Traffic) -> None:
        self._server = server
        self._codec = _Codec(traffic)
        self._channel: Channel | None = None
        self._channels: set[Channel] = set()
        self._is_closed = False

    async def once(
        self, method: str, request: Message, timeout_s: float | None, metadata: Metadata
    ) -> Message:
        if self._channel is None:  # made here, for it belongs to the event loop that runs
            self._channel = self._opened()
        channel = self._channel
        try:
            return await self._called(channel, method, request, timeout_s, metadata)
        except CallFailedError as error:
            # The other end may be gone without a sign, which grpclib finds out much later.
            if error.failed.code == grpc.StatusCode.DEADLINE_EXCEEDED:
                self._drop(channel)
            raise

    async def _called(
        self,
        channel: Channel,
        method: str,
        request: Message,
        timeout_s: float | None,
        metadata: Metadata,
    ) -> Message:
        stub = _betterproto_messages.async_stub(channel)
        calls: dict[str, Callable[..., Message]]
        calls = {GET: stub.get_discovery, LIST: stub.list_sources}
        began = time.monotonic()
        await self._connected(channel, timeout_s)
        left_s = None if timeout_s is None else max(0.0, began + timeout_s - time.monotonic())
        with _failing():
            message = await calls[method](request, timeout=left_s, metadata=metadata)
        return await _decoded(message)

    async def _connected(self, channel: Channel, timeout_s: float | None = None) -> None:
        """Return once there is a connection, for which grpclib would wait as long as TCP does."""
        within_s = self._server.connect_s
        is_last = timeout_s is not None and timeout_s <= within_s
        limit = asyncio.timeout(timeout_s if is_last else within_s)
        with _failing():
            try:
                async with limit:
                    await channel.__connect__()
            except TimeoutError:
                if is_last or not limit.expired():
                    raise
                said = f"no connection within {within_s:g} s"
                failed = plain_failure(grpc.StatusCode.UNAVAILABLE, said, is_broken=True)
                raise CallFailedError(failed) from None
        if channel not in self._channels:  # closed before it had a connection that can be closed
            channel.close()
            raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, "closed"))

    def _drop(self, channel: Channel) -> None:
        """Let the next call open another connection."""
        if self._channel is channel:
            self._channel = None
        self._channels.discard(channel)
        channel.close()

    @contextlib.asynccontextmanager
    async def watch(self, request: Message, metadata: Metadata) -> AsyncGenerator[AsyncRead]:
        channel = self._opened()
        stub = _betterproto_messages.async_stub(channel)
        # betterproto calls it an iterator; it is a generator.
        told = stub.watch_discovery(request, metadata=metadata)
        messages = cast("AsyncGenerator[Message]", told)
        try:
            await self._connected(channel)
            yield lambda: _next(messages)
        finally:
            try:
                await messages.aclose()
            finally:
                self._drop(channel)

    async def close(self) -> None:
        self._is_closed = True
        while self._channels:
            self._channels.pop().close()

    def _opened(self) -> Channel:
        if self._is_closed:
            raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, "closed"))
        channel = _open_channel(self._server, self._codec)
        self._channels.add(channel)
        return channel


@dataclass(frozen=True, slots=True)
class _Encoded:
    data: bytes
    read: Callable[[bytes], Message]


class _Codec(ProtoCodec):
    """Counts bytes, refuses messages that are too large, and leaves large ones encoded."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def decode(self, data: bytes, message_type: Message) -> Message:
        self._traffic.body_bytes += len(data)
        if len(data) > MAX_ANSWER_BYTES:
            said = f"Received message larger than max ({len(data)} vs. {MAX_ANSWER_BYTES})"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, said)
        if len(data) > SMALL_BYTES:
            return _Encoded(data, message_type.FromString)
        return decoded(data, message_type.FromString)


class _DetailsCodec(StatusDetailsCodecBase):
    """Leaves the details of an error encoded."""

    def encode(self, status: Status, message: str | None, details: Message) -> bytes:
        raise NotImplementedError  # clients send no status

    def decode(self, status: Status, message: str | None, data: bytes) -> bytes:  # noqa: ARG002 - the base class has them
        return data


def _open_channel(server: GrpcServer, codec: _Codec) -> Channel:
    host, _, port = server.address.rpartition(":")
    if server.context:
        server.context.set_alpn_protocols(["h2"])
    return Channel(
        host.strip("[]"),
        int(port),
        codec=codec,
        status_details_codec=_DetailsCodec(),
        ssl=server.context,
        config=Configuration(
            ssl_target_name_override=server.tls_server_name,
            # Without these a fetch over a connection whose other end is gone would wait for as long
            # as TCP does; grpclib has them under names that are not public.
            _keepalive_time=KEEPALIVE_TIME_S,
            _keepalive_timeout=KEEPALIVE_TIMEOUT_S,
            _http2_max_pings_without_data=0,
        ),
    )


async def _next(messages: AsyncIterator[Message]) -> Message | None:
    with _failing():
        message = await anext(messages, None)
    return await _decoded(message)


async def _decoded(message: Message | None) -> Message | None:
    if isinstance(message, _Encoded):
        return await asyncio.to_thread(decoded, message.data, message.read)
    return message


@contextlib.contextmanager
def _failing() -> Generator[None]:
    """Raise `CallFailedError` for what grpclib raises."""
    try:
        yield
    except GRPCError as error:
        raise CallFailedError(_failure(error)) from None
    except TimeoutError:
        raise CallFailedError(plain_failure(grpc.StatusCode.DEADLINE_EXCEEDED, "")) from None
    except (OSError, StreamTerminatedError) as error:
        failed = plain_failure(grpc.StatusCode.UNAVAILABLE, _reason(error), is_broken=True)
        raise CallFailedError(failed) from None
    except (ProtocolError, AssertionError, NotImplementedError) as error:
        # An answer without a message, or a compressed one.
        said = str(error) or "the server sent no message"
        raise CallFailedError(plain_failure(grpc.StatusCode.INTERNAL, said)) from None


def _failure(error: GRPCError) -> Failure:
    code = _CODES.get(error.status.value, grpc.StatusCode.UNKNOWN)
    details = error.details if isinstance(error.details, bytes) else b""
    return rich_failure(code, error.message or "", details)


def _reason(error: Exception) -> str:
    """Return the reason in the words of grpcio."""
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = error.verify_message
        if "ostname mismatch" in detail or "IP address mismatch" in detail:
            return "handshake failed: Hostname Verification Check failed"
        return f"handshake failed: CERTIFICATE_VERIFY_FAILED: {detail}"
    if isinstance(error, ssl.SSLError):
        return f"handshake failed: OPENSSL_internal:{error.reason or error}"
    if isinstance(error, ConnectionRefusedError):
        return "Connection refused"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
