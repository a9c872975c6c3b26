"""The version of a resource that several servers have in common, where they are not alike."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from apidiscovery_formats.version_order import kube_aware_key

from apidiscovery_client._errors import AmbiguousResource, NoCommonVersion, NotServed
from apidiscovery_client.model import Current, Resource, Snapshot, path_of
from apidiscovery_client.resolving.index import in_preferred_order
from apidiscovery_client.resolving.resolver import Resolver
from apidiscovery_client.resolving.suggestions import AT_MOST


def compare_versions(one: str, other: str) -> int:
    """Return 1 where the first version is greater, -1 where it is less, 0 for the same text."""
    key, against = kube_aware_key(one), kube_aware_key(other)
    return (key < against) - (key > against)


class Serving(Enum):
    """Whether a server serves a resource in a version; the value is a word or two for people."""

    SERVED = "served"
    STALE = "last known to be served"
    UNKNOWN = "not known"
    NOT_SERVED = "not served"


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """What one server says of one version.

    Attributes:
        rank: How many versions of the resource this server prefers; 0 where it is not served.
        reason: Why it is stale or not known; empty otherwise.
    """

    version: str
    serving: Serving
    rank: int = 0
    reason: str = ""

    @property
    def is_there(self) -> bool:
        """Return whether the resource is there, or was when it was last known."""
        return self.serving in (Serving.SERVED, Serving.STALE)


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """What one server says of each version that any of the servers has.

    Attributes:
        versions: The greatest version first.
    """

    server: str
    versions: tuple[ServerVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonVersion:
    """The best version of a resource that all servers serve.

    Attributes:
        group: Empty for the core group.
        resource: The plural.
        kind: As the first server tells it.
        version: The one whose worst rank is the least; of those the greatest as Kubernetes
            compares versions.
        worst_rank: How many versions the server that likes it least prefers to it.
        servers: What each server says, in the order in which they were given.
        unsure: Why it is not known what a server serves, or only as it last was, by server: there
            may be a better common version, or what is stale may be gone.
    """

    group: str
    resource: str
    kind: str
    version: str
    worst_rank: int
    servers: tuple[ServerVersions, ...]
    unsure: Mapping[str, str]

    def __repr__(self) -> str:
        name = f"{self.resource}.{self.version}.{self.group}"
        doubt = "" if self.is_certain else ", uncertain"
        return f"<CommonVersion {name}: {len(self.servers)} servers{doubt}>"

    @property
    def is_certain(self) -> bool:
        """Return whether every server says now that it serves that version."""
        said = (one for server in self.servers for one in server.versions)
        return all(one.serving is Serving.SERVED for one in said if one.version == self.version)


def best_common_version(wanted: str, snapshots: Mapping[str, Snapshot]) -> CommonVersion:
    """Return the version of a resource that all servers serve and like best.

    A server's order is what it prefers; a version that does not answer comes after those that do.
    What a server last was known to serve counts as served, and is told in `unsure`. Where it is
    not known at all whether a server serves a version, that version is not taken, but it is told.

    Args:
        wanted: Whatever `Resolver.resolve` takes; a version in it is not heeded.
        snapshots: What is known of each server, by name; at least one.

    Raises:
        ValueError: There is no server.
        NotServed: No server is known to have such a resource.
        AmbiguousResource: It is another resource on another server, or a category of several.
        NoCommonVersion: No version is certainly served by all of them.
    """
    if not snapshots:
        raise ValueError("a common version needs at least one server, got none")
    meant = _meant(wanted, snapshots)
    servers = _table(meant, snapshots)
    columns = list(zip(*(server.versions for server in servers), strict=True))
    unsure = _unsure(servers)
    common = [column for column in columns if all(one.is_there for one in column)]
    if not common:
        raise _none_common(meant, servers, columns, unsure)
    best = min(common, key=_badness)
    return CommonVersion(
        group=meant.gv.group,
        resource=meant.name,
        kind=meant.kind,
        version=best[0].version,
        worst_rank=max(one.rank for one in best),
        servers=servers,
        unsure=unsure,
    )


def _badness(column: Sequence[ServerVersion]) -> tuple[int, tuple[object, ...]]:
    return max(one.rank for one in column), kube_aware_key(column[0].version)


def _meant(wanted: str, snapshots: Mapping[str, Snapshot]) -> Resource:
    """Return the resource of the first server that has it; the others must mean the same."""
    found: dict[str, Resource] = {}
    misses: dict[str, NotServed] = {}
    for server, snapshot in snapshots.items():
        try:
            resource = Resolver(snapshot).resolve(wanted).resource
        except NotServed as miss:
            misses[server] = miss
        else:
            found.setdefault(resource.gvr.group_resource, resource)
    if len(found) > 1:
        raise AmbiguousResource(wanted, list(found))
    if not found:
        raise _nowhere(wanted, misses)
    return next(iter(found.values()))


def _nowhere(wanted: str, misses: Mapping[str, NotServed]) -> NotServed:
    suggestions = dict.fromkeys(name for miss in misses.values() for name in miss.suggestions)
    return NotServed(
        wanted,
        checked_at=min(miss.checked_at for miss in misses.values()),
        suggestions=list(suggestions)[:AT_MOST],
        unsure={
            f"{server} {where}": why
            for server, miss in misses.items()
            for where, why in miss.unsure.items()
        },
    )


def _table(meant: Resource, snapshots: Mapping[str, Snapshot]) -> tuple[ServerVersions, ...]:
    known = {server: dict(_known(meant, snapshot)) for server, snapshot in snapshots.items()}
    every = sorted({version for said in known.values() for version in said}, key=kube_aware_key)
    return tuple(
        ServerVersions(
            server,
            tuple(known[server].get(name) or _absent(name, meant, snapshot) for name in every),
        )
        for server, snapshot in snapshots.items()
    )


def _known(meant: Resource, snapshot: Snapshot) -> Iterator[tuple[str, ServerVersion]]:
    """Yield what a server says of its versions of the group, unless it lacks the resource there."""
    group = snapshot.group(meant.gv.group)
    rank = 0
    for version in in_preferred_order(group) if group else ():
        has = any(resource.name == meant.name for resource in version.resources)
        own = snapshot.freshness if isinstance(version.freshness, Current) else version.freshness
        if isinstance(own, Current):
            if has:
                yield version.name, ServerVersion(version.name, Serving.SERVED, rank)
        else:
            serving = Serving.STALE if has else Serving.UNKNOWN
            yield version.name, ServerVersion(version.name, serving, rank * has, own.reason)
        rank += has


def _absent(name: str, meant: Resource, snapshot: Snapshot) -> ServerVersion:
    """Return what is to be said of a version of which the server says nothing."""
    reason = snapshot.failures.get(path_of(meant.gv.group))
    if reason is None and not isinstance(snapshot.freshness, Current):
        reason = snapshot.freshness.reason
    if reason is None:
        return ServerVersion(name, Serving.NOT_SERVED)
    return ServerVersion(name, Serving.UNKNOWN, reason=reason)


def _unsure(servers: Iterable[ServerVersions]) -> dict[str, str]:
    """Return each server's first reason for not being sure."""
    unsure: dict[str, str] = {}
    for server in servers:
        for said in server.versions:
            if said.serving in (Serving.STALE, Serving.UNKNOWN):
                unsure.setdefault(server.server, said.reason)
    return unsure


def _none_common(
    meant: Resource,
    servers: Sequence[ServerVersions],
    columns: Iterable[Sequence[ServerVersion]],
    unsure: Mapping[str, str],
) -> NoCommonVersion:
    possible = [
        column
        for column in columns
        if all(one.serving is not Serving.NOT_SERVED for one in column)
        and any(one.is_there for one in column)
    ]
    served = {
        server.server: [
            one.version for one in sorted(server.versions, key=lambda one: one.rank) if one.is_there
        ]
        for server in servers
    }
    return NoCommonVersion(
        meant.gvr.group_resource,
        served=served,
        possible=[column[0].version for column in sorted(possible, key=_badness)],
        unsure=unsure,
    )
