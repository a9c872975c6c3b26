"""Takes what API servers report into the StorageVersions.

What is acknowledged is there for as long as its server is a member. Every write needs the server's
lease to have stood without a gap since the report began, and the leases of those whose entries it
removes to be absent. An entry is removed only while its server's lease is absent. So if the lease
is still the same in the end, nothing has been removed meanwhile.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from weakref import WeakValueDictionary

from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.storage_versions import status_fields, timestamps
from apidiscovery_service.storage_versions.agreement import Entry, reported
from apidiscovery_service.storage_versions.backoff import Backoff
from apidiscovery_service.storage_versions.collection import Collection, Stored
from apidiscovery_service.storage_versions.following import for_each
from apidiscovery_service.storage_versions.members import Members, NotMember, check_id
from apidiscovery_service.storage_versions.presence import Presence
from apidiscovery_service.storage_versions.reported_resources import (
    GroupVersionResource,
    ReportedResource,
    entries,
)
from apidiscovery_service.store import Conflict, Fenced, Guard

__all__ = ["GroupVersionResource", "Outcome", "Reported", "ReportedResource", "Reports"]

_WRITES_AT_ONCE = 16

# So many objects are looked at before others have a turn: about 2 ms.
_LOOKS_AT_ONCE = 64


class Outcome(Enum):
    """What a report did to an object."""

    UNCHANGED = auto()
    CREATED = auto()
    UPDATED = auto()


@dataclass(frozen=True, slots=True)
class Reported:
    """One object after a report.

    Attributes:
        name: Of the StorageVersion.
        stored: The object as this report left or found it.
    """

    name: str
    outcome: Outcome
    stored: Stored

    @property
    def agreed(self) -> bool:
        """Whether all servers that have reported write the same version."""
        return status_fields.status_of(self.stored.object).agreed


class _Turn:
    """One object's place in the queue of reports that pass through this process.

    Attributes:
        lock: Held by whoever reads, changes and writes the object.
        latest: What was written last, for whoever comes next.
    """

    __slots__ = ("__weakref__", "latest", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.latest: Stored | None = None


@dataclass(frozen=True, slots=True)
class _Report:
    """One report under way.

    Attributes:
        membership: What has to hold until it is acknowledged.
        presence: Which other servers are gone.
        results: By name of the object.
    """

    api_server_id: str
    membership: Guard
    presence: Presence
    results: dict[str, Reported]


class Reports:
    """Takes reports.

    Args:
        collection: The StorageVersions.
        members: Of the same store.
        now: Tells the time of transitions.
    """

    def __init__(
        self,
        collection: Collection,
        members: Members,
        *,
        now: Callable[[], datetime] = timestamps.utc_now,
    ) -> None:
        self._objects = collection
        self._members = members
        self._now = now
        self._turns: WeakValueDictionary[str, _Turn] = WeakValueDictionary()

    async def report(
        self, api_server_id: str, resources: Sequence[ReportedResource], instance: str = ""
    ) -> list[Reported]:
        """Say what an API server writes and can read.

        Each object is written once if anything of it changes, or not at all; entries of servers
        that are gone are removed with the same write. When this returns all is durable. When it
        fails or is cancelled, some of it may be: report again. It goes on while others write the
        same objects, so the caller sets a limit to its time.

        Args:
            api_server_id: Of the server.
            resources: What it stores.
            instance: In which of its lives it speaks; empty for whichever holds the lease.

        Returns:
            By group and resource; resources that another one covers have none.

        Raises:
            InvalidFields: Nothing is written.
            NotMember: The server, or this life of it, has no lease, or lost it meanwhile.
            StoreUnavailable: It is not known what has been written.
        """
        check_id(api_server_id)
        wanted = entries(api_server_id, resources)
        membership = await self._members.membership(api_server_id, instance)
        report = _Report(api_server_id, membership, Presence(self._members), {})
        await self._take(report, wanted)
        await self._check_membership(report)
        return [report.results[name] for name in wanted]

    async def _take(self, report: _Report, wanted: dict[str, Entry]) -> None:
        standing, revision = await self._objects.read_all()
        by_name = {stored.name: stored for stored in standing if stored.name in wanted}
        ids = {each for stored in by_name.values() for each in _others(stored, report)}
        gone = await report.presence.gone(ids)
        changing = list[str]()
        for place, (name, entry) in enumerate(wanted.items(), 1):
            if place % _LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)
            stored = by_name.get(name)
            if stored is None or self._changed(stored, entry, gone) is not None:
                changing.append(name)
            else:
                report.results[name] = Reported(name, Outcome.UNCHANGED, stored)

        async def write(name: str) -> None:
            turn = self._turns.setdefault(name, _Turn())
            async with turn.lock:
                # What is older than the listing may be gone again.
                is_newer = turn.latest is not None and turn.latest.revision > revision
                stored = turn.latest if is_newer else by_name.get(name)
                result = await self._write(report, wanted[name], name, stored)
                turn.latest = result.stored
            report.results[name] = result

        await for_each(changing, write, _WRITES_AT_ONCE)

    async def _write(
        self, report: _Report, entry: Entry, name: str, stored: Stored | None
    ) -> Reported:
        """Take one entry into one object, as it stands by then."""
        backoff = Backoff()
        while True:
            try:
                return await self._attempt(report, entry, name, stored)
            except Conflict:
                await backoff.pause()
            except Fenced:
                await self._check_membership(report)
                report.presence.forget()
                await backoff.pause()
            stored = await self._objects.read(name)

    async def _attempt(
        self, report: _Report, entry: Entry, name: str, stored: Stored | None
    ) -> Reported:
        if stored is None:
            created = await self._objects.create(self._new(name, entry), report.membership)
            return Reported(name, Outcome.CREATED, created)
        gone = await report.presence.gone(_others(stored, report))
        value = self._changed(stored, entry, gone)
        if value is None:
            return Reported(name, Outcome.UNCHANGED, stored)
        guards = (report.membership, *report.presence.guards(gone))
        return Reported(name, Outcome.UPDATED, await self._objects.replace(stored, value, guards))

    def _new(self, name: str, entry: Entry) -> Object:
        now = self._now()
        value: Object = {
            "kind": STORAGE_VERSION.kind,
            "apiVersion": STORAGE_VERSION.api_version,
            "metadata": {
                "name": name,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": timestamps.seconds(now),
            },
            "spec": {},
        }
        status = reported(status_fields.status_of(value), entry, generation=0, now=now)
        return status_fields.with_status(value, status)

    def _changed(self, stored: Stored, entry: Entry, gone: AbstractSet[str]) -> Object | None:
        """Return the object after the report, None if it is so already."""
        before = status_fields.status_of(stored.object)
        generation = status_fields.generation_of(stored.object)
        after = reported(before, entry, generation=generation, now=self._now(), gone=gone)
        return None if after == before else status_fields.with_status(stored.object, after)

    async def _check_membership(self, report: _Report) -> None:
        """Refuse to go on when the lease is another one than at the beginning.

        The server has left and come back, in another life perhaps: what was written may have been
        removed between, and what is still to be written may be of the past.

        Raises:
            NotMember: It is.
        """
        if await self._members.membership(report.api_server_id) != report.membership:
            raise NotMember(report.api_server_id)


def _others(stored: Stored, report: _Report) -> set[str]:
    return set(status_fields.server_ids(stored.object)) - {report.api_server_id}
