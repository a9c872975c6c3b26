"""DiscoveryService in this process, on a real loopback socket, and clients of both families."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import grpc
import grpc.aio
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from apidiscovery_betterproto.apidiscovery.service import v1 as betterproto_service
from apidiscovery_service.core.model import Contribution
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import DiscoveryService, GrpcServer
from google.protobuf.message import Message
from grpclib.client import Channel
from metrics_text import sample_sum

SERVICE = "apidiscovery.service.v1.DiscoveryService"

# What anything here may take: far more than it does, and less than a hang.
DEADLINE_S = 30.0  # a busy machine is many times slower

_LARGE_BYTES = 64 * 1024 * 1024
_OPTIONS = (("grpc.max_receive_message_length", _LARGE_BYTES),)

MessageT = TypeVar("MessageT", bound=Message)
WatchCall = grpc.aio.UnaryStreamCall[
    discovery_pb2.WatchDiscoveryRequest, discovery_pb2.WatchDiscoveryResponse
]


@dataclass
class Served:
    """A running server and what is behind it.

    Attributes:
        ready: Whether the service says that its sources have been read.
        statuses: What it says of its sources.
    """

    registry: Registry
    metrics: Metrics
    encoding: CurrentEncoding
    server: GrpcServer = field(init=False)
    port: int = 0
    ready: bool = True
    statuses: tuple[SourceStatus, ...] = ()

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def sample(self, name: str, **labels: str) -> float:
        """Return a metric as a scrape shows it; 0 when it is not there."""
        return sample_sum(self.metrics.text().decode(), name, **labels)

    @property
    def watchers(self) -> float:
        return self.sample("apidiscovery_grpc_watchers")


@asynccontextmanager
async def serving(
    *contributions: Contribution,
    gates: str = "",
    ready: bool = True,
) -> AsyncGenerator[Served]:
    """Serve the contributions, taken one after the other."""
    registry = Registry()
    for contribution in contributions:
        registry.publish(contribution)
    metrics = Metrics()
    served = Served(registry, metrics, CurrentEncoding(registry), ready=ready)
    served.server = GrpcServer(
        DiscoveryService(
            registry,
            served.encoding,
            FeatureGates.parse(gates),
            metrics,
            ready=lambda: served.ready,
            statuses=lambda: served.statuses,
        )
    )
    served.port = await served.server.start("127.0.0.1:0")
    if ready:
        await served.server.set_ready()
    try:
        yield served
    finally:
        await served.server.stop(0)


@asynccontextmanager
async def channel_to(served: Served) -> AsyncGenerator[grpc.aio.Channel]:
    """Connect with grpcio."""
    async with grpc.aio.insecure_channel(served.target, options=_OPTIONS) as channel:
        yield channel


@asynccontextmanager
async def stub_of(
    served: Served,
) -> AsyncGenerator["discovery_pb2_grpc.DiscoveryServiceAsyncStub"]:
    """Connect with grpcio's stub."""
    async with channel_to(served) as channel:
        yield discovery_pb2_grpc.DiscoveryServiceStub(channel)


@asynccontextmanager
async def betterproto_stub_of(
    served: Served,
) -> AsyncGenerator[betterproto_service.DiscoveryServiceStub]:
    """Connect with betterproto's stub, over grpclib."""
    channel = Channel("127.0.0.1", served.port)
    try:
        yield betterproto_service.DiscoveryServiceStub(channel)
    finally:
        channel.close()


async def raw_get(channel: grpc.aio.Channel, request: discovery_pb2.GetDiscoveryRequest) -> bytes:
    """Return the answer of GetDiscovery as it came."""
    call: grpc.aio.UnaryUnaryMultiCallable[discovery_pb2.GetDiscoveryRequest, bytes]
    call = channel.unary_unary(
        f"/{SERVICE}/GetDiscovery", discovery_pb2.GetDiscoveryRequest.SerializeToString
    )
    return await call(request, timeout=DEADLINE_S)


def raw_watch(
    channel: grpc.aio.Channel, request: discovery_pb2.WatchDiscoveryRequest
) -> grpc.aio.UnaryStreamCall[discovery_pb2.WatchDiscoveryRequest, bytes]:
    """Begin a watch that gives its messages as they come."""
    call: grpc.aio.UnaryStreamMultiCallable[discovery_pb2.WatchDiscoveryRequest, bytes]
    call = channel.unary_stream(
        f"/{SERVICE}/WatchDiscovery", discovery_pb2.WatchDiscoveryRequest.SerializeToString
    )
    return call(request)


async def next_bytes(
    call: grpc.aio.UnaryStreamCall[discovery_pb2.WatchDiscoveryRequest, bytes],
) -> bytes:
    """Return the next message of a raw watch."""
    async with asyncio.timeout(DEADLINE_S):
        message = await call.read()
    assert isinstance(message, bytes)
    return message


async def next_message(call: grpc.aio.UnaryStreamCall[Any, MessageT]) -> MessageT:
    """Return the next message of a stream, which must not end."""
    async with asyncio.timeout(DEADLINE_S):
        message = await call.read()
    assert message is not grpc.aio.EOF, await call.code()
    return cast("MessageT", message)


async def next_changes(call: WatchCall) -> discovery_pb2.WatchDiscoveryResponse.Changes:
    """Return the next message of a watch, which must not be a heartbeat."""
    message = await next_message(call)
    assert message.WhichOneof("event") == "changes"
    return message.changes


async def until(condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition, asking again and again."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
