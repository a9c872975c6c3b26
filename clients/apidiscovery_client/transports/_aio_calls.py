"""Calls over a channel of grpcio with asyncio, with messages of any service."""

import contextlib
from collections.abc import AsyncGenerator, Callable

import grpc
import grpc.aio

from apidiscovery_client._grpc.calls import (
    GrpcServer,
    aio_failing,
    channel_options,
    require_grpcio_credentials,
)
from apidiscovery_client._grpc.errors import CallFailedError, plain_failure
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.transports._async_waiting import AsyncRead
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import (
    CountingChannel,
    Metadata,
    Stub,
)
from apidiscovery_client.transports._grpc_watching import Patience


class AioCalls:
    """Implements `_async_calling.AsyncCalls`, for the event loop in which it is first used.

    Raises:
        InvalidConfiguration: The server has a `context` for grpclib, and no credentials of grpcio.
    """

    def __init__(
        self,
        server: GrpcServer,
        traffic: Traffic,
        stub: Callable[[CountingChannel], Stub],
        watch: str,
        _patience: Patience,
    ) -> None:
        require_grpcio_credentials(server)
        self._server = server
        self._traffic = traffic
        self._stub_of = stub
        self._watch = watch
        self._channel: grpc.aio.Channel | None = None
        self._channels: set[grpc.aio.Channel] = set()
        self._is_closed = False

    async def once(
        self, method: str, request: Message, timeout_s: float | None, metadata: Metadata
    ) -> Message:
        """Return the answer of a unary method."""
        if self._channel is None:  # made here, for it belongs to the event loop that runs
            self._channel = self._opened()
        with aio_failing():
            call: Message = getattr(self._stub(self._channel), method)
            return await call(request, timeout=timeout_s, metadata=metadata)

    @contextlib.asynccontextmanager
    async def watch(self, request: Message, metadata: Metadata) -> AsyncGenerator[AsyncRead]:
        """Begin a watch over a new connection, because the earlier one may be dead."""
        channel = self._opened()
        try:
            with aio_failing():
                call: Message = getattr(self._stub(channel), self._watch)(
                    request, metadata=metadata
                )
            yield lambda: _read(call)
        finally:
            self._channels.discard(channel)
            await channel.close()

    async def close(self) -> None:
        """End all calls and close all connections; it may be called again."""
        self._is_closed = True
        for channel in tuple(self._channels):
            await channel.close()

    def _opened(self) -> grpc.aio.Channel:
        if self._is_closed:
            raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, "closed"))
        channel = _open_channel(self._server)
        self._channels.add(channel)
        return channel

    def _stub(self, channel: grpc.aio.Channel) -> Stub:
        return self._stub_of(CountingChannel(channel, self._traffic))


async def _read(call: Message) -> Message | None:
    with aio_failing():
        message: Message = await call.read()
    return None if message is grpc.aio.EOF else message


def _open_channel(server: GrpcServer) -> grpc.aio.Channel:
    options = channel_options(server)
    if server.credentials is None:
        return grpc.aio.insecure_channel(server.address, options)
    return grpc.aio.secure_channel(server.address, server.credentials, options)
