"""FleetService in this process."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import grpc.aio
from apidiscovery.service.v1 import fleet_pb2, fleet_pb2_grpc
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.serving.grpc.fleet import FleetService
from fleet_clusters import SINCE, fleet_of
from grpc_server import GrpcServed, next_message

Stub: TypeAlias = "fleet_pb2_grpc.FleetServiceAsyncStub"
WatchCall: TypeAlias = (
    "grpc.aio.UnaryStreamCall[fleet_pb2.WatchFleetRequest, fleet_pb2.WatchFleetResponse]"
)


def never_asked(name: str) -> Cluster:
    """Return a cluster that has not been asked yet."""
    return Cluster(name, SourceStatus(f"upstream:{name}", SourceState.PENDING, SINCE))


@dataclass
class Served(GrpcServed):
    """A server of FleetService."""

    fleet: Fleet

    def stub(self) -> AbstractAsyncContextManager[Stub]:
        return self.connected(fleet_pb2_grpc.FleetServiceStub)


@asynccontextmanager
async def serving(*clusters: Cluster, ready: bool = True, port: int = 0) -> AsyncGenerator[Served]:
    """Serve these clusters, on a port or any free one."""
    fleet = fleet_of(*clusters)
    served = Served(fleet, ready=ready)
    service = FleetService(
        lambda _context: fleet.scope(), served.metrics, ready=lambda: served.ready
    )
    async with served.running(service, address=f"127.0.0.1:{port}"):
        yield served


async def next_changes(call: WatchCall) -> fleet_pb2.WatchFleetResponse.Changes:
    """Return the next message of a watch, which must not be a heartbeat."""
    message = await next_message(call)
    assert message.WhichOneof("event") == "changes"
    return message.changes
