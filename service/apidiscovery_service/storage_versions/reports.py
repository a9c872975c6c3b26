"""Writes the reports of API servers into the StorageVersions.

An acknowledged entry remains as long as its server is a member. Every write is guarded by the
server's lease, unbroken since the report began, and by the absence of the leases of all servers
whose entries it removes. An entry is removed only while its server's lease is absent. So if the
lease is still the same at the end, no entry has been removed meanwhile.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import islice
from weakref import WeakValueDictionary

from apidiscovery_formats.times import time_text

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.objects import formats
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.storage_versions.background import Backoff, for_each
from apidiscovery_service.storage_versions.collection import Collection, StoredObject
from apidiscovery_service.storage_versions.members import (
    Members,
    MembershipCache,
    NotMember,
    check_id,
)
from apidiscovery_service.storage_versions.model import (
    ServerStorageVersion,
    Status,
    generation_of,
    server_ids,
    status_of,
    utc_now,
    with_entry,
    with_status,
)
from apidiscovery_service.store import Conflict, Fenced, Guard

MAX_RESOURCES = 5_000
MAX_VERSIONS = 100

# The error has to fit into an answer.
_MAX_VIOLATIONS = 50

_CORE = "core"

_WRITE_CONCURRENCY = 16

# Objects that are compared without a pause: about 2 ms.
_COMPARED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """A resource in one version; `group` is empty for the core group."""

    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class ReportedResource:
    """The versions of a resource that an API server writes, reads and serves.

    Attributes:
        group: Empty for the core group.
        resource: The plural.
        encoding_version: The version it writes, `group/version`.
        decodable_versions: The versions it reads directly, in the order of their registration.
        served_versions: The versions it serves.
        equivalents: Other resources that serve the same objects.
    """

    group: str
    resource: str
    encoding_version: str
    decodable_versions: tuple[str, ...]
    served_versions: tuple[str, ...] = ()
    equivalents: tuple[GroupVersionResource, ...] = ()

    @property
    def name(self) -> str:
        """Name of the StorageVersion: `group.resource`, with `core` for the core group."""
        return f"{self.group or _CORE}.{self.resource}"

    @property
    def all_decodable(self) -> tuple[str, ...]:
        """The versions it reads, directly and then as equivalents, each once."""
        others = (f"{e.group}/{e.version}" if e.group else e.version for e in self.equivalents)
        return tuple(dict.fromkeys([*self.decodable_versions, *others]))

    @property
    def covered(self) -> set[tuple[str, str]]:
        """Groups and resources that serve the same objects as this."""
        return {(self.group, self.resource), *((e.group, e.resource) for e in self.equivalents)}


class ReportOutcome(Enum):
    """The effect of a report on an object."""

    UNCHANGED = auto()
    CREATED = auto()
    UPDATED = auto()


@dataclass(frozen=True, slots=True)
class Reported:
    """One object after a report.

    Attributes:
        name: Name of the StorageVersion.
        outcome: The effect of the report.
        stored: The object afterwards.
    """

    name: str
    outcome: ReportOutcome
    stored: StoredObject

    @property
    def agreed(self) -> bool:
        """Whether all servers that have reported write the same version."""
        return status_of(self.stored.object).agreed


class _ObjectLock:
    """Serializes the reports of this process that write one object.

    Attributes:
        lock: Held while the object is read, changed and written.
        latest: The object as the last report wrote it, for the next one.
    """

    __slots__ = ("__weakref__", "latest", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.latest: StoredObject | None = None


@dataclass(frozen=True, slots=True)
class _Report:
    """A report in progress.

    Attributes:
        guard: Holds while the server stays a member; needed until the acknowledgement.
        others: Which of the other servers are members.
        results: By name of the object.
    """

    api_server_id: str
    guard: Guard
    others: MembershipCache
    results: dict[str, Reported]


class Reports:
    """Writes reports.

    Args:
        collection: The StorageVersions.
        members: The members, in the same store.
        now: Returns the time of transitions.
    """

    def __init__(
        self,
        collection: Collection,
        members: Members,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._objects = collection
        self._members = members
        self._now = now
        self._locks: WeakValueDictionary[str, _ObjectLock] = WeakValueDictionary()

    async def report(
        self, api_server_id: str, resources: Sequence[ReportedResource], instance: str = ""
    ) -> list[Reported]:
        """Record the versions that an API server writes, reads and serves.

        Each object is written once if it changes, or not at all; entries of servers that are gone
        are removed in the same write. All is durable when this returns. After an error or a
        cancellation some objects may be written: report again. Conflicting writes are retried
        without end, so the caller sets a timeout.

        Args:
            api_server_id: Identity of the server.
            resources: The resources that it stores.
            instance: Its instance; empty for whichever holds the lease.

        Returns:
            The objects by group and resource; none for equivalents of a resource before.

        Raises:
            InvalidFields: Nothing is written.
            NotMember: The server, or this instance of it, has no lease, or lost it meanwhile.
            StoreUnavailable: It is unknown what has been written.
        """
        check_id(api_server_id)
        wanted = entries(api_server_id, resources)
        guard = await self._members.membership(api_server_id, instance)
        report = _Report(api_server_id, guard, MembershipCache(self._members), {})
        await self._write_all(report, wanted)
        await self._check_membership(report)
        return [report.results[name] for name in wanted]

    async def _write_all(self, report: _Report, wanted: dict[str, ServerStorageVersion]) -> None:
        objects, revision = await self._objects.read_all()
        by_name = {stored.name: stored for stored in objects if stored.name in wanted}
        ids = {each for stored in by_name.values() for each in _others(stored, report)}
        gone = await report.others.gone(ids)
        changing = list[str]()
        for place, (name, entry) in enumerate(wanted.items(), 1):
            if place % _COMPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
            stored = by_name.get(name)
            if stored is None or self._changed(stored, entry, gone) is not None:
                changing.append(name)
            else:
                report.results[name] = Reported(name, ReportOutcome.UNCHANGED, stored)

        async def write(name: str) -> None:
            own = self._locks.setdefault(name, _ObjectLock())
            async with own.lock:
                # An object older than the listing may have been removed since.
                is_newer = own.latest is not None and own.latest.revision > revision
                stored = own.latest if is_newer else by_name.get(name)
                result = await self._write(report, wanted[name], name, stored)
                own.latest = result.stored
            report.results[name] = result

        await for_each(changing, write, _WRITE_CONCURRENCY)

    async def _write(
        self, report: _Report, entry: ServerStorageVersion, name: str, stored: StoredObject | None
    ) -> Reported:
        """Write one entry into one object, and retry after concurrent changes."""
        backoff = Backoff()
        while True:
            try:
                return await self._attempt(report, entry, name, stored)
            except Conflict:
                await backoff.pause()
            except Fenced:
                await self._check_membership(report)
                report.others.clear()
                await backoff.pause()
            stored = await self._objects.read(name)

    async def _attempt(
        self, report: _Report, entry: ServerStorageVersion, name: str, stored: StoredObject | None
    ) -> Reported:
        if stored is None:
            created = await self._objects.create(self._new(name, entry), report.guard)
            return Reported(name, ReportOutcome.CREATED, created)
        gone = await report.others.gone(_others(stored, report))
        value = self._changed(stored, entry, gone)
        if value is None:
            return Reported(name, ReportOutcome.UNCHANGED, stored)
        guards = (report.guard, *report.others.guards(gone))
        return Reported(
            name, ReportOutcome.UPDATED, await self._objects.replace(stored, value, guards)
        )

    def _new(self, name: str, entry: ServerStorageVersion) -> Object:
        now = self._now()
        value: Object = {
            "kind": STORAGE_VERSION.kind,
            "apiVersion": STORAGE_VERSION.api_version,
            "metadata": {
                "name": name,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": time_text(now),
            },
            "spec": {},
        }
        status = with_entry(Status(), entry, generation=0, now=now)
        return with_status(value, status)

    def _changed(
        self, stored: StoredObject, entry: ServerStorageVersion, gone: AbstractSet[str]
    ) -> Object | None:
        """Return the object after the report, None if nothing changes."""
        before = status_of(stored.object)
        generation = generation_of(stored.object)
        after = with_entry(before, entry, generation=generation, now=self._now(), gone=gone)
        return None if after == before else with_status(stored.object, after)

    async def _check_membership(self, report: _Report) -> None:
        """Check that the lease is the one of the beginning.

        Otherwise the server has left and joined again: entries written before may have been
        removed in between, and the rest of the report may be outdated.

        Raises:
            NotMember: It is another one.
        """
        if await self._members.membership(report.api_server_id) != report.guard:
            raise NotMember(report.api_server_id)


def _others(stored: StoredObject, report: _Report) -> set[str]:
    return set(server_ids(stored.object)) - {report.api_server_id}


def entries(
    api_server_id: str, resources: Sequence[ReportedResource]
) -> dict[str, ServerStorageVersion]:
    """Return the entries of an API server by the names of the objects, by group and resource.

    A resource that is an equivalent of one before it has none. Equal duplicates are allowed.

    The order, the resources left out and the decodable versions are those of k8s.io/apiserver
    pkg/storageversion/manager.go: `UpdateStorageVersions`, `dedupResourceInfos` and
    `decodableVersions`. The rules of fields are those of kubernetes/kubernetes
    pkg/apis/apiserverinternal/validation/validation.go.

    Raises:
        InvalidFields: Naming `resources` or fields below it, such as
            `resources[3].decodable_versions[0]`; the first fifty.
    """
    violations = tuple(islice(_violations(resources), _MAX_VIOLATIONS))
    if violations:
        raise InvalidFields(*violations)
    covered = set[tuple[str, str]]()
    by_name = dict[str, ServerStorageVersion]()
    for each in sorted(resources, key=lambda r: (r.group, r.resource)):
        if (each.group, each.resource) in covered:
            continue
        covered |= each.covered
        by_name[each.name] = ServerStorageVersion(
            api_server_id, each.encoding_version, each.all_decodable, each.served_versions
        )
    return by_name


def _violations(resources: Sequence[ReportedResource]) -> Iterator[FieldViolation]:
    if len(resources) > MAX_RESOURCES:
        yield FieldViolation(
            "resources", f"has {len(resources)} elements, must have no more than {MAX_RESOURCES}"
        )
        return
    first = dict[str, int]()
    for index, resource in enumerate(resources):
        place = f"resources[{index}]"
        same = first.setdefault(resource.name, index)
        if resources[same] != resource:
            yield FieldViolation(
                place, f"differs from resources[{same}], which is {resource.name} too"
            )
        yield from _name_violations(place, resource.group, resource.resource)
        yield from _version_violations(place, resource)
        yield from _equivalent_violations(f"{place}.equivalents", resource.equivalents)


def _name_violations(place: str, group: str, resource: str) -> Iterator[FieldViolation]:
    if group == _CORE:
        yield FieldViolation(f"{place}.group", "must be empty for the core group, not 'core'")
    elif group:
        yield from _malformed(f"{place}.group", group, formats.dns_subdomain(group))
    yield from _malformed(f"{place}.resource", resource, formats.dns1035_label(resource))


def _version_violations(place: str, resource: ReportedResource) -> Iterator[FieldViolation]:
    encoding = resource.encoding_version
    yield from _version(f"{place}.encoding_version", encoding)
    decodable_place = f"{place}.decodable_versions"
    yield from _set_violations(decodable_place, resource.decodable_versions)
    if encoding not in resource.decodable_versions:
        yield FieldViolation(decodable_place, f"must include encoding_version {encoding!r}")
    served_place = f"{place}.served_versions"
    yield from _set_violations(served_place, resource.served_versions)
    decodable = set(resource.all_decodable)
    for index, version in enumerate(resource.served_versions[:MAX_VERSIONS]):
        if version not in decodable:
            yield FieldViolation(
                f"{served_place}[{index}]", f"{version!r} must be one of the decodable versions"
            )


def _equivalent_violations(
    place: str, equivalents: Sequence[GroupVersionResource]
) -> Iterator[FieldViolation]:
    if len(equivalents) > MAX_VERSIONS:
        yield _too_many(place, len(equivalents))
        return
    for index, each in enumerate(equivalents):
        yield from _name_violations(f"{place}[{index}]", each.group, each.resource)
        errors = formats.dns1035_label(each.version)
        yield from _malformed(f"{place}[{index}].version", each.version, errors)


def _set_violations(place: str, versions: Sequence[str]) -> Iterator[FieldViolation]:
    if len(versions) > MAX_VERSIONS:
        yield _too_many(place, len(versions))
        return
    first = dict[str, int]()
    for index, version in enumerate(versions):
        yield from _version(f"{place}[{index}]", version)
        if (same := first.setdefault(version, index)) != index:
            yield FieldViolation(f"{place}[{index}]", f"{version!r} duplicates [{same}]")


def _version(place: str, version: str) -> Iterator[FieldViolation]:
    yield from _malformed(place, version, formats.api_version(version))


def _malformed(place: str, value: str, errors: Sequence[str]) -> Iterator[FieldViolation]:
    if errors:
        yield FieldViolation(place, f"{value!r}: {'; '.join(errors)}")


def _too_many(place: str, count: int) -> FieldViolation:
    return FieldViolation(place, f"has {count} elements, must have no more than {MAX_VERSIONS}")
