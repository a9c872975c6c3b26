"""Asks DiscoveryService with the stubs of grpcio, for asyncio."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, cast

import grpc
import grpc.aio
from apidiscovery.service.v1 import discovery_pb2_grpc

from apidiscovery_client._grpc.calls import (
    GrpcServer,
    channel_options,
    require_grpcio_credentials,
)
from apidiscovery_client._grpc.errors import failure, plain_failure
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.transports import _protobuf_messages
from apidiscovery_client.transports._async_discovery import AsyncDiscovery
from apidiscovery_client.transports._async_waiting import AsyncRead
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import CallFailedError, CountingChannel, Metadata
from apidiscovery_client.transports._grpc_watching import Patience

if TYPE_CHECKING:
    from apidiscovery.service.v1 import discovery_pb2
    from apidiscovery.service.v1.discovery_pb2_grpc import DiscoveryServiceAsyncStub

    WatchCall = grpc.aio.UnaryStreamCall[
        discovery_pb2.WatchDiscoveryRequest, discovery_pb2.WatchDiscoveryResponse
    ]


class AsyncGrpcTransport(AsyncDiscovery):
    """An `AsyncTransport`, for the event loop in which it is first used.

    Args:
        server: The server.
        heartbeat_s: The interval of heartbeats in a watch; after twice that the connection counts
            as dead. Our servers accept 1 to 3600.
        unreachable_s: How long a server may be unreachable in a watch before it is stale.

    Raises:
        InvalidConfiguration: The server has a `context` for grpclib, and no credentials of grpcio.
    """

    def __init__(
        self, server: GrpcServer, *, heartbeat_s: float = 30.0, unreachable_s: float = 30.0
    ) -> None:
        require_grpcio_credentials(server)
        patience = Patience(heartbeat_s, unreachable_s)
        super().__init__(
            server, _protobuf_messages, lambda traffic: _AioCalls(server, traffic), patience
        )


class _AioCalls:
    def __init__(self, server: GrpcServer, traffic: Traffic) -> None:
        self._server = server
        self._traffic = traffic
        self._channel: grpc.aio.Channel | None = None
        self._channels: set[grpc.aio.Channel] = set()
        self._is_closed = False

    async def once(
        self, method: str, request: Message, timeout_s: float | None, metadata: Metadata
    ) -> Message:
        if self._channel is None:  # made here, for it belongs to the event loop that runs
            self._channel = self._opened()
        with _failing():
            call = getattr(self._stub(self._channel), method)
            return await call(request, timeout=timeout_s, metadata=metadata)

    @contextlib.asynccontextmanager
    async def watch(self, request: Message, metadata: Metadata) -> AsyncGenerator[AsyncRead]:
        channel = self._opened()
        try:
            with _failing():
                call = self._stub(channel).WatchDiscovery(request, metadata=metadata)
            yield lambda: _read(call)
        finally:
            self._channels.discard(channel)
            await channel.close()

    async def close(self) -> None:
        self._is_closed = True
        for channel in tuple(self._channels):
            await channel.close()

    def _opened(self) -> grpc.aio.Channel:
        if self._is_closed:
            raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, "closed"))
        channel = _open_channel(self._server)
        self._channels.add(channel)
        return channel

    def _stub(self, channel: grpc.aio.Channel) -> "DiscoveryServiceAsyncStub":
        counting = CountingChannel(channel, self._traffic)
        # The stub asks for no more of a channel than this one has.
        return discovery_pb2_grpc.DiscoveryServiceStub(cast("grpc.aio.Channel", counting))


async def _read(call: "WatchCall") -> Message | None:
    with _failing():
        message = await call.read()
    return None if message is grpc.aio.EOF else message


def _open_channel(server: GrpcServer) -> grpc.aio.Channel:
    options = channel_options(server)
    if server.credentials is None:
        return grpc.aio.insecure_channel(server.address, options)
    return grpc.aio.secure_channel(server.address, server.credentials, options)


@contextlib.contextmanager
def _failing() -> Generator[None]:
    """Raise `CallFailedError` for what grpc.aio raises."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise CallFailedError(failure(error)) from None
    except grpc.aio.UsageError as error:  # the channel was closed
        raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, str(error))) from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancels this task: the channel was closed under the call.
        raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, "closed")) from None
