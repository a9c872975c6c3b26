"""Everything that is known of storage versions and of the API servers that report them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from apidiscovery_service.core.source import Source
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.storage_versions import leases, timestamps
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.garbage import Garbage
from apidiscovery_service.storage_versions.members import Members
from apidiscovery_service.storage_versions.progress import Progress, Target, is_done, progress
from apidiscovery_service.storage_versions.reports import Reports
from apidiscovery_service.storage_versions.status_fields import server_ids
from apidiscovery_service.storage_versions.stored import Stored
from apidiscovery_service.store import Store
from apidiscovery_service.store.claims import Claims
from apidiscovery_service.store.wakeup import Wakeup

OBJECTS = "storageversions/"
LEASES = f"leases/{leases.NAMESPACE}/"

# A rolling restart changes hundreds of objects; whoever waits for some of them is told so often.
_GATHER_S = 0.05


class _Seen(NamedTuple):
    """An object, and how far by it a target has been reached."""

    stored: Stored | None
    progress: Progress


class StorageVersions(Source):
    """The objects, their members, and the work that goes on beside them.

    Args:
        store: Shared with other replicas.
        now: Tells the time of transitions and renewals.

    Attributes:
        collection: The StorageVersions as they are stored and told.
        lease_collection: The leases as they are stored and told.
        members: The API servers that hold them.
        reports: Takes what these say.
    """

    def __init__(self, store: Store, *, now: Callable[[], datetime] = timestamps.utc_now) -> None:
        self.collection = Collection(store, STORAGE_VERSION, OBJECTS)
        self.lease_collection = Collection(store, LEASE, LEASES)
        self.members = Members(self.lease_collection, now=now)
        self.reports = Reports(self.collection, self.members, now=now)
        self._news = Wakeup()
        self._unreported_at: tuple[int, int] | None = None
        self._unreported_ids: tuple[str, ...] = ()
        self._garbage = Garbage(self.collection, self.lease_collection, self.members, now=now)

    def claim(self, claims: Claims) -> None:
        """Take part in the work that one replica does for all."""
        claims.register("storage-version-leases", self.members.expire)
        claims.register("storage-version-garbage", self._garbage.collect)

    async def load(self) -> None:
        """Read what the store holds.

        Raises:
            StoreUnavailable: It cannot be reached.
            StoreRefused: It cannot be used.
        """
        await self.collection.load()
        await self.lease_collection.load()

    async def follow(self) -> None:
        """Keep up with the store until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.collection.follow())
            tasks.create_task(self.lease_collection.follow())
            tasks.create_task(self._tell())

    def warnings(self) -> list[str]:
        """Return what an operator should know."""
        return [*self.collection.warnings(), *self.lease_collection.warnings()]

    async def wait(self, targets: Sequence[Target]) -> AsyncGenerator[tuple[Progress, ...]]:
        """Yield how far servers agree, at once and whenever that changes; end when all is reached.

        That all is reached is told when the store says so, not before.

        Raises:
            StoreUnavailable: It cannot say.
        """
        told: tuple[Progress, ...] | None = None
        seen: dict[Target, _Seen] = {}
        while True:
            news = self._news.next()
            seen = self._look(targets, self.collection.view, seen)
            if is_done(each.progress for each in seen.values()):
                seen = self._look(targets, await self._read(targets), seen)
            now = tuple(seen[target].progress for target in targets)
            if now != told:
                told = now
                yield now
            if is_done(now):
                return
            await news.wait()

    async def _tell(self) -> None:
        """Wake those who wait after changes: all at once, and not for each change."""
        while True:
            changes = (self.collection.next_change(), self.lease_collection.next_change())
            self._news.ring()
            await _either(*changes)
            await asyncio.sleep(_GATHER_S)

    def _look(
        self,
        targets: Sequence[Target],
        objects: Mapping[str, Stored],
        known: Mapping[Target, _Seen],
    ) -> dict[Target, _Seen]:
        """Return how far each target has been reached; what has not changed is as it was known."""
        unreported = self._unreported()
        now: dict[Target, _Seen] = {}
        for target in targets:
            stored, before = objects.get(target.name), known.get(target)
            if before and before.stored is stored and before.progress.unreported == unreported:
                now[target] = before
            else:
                wanted = {target.name: stored.object} if stored else {}
                (found,) = progress([target], wanted, unreported)
                now[target] = _Seen(stored, found)
        return now

    def _unreported(self) -> tuple[str, ...]:
        """Return the members that have reported nothing; worked out once for all who wait."""
        seen = (self.collection.revision, self.lease_collection.revision)
        if self._unreported_at != seen:
            reporting = {
                each
                for stored in self.collection.view.values()
                for each in server_ids(stored.object)
            }
            self._unreported_ids = tuple(sorted(self.lease_collection.view.keys() - reporting))
            self._unreported_at = seen
        return self._unreported_ids

    async def _read(self, targets: Sequence[Target]) -> dict[str, Stored]:
        found = {target.name: await self.collection.read(target.name) for target in targets}
        return {name: stored for name, stored in found.items() if stored}


async def _either(*events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
