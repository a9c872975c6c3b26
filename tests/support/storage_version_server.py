"""StorageVersionService in this process on a real loopback socket, and clients of both families."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery_betterproto.apidiscovery.service import v1 as betterproto_service
from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.core.model import Contribution
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import DiscoveryService, GrpcServer
from apidiscovery_service.serving.grpc.storage_versions import StorageVersionService
from apidiscovery_service.storage_versions.state import StorageVersions
from apidiscovery_service.store.memory import MemoryStore
from grpclib.client import Channel
from metrics_text import sample_sum
from store_wrapper import DisturbedStore

DEADLINE_S = 10.0

Stub: TypeAlias = "storage_version_pb2_grpc.StorageVersionServiceAsyncStub"
WatchCall: TypeAlias = grpc.aio.UnaryStreamCall[
    pb.WatchStorageVersionsRequest, pb.WatchStorageVersionsResponse
]
WaitCall: TypeAlias = grpc.aio.UnaryStreamCall[
    pb.WaitForAgreementRequest, pb.WaitForAgreementResponse
]


@dataclass
class Served:
    """A server and what is behind it.

    Attributes:
        state: Also there while the service says that the gate is off.
        service: What answers.
        port: Where, without TLS.
        ready: Whether the service says that the state has been read.
    """

    store: DisturbedStore
    state: StorageVersions
    registry: Registry
    metrics: Metrics
    service: StorageVersionService = field(init=False)
    server: GrpcServer = field(init=False)
    port: int = 0
    ready: bool = True

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self.service.streams)

    async def counted(self, method: str, code: str, count: int) -> None:
        """Wait until so many calls have ended so: they are counted after their caller is told."""
        async with asyncio.timeout(DEADLINE_S):
            while self.calls(method, code) != count:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.005)

    def calls(self, method: str, code: str) -> float:
        """Return how many calls have ended so, as a scrape shows it."""
        name = "apidiscovery_grpc_requests_total"
        return sample_sum(self.metrics.text().decode(), name, method=method, code=code)

    async def no_streams(self) -> None:
        """Wait until none is open."""
        async with asyncio.timeout(DEADLINE_S):
            while self.streams:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(  # noqa: PLR0913 - all by name
    *contributions: Contribution,
    store: DisturbedStore | None = None,
    enabled: bool = True,
    ready: bool = True,
    access: Access | None = None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    address: str = "127.0.0.1:0",
) -> AsyncGenerator[Served]:
    """Serve what is reported, next to a discovery of these contributions."""
    store = store or DisturbedStore(MemoryStore())
    registry, metrics = Registry(), Metrics()
    registry.publish(*contributions)
    served = Served(store, StorageVersions(store), registry, metrics, ready=ready)
    served.service = StorageVersionService(
        served.state if enabled else None,
        registry,
        metrics,
        access,
        ready=lambda: served.ready,
    )
    discovery = DiscoveryService(registry, CurrentEncoding(registry), FeatureGates(), metrics)
    served.server = GrpcServer(discovery, served.service, interceptors=interceptors)
    await served.state.load()
    following = asyncio.create_task(served.state.follow())
    served.port = await served.server.start(address)
    try:
        yield served
    finally:
        await served.server.stop(0)
        following.cancel()
        await asyncio.wait([following])


@asynccontextmanager
async def stub_of(served: Served) -> AsyncGenerator[Stub]:
    """Connect with grpcio's stub."""
    async with grpc.aio.insecure_channel(served.target) as channel:
        yield storage_version_pb2_grpc.StorageVersionServiceStub(channel)


@asynccontextmanager
async def betterproto_stub_of(
    served: Served,
) -> AsyncGenerator[betterproto_service.StorageVersionServiceStub]:
    """Connect with betterproto's stub, over grpclib."""
    channel = Channel("127.0.0.1", served.port)
    try:
        yield betterproto_service.StorageVersionServiceStub(channel)
    finally:
        channel.close()


async def join(stub: Stub, hostname: str) -> str:
    """Make a server a member, and return its identity."""
    answer = await stub.Heartbeat(pb.HeartbeatRequest(hostname=hostname, instance="1"))
    return answer.api_server_id


def resource(name: str, version: str, *decodable: str) -> pb.ReportedResource:
    """Return that a resource of the group apps is written in a version of it."""
    versions = [f"apps/{each}" for each in (version, *decodable)]
    return pb.ReportedResource(
        group="apps",
        resource=name,
        encoding_version=versions[0],
        decodable_versions=versions,
        served_versions=versions[:1],
    )


async def report(stub: Stub, server_id: str, **versions: str) -> pb.ReportResponse:
    """Report resources of the group apps, each with the version in which it is written."""
    resources = [resource(name, version) for name, version in versions.items()]
    return await stub.Report(pb.ReportRequest(api_server_id=server_id, resources=resources))


def watching(stub: Stub, *names: str, after: str = "") -> WatchCall:
    """Begin a watch."""
    request = pb.WatchStorageVersionsRequest(names=names, resource_version=after)
    return stub.WatchStorageVersions(request)


def waiting(stub: Stub, *names: str, version: str = "") -> WaitCall:
    """Begin to wait for agreement, on a version or on any."""
    targets = [pb.AgreementTarget(name=name, encoding_version=version) for name in names]
    return stub.WaitForAgreement(pb.WaitForAgreementRequest(targets=targets))


async def ended(call: WatchCall | WaitCall) -> tuple[grpc.StatusCode, str]:
    """Return with what a stream ends."""
    async with asyncio.timeout(DEADLINE_S):
        return await call.code(), await call.details()
