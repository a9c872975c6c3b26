"""gRPC services in this process on a loopback port, and clients of both families."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

import grpc
import grpc.aio
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from apidiscovery_service.core.model import Contribution
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import DiscoveryService, GrpcServer
from apidiscovery_service.serving.grpc.calls import Service
from google.protobuf.message import Message
from grpclib.client import Channel
from metrics_text import Scraped
from waiting import WITHIN_S

SERVICE = "apidiscovery.service.v1.DiscoveryService"

_LARGE_BYTES = 64 * 1024 * 1024

MessageT = TypeVar("MessageT", bound=Message)
StubT = TypeVar("StubT")
Stub: TypeAlias = "discovery_pb2_grpc.DiscoveryServiceAsyncStub"
WatchCall = grpc.aio.UnaryStreamCall[
    discovery_pb2.WatchDiscoveryRequest, discovery_pb2.WatchDiscoveryResponse
]


@dataclass(kw_only=True)
class GrpcServed(Scraped):
    """A gRPC server of this process.

    Attributes:
        channel_options: Options of grpcio's channels; by default messages are limited to 4 MiB.
        ready: Whether the services say that their sources have been read.
        port: The port of the running server.
    """

    channel_options: Sequence[tuple[str, Any]] = ()
    metrics: Metrics = field(default_factory=Metrics)
    ready: bool = True
    port: int = 0
    server: GrpcServer = field(init=False)

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(
        self,
        *services: Service,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        address: str = "127.0.0.1:0",
    ) -> AsyncGenerator[None]:
        """Serve these services."""
        self.server = GrpcServer(*services, interceptors=interceptors)
        self.port = await self.server.start(address)
        if self.ready:
            await self.server.set_ready()
        try:
            yield
        finally:
            await self.server.stop(0)

    @asynccontextmanager
    async def channel(self) -> AsyncGenerator[grpc.aio.Channel]:
        """Connect with grpcio."""
        async with grpc.aio.insecure_channel(self.target, self.channel_options) as channel:
            yield channel

    @asynccontextmanager
    async def connected(
        self, stub_type: Callable[[grpc.aio.Channel], StubT]
    ) -> AsyncGenerator[StubT]:
        """Connect with a stub of grpcio, on a channel of its own."""
        async with self.channel() as channel:
            yield stub_type(channel)

    @asynccontextmanager
    async def grpclib_channel(self) -> AsyncGenerator[Channel]:
        """Connect with grpclib, for betterproto's stubs."""
        channel = Channel("127.0.0.1", self.port)
        try:
            yield channel
        finally:
            channel.close()


@dataclass
class Served(GrpcServed):
    """A server of DiscoveryService.

    Attributes:
        statuses: The answer of ListSources.
    """

    registry: Registry
    encoding: CurrentEncoding
    statuses: tuple[SourceStatus, ...] = ()

    def stub(self) -> AbstractAsyncContextManager[Stub]:
        return self.connected(discovery_pb2_grpc.DiscoveryServiceStub)


@asynccontextmanager
async def serving(
    *contributions: Contribution, gates: str = "", ready: bool = True
) -> AsyncGenerator[Served]:
    """Serve DiscoveryService with these contributions, published one after the other."""
    registry = Registry()
    for contribution in contributions:
        registry.publish(contribution)
    served = Served(
        registry,
        CurrentEncoding(registry),
        channel_options=[("grpc.max_receive_message_length", _LARGE_BYTES)],
        ready=ready,
    )
    discovery = DiscoveryService(
        registry,
        served.encoding,
        FeatureGates.parse(gates),
        served.metrics,
        ready=lambda: served.ready,
        statuses=lambda: served.statuses,
    )
    async with served.running(discovery):
        yield served


async def raw_get(channel: grpc.aio.Channel, request: discovery_pb2.GetDiscoveryRequest) -> bytes:
    """Return the encoded answer of GetDiscovery."""
    call: grpc.aio.UnaryUnaryMultiCallable[discovery_pb2.GetDiscoveryRequest, bytes]
    call = channel.unary_unary(
        f"/{SERVICE}/GetDiscovery", discovery_pb2.GetDiscoveryRequest.SerializeToString
    )
    return await call(request, timeout=WITHIN_S)


def raw_watch(
    channel: grpc.aio.Channel, request: discovery_pb2.WatchDiscoveryRequest
) -> grpc.aio.UnaryStreamCall[discovery_pb2.WatchDiscoveryRequest, bytes]:
    """Begin a watch of encoded messages."""
    call: grpc.aio.UnaryStreamMultiCallable[discovery_pb2.WatchDiscoveryRequest, bytes]
    call = channel.unary_stream(
        f"/{SERVICE}/WatchDiscovery", discovery_pb2.WatchDiscoveryRequest.SerializeToString
    )
    return call(request)


async def next_bytes(
    call: grpc.aio.UnaryStreamCall[discovery_pb2.WatchDiscoveryRequest, bytes],
) -> bytes:
    """Return the next message of a raw watch."""
    async with asyncio.timeout(WITHIN_S):
        message = await call.read()
    assert isinstance(message, bytes)
    return message


async def next_message(call: grpc.aio.UnaryStreamCall[Any, MessageT]) -> MessageT:
    """Return the next message of a stream, which must not end."""
    async with asyncio.timeout(WITHIN_S):
        message = await call.read()
    assert message is not grpc.aio.EOF, await call.code()
    return cast("MessageT", message)


async def next_changes(call: WatchCall) -> discovery_pb2.WatchDiscoveryResponse.Changes:
    """Return the next message of a watch, which must not be a heartbeat."""
    message = await next_message(call)
    assert message.WhichOneof("event") == "changes"
    return message.changes
