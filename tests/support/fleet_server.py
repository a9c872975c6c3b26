"""FleetService in this process on a real loopback socket, and clients of both families."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc.aio
from apidiscovery.service.v1 import fleet_pb2, fleet_pb2_grpc
from apidiscovery_betterproto.apidiscovery.service import v1 as betterproto_service
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import GrpcServer
from apidiscovery_service.serving.grpc.fleet import FleetService
from fleet_clusters import SINCE, fleet_of
from grpc_server import next_message
from grpclib.client import Channel

Stub: TypeAlias = "fleet_pb2_grpc.FleetServiceAsyncStub"
WatchCall: TypeAlias = (
    "grpc.aio.UnaryStreamCall[fleet_pb2.WatchFleetRequest, fleet_pb2.WatchFleetResponse]"
)


def never_asked(name: str) -> Cluster:
    """Return a cluster of which nothing is known."""
    return Cluster(name, SourceStatus(f"upstream:{name}", SourceState.PENDING, SINCE))


@dataclass
class Served:
    """A running server, and its fleet."""

    fleet: Fleet
    metrics: Metrics = field(default_factory=Metrics)
    ready: bool = True
    port: int = 0
    server: GrpcServer = field(init=False)

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(*clusters: Cluster, ready: bool = True, port: int = 0) -> AsyncGenerator[Served]:
    """Serve these clusters, on a port or any free one."""
    fleet = fleet_of(*clusters)
    served = Served(fleet, ready=ready)
    service = FleetService(
        lambda _context: fleet.scope(), served.metrics, ready=lambda: served.ready
    )
    served.server = GrpcServer(service)
    served.port = await served.server.start(f"127.0.0.1:{port}")
    try:
        yield served
    finally:
        await served.server.stop(0)


@asynccontextmanager
async def stub_of(served: Served) -> AsyncGenerator[Stub]:
    """Connect with grpcio's stub and its limits on messages."""
    async with grpc.aio.insecure_channel(served.target) as channel:
        yield fleet_pb2_grpc.FleetServiceStub(channel)


@asynccontextmanager
async def betterproto_stub_of(
    served: Served,
) -> AsyncGenerator[betterproto_service.FleetServiceStub]:
    """Connect with betterproto's stub, over grpclib."""
    channel = Channel("127.0.0.1", served.port)
    try:
        yield betterproto_service.FleetServiceStub(channel)
    finally:
        channel.close()


async def next_changes(call: WatchCall) -> fleet_pb2.WatchFleetResponse.Changes:
    """Return the next message of a watch, which must not be a heartbeat."""
    message = await next_message(call)
    assert message.WhichOneof("event") == "changes"
    return message.changes
