"""Replicas of the state of StorageVersions, on one store."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count

from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.expiry import LeaseExpiry
from apidiscovery_service.storage_versions.garbage import Garbage
from apidiscovery_service.storage_versions.members import Beat, Heartbeat, Members
from apidiscovery_service.storage_versions.model import Status, status_of
from apidiscovery_service.storage_versions.reports import ReportedResource, Reports
from apidiscovery_service.store import Guard, Store

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLAIM_KEY = "claims/collector"


class Replica:
    """The state of one process."""

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], datetime] = lambda: NOON,
        collect_every_s: float = 600.0,
    ) -> None:
        self.store = store
        self.objects = Collection(store, STORAGE_VERSION, "storageversions/", pause_s=0.05)
        self.leases = Collection(store, LEASE, "leases/kube-system/", pause_s=0.05)
        self.members = Members(self.leases, now=now)
        self.reports = Reports(self.objects, self.members, now=now)
        self.expiry = LeaseExpiry(self.leases)
        self.garbage = Garbage(
            self.objects, self.leases, self.members, every_s=collect_every_s, now=now
        )

    @asynccontextmanager
    async def following(self) -> AsyncGenerator[None]:
        """Keep the views up to date."""
        await self.objects.load()
        await self.leases.load()
        tasks = [asyncio.ensure_future(each.follow()) for each in (self.objects, self.leases)]
        try:
            yield
        finally:
            await end(*tasks)

    async def join(self, hostname: str, duration_s: int = 3600) -> str:
        """Make a server a member, and return its identity."""
        return (await self.beat(hostname, duration_s)).api_server_id

    async def beat(self, hostname: str, duration_s: int = 3600) -> Beat:
        """Send a heartbeat; the instance of a server is always the same."""
        heartbeat = Heartbeat(hostname, instance="1", lease_duration_s=duration_s)
        return await self.members.heartbeat(heartbeat)

    async def says(self, server_id: str, **versions: str) -> None:
        """Report resources of the group apps with their encoding versions."""
        await self.reports.report(
            server_id, [writes(name, version) for name, version in versions.items()]
        )

    async def status(self, name: str) -> Status | None:
        """Return the status of an object; None when it does not exist."""
        stored = await self.objects.read(name)
        return None if stored is None else status_of(stored.object)

    async def written(self, name: str) -> dict[str, str] | None:
        """Return the version that each server writes; None when the object does not exist."""
        status = await self.status(name)
        return None if status is None else written(status)

    async def take_claim(self) -> Guard:
        """Take the claim of the collector, and return its guard."""
        entry = await self.store.put(CLAIM_KEY, b"{}")
        return Guard(CLAIM_KEY, entry.created)

    @asynccontextmanager
    async def collecting(self, guard: Guard) -> AsyncGenerator[asyncio.Future[None]]:
        """Collect garbage in a task."""
        task = asyncio.ensure_future(self.garbage.collect(guard))
        try:
            yield task
        finally:
            await end(task)


def writes(resource: str, version: str) -> ReportedResource:
    """Return the report of a resource of the group apps with a single version."""
    return ReportedResource("apps", resource, f"apps/{version}", (f"apps/{version}",))


def written(status: Status) -> dict[str, str]:
    """Return the version that each server writes."""
    return {entry.api_server_id: entry.encoding_version for entry in status.entries}


def lease_key(server_id: str) -> str:
    return f"leases/kube-system/{server_id}"


def object_key(name: str) -> str:
    return f"storageversions/{name}"


def ticking() -> Callable[[], datetime]:
    """Return a clock that is a second later each time."""
    seconds = count(int(NOON.timestamp()))
    return lambda: datetime.fromtimestamp(next(seconds), UTC)


async def end(*tasks: "asyncio.Future[None]") -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
