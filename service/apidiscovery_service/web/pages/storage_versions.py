"""The storage versions: which API server writes which version, and whether a migration is safe."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from apidiscovery_service.core.model import CORE_GROUP
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.kube.objects import json_fields
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.storage_versions import leases
from apidiscovery_service.storage_versions.comparison import HashVerdict, compare
from apidiscovery_service.storage_versions.model import (
    ServerStorageVersion,
    Status,
    server_ids,
    status_of,
)
from apidiscovery_service.storage_versions.state import Progress, StorageVersions, Target, progress
from apidiscovery_service.web.paging import paged
from apidiscovery_service.web.view import Page, View

_ROWS = 100  # of a page
_CORE = "core"  # in names of StorageVersions
_HASHES = {
    HashVerdict.SAME: "same",
    HashVerdict.DIFFERENT: "different",
    HashVerdict.UNKNOWN: "not known",
}


@dataclass(frozen=True, slots=True)
class ServerLine:
    """An API server.

    Attributes:
        name: Its identity.
        title: Its hostname; its identity where it has none, or shares it.
        component: What kind of API server it is.
        renewed: Time of its last heartbeat; None where none is known.
        is_member: Whether it has a lease; false for one that has gone and still counts.
        has_reported: Whether it has reported any resource.
        lagging: The number of resources of which it writes another version than most servers.
    """

    name: str
    title: str
    component: str
    renewed: datetime | None
    is_member: bool
    has_reported: bool
    lagging: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A resource on a server.

    Attributes:
        writes: The version that it writes, without the group of the resource; empty for none.
        reads: The versions that it reads.
        is_lagging: Whether most servers write another version.
    """

    writes: str = ""
    reads: str = ""
    is_lagging: bool = False


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """A resource.

    Attributes:
        name: Of its StorageVersion.
        group: Its group where that is served here; None where it is not.
        cells: One for each server, in their order.
        is_safe: Whether all servers that have reported it write one version.
        common: That version.
        since: Time since which it is so; None where it is not, or not known.
        lagging: The titles of the servers that write another version than most.
        wanted: The version that most write.
        hash: How the hash that discovery publishes compares with the reports; empty where the
            resource is not in discovery.
    """

    name: str
    group: str | None
    cells: tuple[Cell, ...]
    is_safe: bool
    common: str
    since: datetime | None
    lagging: tuple[str, ...]
    wanted: str
    hash: str


@dataclass(frozen=True, slots=True)
class Skew:
    """Servers and resources; those that lag are first."""

    servers: tuple[ServerLine, ...]
    resources: tuple[ResourceLine, ...]


async def page(view: View) -> Page:
    """Make the page."""
    state = view.served.storage_versions
    if state is None:
        return Page("storage_versions.html", {"is_on": False})
    skew = await asyncio.to_thread(skew_of, *_present(state), view.snapshot.snapshot)
    pages = paged(skew.resources, _ROWS, view.parameter("page"))
    return Page(
        "storage_versions.html",
        {
            "is_on": True,
            "servers": skew.servers,
            "unreported": [one.title for one in skew.servers if not one.has_reported],
            "lines": pages.items,
            "pages": pages,
            "unsafe": sum(not one.is_safe for one in skew.resources),
            "unreadable": len(state.warnings()),
        },
    )


def _present(state: StorageVersions) -> tuple[dict[str, Object], dict[str, Object]]:
    """Return the StorageVersions and the leases by name, which may be read in any thread."""
    return (
        {name: stored.object for name, stored in state.collection.view.items()},
        {name: stored.object for name, stored in state.lease_collection.view.items()},
    )


def skew_of(
    objects: Mapping[str, Object], members: Mapping[str, Object], snapshot: Snapshot
) -> Skew:
    """Return who writes what.

    Args:
        objects: The StorageVersions by name.
        members: The leases of the API servers by identity.
        snapshot: The merged APIs.
    """
    reporting = {each for value in objects.values() for each in server_ids(value)}
    unreported = tuple(sorted(members.keys() - reporting))
    titles = dict(_titles(members, reporting))
    found = [progress(Target(name), value, unreported) for name, value in sorted(objects.items())]
    lagging = Counter(server for one in found for server in one.lagging)
    servers = tuple(
        _server(name, title, members.get(name), reporting, lagging[name])
        for name, title in titles.items()
    )
    hashes = {one.name: _HASHES[one.verdict] for one in compare(sorted(objects.items()), snapshot)}
    lines = [_resource(one, titles, snapshot, hashes.get(one.name, "")) for one in found]
    return Skew(servers, tuple(sorted(lines, key=lambda one: one.is_safe)))


def _titles(members: Mapping[str, Object], reporting: set[str]) -> Iterator[tuple[str, str]]:
    """Yield identities with titles: members by hostname, then those that have gone."""
    hosts = {name: _label(lease, leases.HOSTNAME_LABEL) for name, lease in members.items()}
    count = Counter(hosts.values())
    named = {name: host if host and count[host] == 1 else name for name, host in hosts.items()}
    yield from sorted(named.items(), key=lambda one: (one[1], one[0]))
    yield from ((name, name) for name in sorted(reporting - members.keys()))


def _label(lease: Object, label: str) -> str:
    return json_fields.string_map(metadata_of(lease), "labels").get(label, "")


def _server(
    name: str, title: str, lease: Object | None, reporting: set[str], lagging: int
) -> ServerLine:
    if lease is None:
        return ServerLine(
            name, title, "", None, is_member=False, has_reported=True, lagging=lagging
        )
    renewed = json_fields.text(json_fields.mapping(lease, "spec"), "renewTime")
    return ServerLine(
        name,
        title,
        _label(lease, leases.COMPONENT_LABEL),
        datetime.fromisoformat(renewed) if renewed else None,
        is_member=True,
        has_reported=name in reporting,
        lagging=lagging,
    )


def _resource(
    found: Progress, titles: Mapping[str, str], snapshot: Snapshot, compared: str
) -> ResourceLine:
    status = status_of(found.object) if found.object is not None else Status()
    entries = {entry.api_server_id: entry for entry in status.entries}
    group = found.name.rpartition(".")[0]
    condition = status.condition
    wanted = entries[found.agreeing[0]].encoding_version if found.agreeing else ""
    return ResourceLine(
        found.name,
        _served_group(group, snapshot),
        tuple(
            _cell(entries.get(server), group, is_lagging=server in found.lagging)
            for server in titles
        ),
        is_safe=found.agreed,
        common=_short(status.common_encoding_version or "", group),
        since=condition.last_transition_time if condition and found.agreed else None,
        lagging=tuple(titles[server] for server in found.lagging),
        wanted=_short(wanted, group),
        hash=compared,
    )


def _cell(entry: ServerStorageVersion | None, group: str, *, is_lagging: bool) -> Cell:
    if entry is None:
        return Cell()
    reads = ", ".join(_short(version, group) for version in entry.decodable_versions)
    return Cell(_short(entry.encoding_version, group), reads, is_lagging=is_lagging)


def _short(version: str, group: str) -> str:
    return version.removeprefix(f"{group}/")


def _served_group(group: str, snapshot: Snapshot) -> str | None:
    """Return the name of a group in discovery if it is served; None if it is not."""
    is_core = group == _CORE
    document, name = (snapshot.core, CORE_GROUP) if is_core else (snapshot.named, group)
    return name if name in document.by_name else None
