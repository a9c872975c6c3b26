"""FleetService in this process on a real loopback socket, and clusters for it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

import grpc.aio
from apidiscovery.service.v1 import fleet_pb2, fleet_pb2_grpc
from apidiscovery_betterproto.apidiscovery.service import v1 as betterproto_service
from apidiscovery_service.core.cluster import Cluster, Dialect
from apidiscovery_service.core.model import Group, GroupVersionKind, Resource, Version
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import GrpcServer
from apidiscovery_service.serving.grpc.fleet import FleetService
from grpclib.client import Channel

# What anything here may take: far more than it does, and less than a hang.
DEADLINE_S = 30.0
SINCE = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)

Stub: TypeAlias = "fleet_pb2_grpc.FleetServiceAsyncStub"
WatchCall: TypeAlias = (
    "grpc.aio.UnaryStreamCall[fleet_pb2.WatchFleetRequest, fleet_pb2.WatchFleetResponse]"
)


def group(name: str, *kinds: str, versions: tuple[str, ...] = ("v1",)) -> Group:
    """Return a group that has kinds in all its versions."""
    resources = tuple(
        Resource(
            f"{kind.lower()}s", GroupVersionKind("", "", kind), "Namespaced", kind.lower(), ("get",)
        )
        for kind in kinds
    )
    return Group(name, tuple(Version(version, resources) for version in versions))


CORE = (group("", "Pod"),)


def cluster(
    name: str,
    *named: Group,
    state: SourceState = SourceState.CURRENT,
    error: str = "",
    labels: Mapping[str, str] | None = None,
) -> Cluster:
    """Return a cluster that serves pods and named groups."""
    status = SourceStatus(f"upstream:{name}", state, SINCE, error)
    dialect = Dialect(version=b'{"gitVersion":"v1.36.2"}')
    return Cluster(name, status, labels or {}, CORE, named, dialect=dialect)


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
async def serving(*clusters: Cluster, ready: bool = True) -> AsyncGenerator[Served]:
    """Serve these clusters."""
    fleet = Fleet()
    fleet.update(clusters)
    served = Served(fleet, ready=ready)
    service = FleetService(
        lambda _context: fleet.scope(), served.metrics, ready=lambda: served.ready
    )
    served.server = GrpcServer(service)
    served.port = await served.server.start("127.0.0.1:0")
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


async def next_message(call: WatchCall) -> fleet_pb2.WatchFleetResponse:
    """Return the next message of a watch."""
    async with asyncio.timeout(DEADLINE_S):
        message = await call.read()
    assert isinstance(message, fleet_pb2.WatchFleetResponse)
    return message


async def next_changes(call: WatchCall) -> fleet_pb2.WatchFleetResponse.Changes:
    """Return the next message of a watch, which must not be a heartbeat."""
    message = await next_message(call)
    assert message.WhichOneof("event") == "changes"
    return message.changes
