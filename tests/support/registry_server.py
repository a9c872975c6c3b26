"""Replicas that follow a store of registrations, and RegistryService in this process."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from apidiscovery.service.v1 import registry_pb2_grpc
from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import DiscoveryService
from apidiscovery_service.serving.grpc.registry import RegistryService
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.registrations import Registrations
from apidiscovery_service.store import Guard, Store
from apidiscovery_service.store.memory import MemoryStore
from grpc_server import GrpcServed

Stub: TypeAlias = "registry_pb2_grpc.RegistryServiceAsyncStub"


@dataclass
class Replica:
    """The registrations of one process, and the registry that serves them."""

    store: Store = field(default_factory=MemoryStore)
    registry: Registry = field(default_factory=Registry)
    clock: Callable[[], float] = time.time
    declarations: Declarations = field(init=False)
    registrations: Registrations = field(init=False)

    def __post_init__(self) -> None:
        self.declarations = Declarations(self.registry)
        self.registrations = Registrations(self.store, self.declarations, self.clock)

    def served(self) -> dict[str, dict[str, str]]:
        """Return the freshness of each version by group."""
        snapshot = self.registry.snapshot
        groups = (*snapshot.core.groups, *snapshot.named.groups)
        return {
            published.group.name: {v.version: v.freshness for v in published.group.versions}
            for published in groups
        }


@asynccontextmanager
async def following(*replicas: Replica) -> AsyncGenerator[Sequence[Replica]]:
    """Load replicas, and let them follow their store."""
    for replica in replicas:
        await replica.registrations.load()
    tasks = [asyncio.create_task(replica.registrations.follow()) for replica in replicas]
    try:
        yield replicas
    finally:
        await _end(tasks)


@asynccontextmanager
async def expiring(replica: Replica) -> AsyncGenerator[Guard]:
    """Expire owners with a replica, as the holder of that claim does."""
    entry = await replica.store.put("claims/owners", b"one")
    guard = Guard(entry.key, entry.created)
    task = asyncio.create_task(replica.registrations.expire_owners(guard))
    try:
        yield guard
    finally:
        await _end([task])


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        # The result is None if the store was closed before.
        assert ended is None or isinstance(ended, asyncio.CancelledError), ended


@dataclass
class Served(GrpcServed):
    """A server of RegistryService."""

    replica: Replica

    def stub(self) -> AbstractAsyncContextManager[Stub]:
        return self.connected(registry_pb2_grpc.RegistryServiceStub)


@asynccontextmanager
async def serving(
    store: Store | None = None, access: Access | None = None, *, ready: bool = True
) -> AsyncGenerator[Served]:
    """Serve DiscoveryService and RegistryService, ready at once or when the test says so."""
    replica = Replica(store or MemoryStore())
    registry = replica.registry
    served = Served(replica, ready=ready)
    discovery = DiscoveryService(
        registry, CurrentEncoding(registry), FeatureGates(), served.metrics
    )
    service = RegistryService(
        replica.registrations, served.metrics, access, ready=lambda: served.ready
    )
    async with following(replica), served.running(discovery, service):
        yield served
