"""All state of storage versions: objects, members, and the agreement that clients wait for."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apidiscovery_service.core.source import Source
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION, Object
from apidiscovery_service.storage_versions import leases
from apidiscovery_service.storage_versions.collection import Collection, StoredObject
from apidiscovery_service.storage_versions.expiry import LeaseExpiry
from apidiscovery_service.storage_versions.garbage import Garbage
from apidiscovery_service.storage_versions.members import Members
from apidiscovery_service.storage_versions.model import Status, server_ids, status_of, utc_now
from apidiscovery_service.storage_versions.reports import Reports
from apidiscovery_service.store import Store
from apidiscovery_service.store.claims import Claims
from apidiscovery_service.waiting import Wakeup, run_until_one_ends

OBJECTS = "storageversions/"
LEASES = f"leases/{leases.NAMESPACE}/"

# A rolling restart changes hundreds of objects; waiting callers are notified at this interval.
_NOTIFY_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Target:
    """An agreement to wait for.

    Attributes:
        name: Name of the StorageVersion.
        encoding_version: The version to agree on; empty for any.
    """

    name: str
    encoding_version: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far servers agree on one resource. Servers are given by identity, sorted.

    Attributes:
        name: Name of the StorageVersion.
        object: None while no server has reported.
        agreed: Whether all servers that have reported write one version, the target's if it has
            one.
        agreeing: The servers that write the wanted version: the target's, or the version that most
            write, and the first by name of several such.
        lagging: The servers that write another one.
        unreported: Members that have reported no resource at all.
    """

    name: str
    object: Object | None
    agreed: bool
    agreeing: tuple[str, ...] = ()
    lagging: tuple[str, ...] = ()
    unreported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ObjectProgress:
    """An object, and the progress that it means for a target."""

    stored: StoredObject | None
    progress: Progress


class StorageVersions(Source):
    """The objects, their members, and the background work on both.

    Args:
        store: Shared with other replicas.
        now: Returns the time of transitions and renewals.

    Attributes:
        collection: The StorageVersions.
        lease_collection: The leases.
        members: The API servers that hold the leases.
        reports: Writes the reports of members.
    """

    def __init__(self, store: Store, *, now: Callable[[], datetime] = utc_now) -> None:
        self.collection = Collection(store, STORAGE_VERSION, OBJECTS)
        self.lease_collection = Collection(store, LEASE, LEASES)
        self.members = Members(self.lease_collection, now=now)
        self.reports = Reports(self.collection, self.members, now=now)
        self._news = Wakeup()
        self._unreported_at: tuple[int, int] | None = None
        self._unreported_ids: tuple[str, ...] = ()
        self._expiry = LeaseExpiry(self.lease_collection)
        self._garbage = Garbage(self.collection, self.lease_collection, self.members, now=now)

    def claim(self, claims: Claims) -> None:
        """Register the work that one replica does for all."""
        claims.register("storage-version-leases", self._expiry.expire)
        claims.register("storage-version-garbage", self._garbage.collect)

    async def load(self) -> None:
        """Read the state of the store.

        Raises:
            StoreUnavailable: It cannot be reached.
            StoreRefused: It cannot be used.
        """
        await self.collection.load()
        await self.lease_collection.load()

    async def follow(self) -> None:
        """Follow the store until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.collection.follow())
            tasks.create_task(self.lease_collection.follow())
            tasks.create_task(self._notify())

    def warnings(self) -> list[str]:
        """Return a line for each object that cannot be read."""
        return [*self.collection.warnings(), *self.lease_collection.warnings()]

    async def wait(self, targets: Sequence[Target]) -> AsyncGenerator[tuple[Progress, ...]]:
        """Yield the progress of all targets, now and after each change, until all have agreed.

        The last one, with all agreed, is confirmed by a read of the store.

        Raises:
            StoreUnavailable: It cannot be confirmed.
        """
        last: tuple[Progress, ...] | None = None
        known: dict[Target, _ObjectProgress] = {}
        while True:
            news = self._news.next()
            known = self._examine(targets, self.collection.view, known)
            if is_done(each.progress for each in known.values()):
                known = self._examine(targets, await self._read(targets), known)
            now = tuple(known[target].progress for target in targets)
            if now != last:
                last = now
                yield now
            if is_done(now):
                return
            await news.wait()

    async def _notify(self) -> None:
        """Wake waiting callers after changes, once for many changes."""
        while True:
            changed = self.collection.next_change()
            leases_changed = self.lease_collection.next_change()
            self._news.ring()
            await run_until_one_ends(changed.wait(), leases_changed.wait())
            await asyncio.sleep(_NOTIFY_EVERY_S)

    def _examine(
        self,
        targets: Sequence[Target],
        objects: Mapping[str, StoredObject],
        known: Mapping[Target, _ObjectProgress],
    ) -> dict[Target, _ObjectProgress]:
        """Return the progress of each target, recomputed only where something has changed."""
        unreported = self._unreported()
        now: dict[Target, _ObjectProgress] = {}
        for target in targets:
            stored, before = objects.get(target.name), known.get(target)
            if before and before.stored is stored and before.progress.unreported == unreported:
                now[target] = before
            else:
                value = stored.object if stored else None
                now[target] = _ObjectProgress(stored, progress(target, value, unreported))
        return now

    def _unreported(self) -> tuple[str, ...]:
        """Return the members that have reported nothing; computed once for all callers."""
        revisions = (self.collection.revision, self.lease_collection.revision)
        if self._unreported_at != revisions:
            reporting = {
                each
                for stored in self.collection.view.values()
                for each in server_ids(stored.object)
            }
            self._unreported_ids = tuple(sorted(self.lease_collection.view.keys() - reporting))
            self._unreported_at = revisions
        return self._unreported_ids

    async def _read(self, targets: Sequence[Target]) -> dict[str, StoredObject]:
        found = {target.name: await self.collection.read(target.name) for target in targets}
        return {name: stored for name, stored in found.items() if stored}


def progress(target: Target, value: Object | None, unreported: tuple[str, ...]) -> Progress:
    """Return the progress of a target.

    Args:
        target: The agreement to wait for.
        value: Its StorageVersion; None if there is none.
        unreported: The members that have reported nothing.
    """
    status = status_of(value) if value is not None else Status()
    if value is None or not status.entries:
        return Progress(target.name, None, agreed=False, unreported=unreported)
    wanted = target.encoding_version or _most_common_version(status)
    agreeing = {e.api_server_id for e in status.entries if e.encoding_version == wanted}
    lagging = {e.api_server_id for e in status.entries if e.encoding_version != wanted}
    return Progress(
        target.name,
        value,
        agreed=not lagging,
        agreeing=tuple(sorted(agreeing)),
        lagging=tuple(sorted(lagging)),
        unreported=unreported,
    )


def is_done(progresses: Iterable[Progress]) -> bool:
    """Return whether all targets have agreed."""
    return all(each.agreed for each in progresses)


def _most_common_version(status: Status) -> str:
    """Return the version that most servers write; of several such the first by name."""
    counted = Counter(entry.encoding_version for entry in status.entries)
    return min(counted, key=lambda version: (-counted[version], version))
