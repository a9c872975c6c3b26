"""StorageVersionService in this process, and calls of it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.core.model import Contribution
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import DiscoveryService
from apidiscovery_service.serving.grpc.storage_versions import StorageVersionService
from apidiscovery_service.storage_versions.state import StorageVersions
from apidiscovery_service.store.memory import MemoryStore
from grpc_server import GrpcServed
from store_wrapper import DisturbedStore
from waiting import WITHIN_S, until

Stub: TypeAlias = "storage_version_pb2_grpc.StorageVersionServiceAsyncStub"
WatchCall: TypeAlias = grpc.aio.UnaryStreamCall[
    pb.WatchStorageVersionsRequest, pb.WatchStorageVersionsResponse
]
WaitCall: TypeAlias = grpc.aio.UnaryStreamCall[
    pb.WaitForAgreementRequest, pb.WaitForAgreementResponse
]


@dataclass
class Served(GrpcServed):
    """A server of StorageVersionService.

    Attributes:
        state: Also there while the service says that the gate is off.
    """

    store: DisturbedStore
    state: StorageVersions
    registry: Registry
    service: StorageVersionService = field(init=False)

    def stub(self) -> AbstractAsyncContextManager[Stub]:
        return self.connected(storage_version_pb2_grpc.StorageVersionServiceStub)

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self.service.streams)

    async def counted(self, method: str, code: str, count: int) -> None:
        """Wait until `count` calls are counted; their callers get the status before that."""
        await until(lambda: self.calls(method, code) == count, f"{count} calls of {method}")

    def calls(self, method: str, code: str) -> float:
        """Return how many calls have ended with a code, as a scrape shows it."""
        return self.sample("apidiscovery_grpc_requests_total", method=method, code=code)

    async def no_streams(self) -> None:
        """Wait until no stream is open."""
        await until(lambda: not self.streams, "all streams have ended")


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
    """Serve reported storage versions, and discovery of these contributions."""
    store = store or DisturbedStore(MemoryStore())
    registry = Registry()
    registry.publish(*contributions)
    served = Served(
        store,
        StorageVersions(store),
        registry,
        ready=ready,
    )
    served.service = StorageVersionService(
        served.state if enabled else None,
        registry,
        served.metrics,
        access,
        ready=lambda: served.ready,
    )
    discovery = DiscoveryService(
        registry, CurrentEncoding(registry), FeatureGates(), served.metrics
    )
    await served.state.load()
    following = asyncio.create_task(served.state.follow())
    try:
        async with served.running(
            discovery, served.service, interceptors=interceptors, address=address
        ):
            yield served
    finally:
        following.cancel()
        await asyncio.wait([following])


async def join(stub: Stub, hostname: str) -> str:
    """Make a server a member, and return its identity."""
    answer = await stub.Heartbeat(pb.HeartbeatRequest(hostname=hostname, instance="1"))
    return answer.api_server_id


def resource(name: str, version: str, *decodable: str) -> pb.ReportedResource:
    """Return the report of a resource of the group apps, written in its version `version`."""
    versions = [f"apps/{each}" for each in (version, *decodable)]
    return pb.ReportedResource(
        group="apps",
        resource=name,
        encoding_version=versions[0],
        decodable_versions=versions,
        served_versions=versions[:1],
    )


async def report(stub: Stub, server_id: str, **versions: str) -> pb.ReportResponse:
    """Report resources of the group apps with their encoding versions."""
    resources = [resource(name, version) for name, version in versions.items()]
    return await stub.Report(pb.ReportRequest(api_server_id=server_id, resources=resources))


def watching(stub: Stub, *names: str, after: str = "") -> WatchCall:
    """Begin a watch."""
    request = pb.WatchStorageVersionsRequest(names=names, resource_version=after)
    return stub.WatchStorageVersions(request)


def waiting(stub: Stub, *names: str, version: str = "") -> WaitCall:
    """Begin to wait for agreement on a version, or on any version."""
    targets = [pb.AgreementTarget(name=name, encoding_version=version) for name in names]
    return stub.WaitForAgreement(pb.WaitForAgreementRequest(targets=targets))


async def ended(call: WatchCall | WaitCall) -> tuple[grpc.StatusCode, str]:
    """Return the status with which a stream ends."""
    async with asyncio.timeout(WITHIN_S):
        return await call.code(), await call.details()
