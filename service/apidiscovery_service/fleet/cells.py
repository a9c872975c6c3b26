"""How each cluster serves each resource, as cells of the matrix.

Clusters that serve equal groups share the cells of these, so a thousand clusters of ten distinct
contents take little more memory than ten.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from apidiscovery_formats.matrix import (
    Cell,
    Column,
    Freshness,
    cells_of,
    content_hash,
    group_hash,
)
from apidiscovery_formats.times import time_text

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP, Group, Resource, Version
from apidiscovery_service.core.model import Freshness as VersionFreshness
from apidiscovery_service.core.source import SourceState

_FRESHNESS = {
    SourceState.CURRENT: Freshness.CURRENT,
    SourceState.STALE: Freshness.STALE,
    SourceState.PENDING: Freshness.UNKNOWN,
}
_NOT_ASKED = "it has not been asked yet"
# What the core group of every cluster has had since Kubernetes 1.0.
_CORE_VERSION = "v1"


class GroupCells:
    """How a group is served: the cell of each of its resources. Compared by identity.

    Attributes:
        group: The group.
        cells: By the name of the resource.
        missing: The cell of any other resource: None where the group does not have it, else one
            with the versions that have never answered, which may serve it.
        hash: Equal for groups that are served alike; empty without resources.
    """

    __slots__ = ("__weakref__", "cells", "group", "hash", "missing")

    def __init__(self, group: Group, unknown: tuple[str, ...] = ()) -> None:
        unknown = (*unknown, *(v.version for v in group.versions if v.is_unknown))
        served = cells_of(map(_cells, group.versions))
        self.group = group
        self.hash = group_hash(served) if served else ""
        self.missing = Cell(unknown=unknown) if unknown else None
        self.cells: Mapping[str, Cell] = {
            name: _with_unknown(cell, unknown) for name, cell in served.items()
        }

    def cell(self, resource: str) -> Cell | None:
        """Return the cell of a resource; None where the group does not have it."""
        return self.cells.get(resource, self.missing)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClusterCells:
    """One cluster of the matrix. Compared by identity.

    Attributes:
        cluster: The cluster that it was made of.
        groups: Its groups by name.
    """

    cluster: Cluster
    column: Column
    groups: Mapping[str, GroupCells]


class CellMaker:
    """Makes the cells of clusters; those of equal groups are made and held once."""

    def __init__(self) -> None:
        # Equal groups are mostly one object, and its identity is found without comparing it: a
        # group cannot be replaced by another at the same address while its cells hold it.
        self._by_identity: WeakValueDictionary[int, GroupCells] = WeakValueDictionary()
        self._by_group: WeakValueDictionary[Group, GroupCells] = WeakValueDictionary()
        self._core_not_had = GroupCells(Group(CORE_GROUP, ()), (_CORE_VERSION,))
        self._clusters: WeakValueDictionary[str, ClusterCells] = WeakValueDictionary()

    def of(self, cluster: Cluster) -> ClusterCells:
        """Return a cluster of the matrix; the same for the same cluster while anybody has it."""
        found = self._clusters.get(cluster.name)
        if found is None or found.cluster is not cluster:
            found = self._clusters[cluster.name] = self._make(cluster)
        return found

    def _make(self, cluster: Cluster) -> ClusterCells:
        """Return a cluster with its freshness, and the groups that it last served."""
        groups = {group.name: self._group(group) for group in _groups(cluster)}
        if cluster.core is None and cluster.named is not None:
            groups[CORE_GROUP] = self._core_not_had
        hashes = {name: group.hash for name, group in groups.items() if group.hash}
        status = cluster.status
        freshness = _FRESHNESS[status.state]
        if cluster.named is None:
            freshness = Freshness.UNKNOWN
        is_current = freshness is Freshness.CURRENT
        reason = status.error or ("" if freshness is Freshness.STALE else _NOT_ASKED)
        column = Column(
            cluster.name,
            freshness,
            since=time_text(status.since) if status.since and not is_current else "",
            reason="" if is_current else reason,
            version=cluster.dialect.release,
            resources=sum(len(group.cells) for group in groups.values()),
            hash=content_hash(hashes),
            labels=cluster.labels,
        )
        return ClusterCells(cluster, column, groups)

    def _group(self, group: Group) -> GroupCells:
        found = self._by_identity.get(id(group))
        if found is None or found.group is not group:
            found = self._by_group.get(group)
            if found is None:
                found = self._by_group[group] = GroupCells(group)
                self._by_identity[id(group)] = found
        return found


def _groups(cluster: Cluster) -> Iterator[Group]:
    yield from cluster.core or ()
    yield from cluster.named or ()


def _with_unknown(cell: Cell, unknown: tuple[str, ...]) -> Cell:
    return replace(cell, unknown=unknown) if unknown else cell


def _cells(version: Version) -> dict[str, Cell]:
    """Return the cells of a version, without placeholder parents of subresources."""
    stale = (version.version,) if version.freshness == VersionFreshness.STALE else ()
    found: dict[str, Cell] = {}
    for resource in version.resources:
        cell = _cell(version.version, resource, stale)
        if cell.kind or cell.verbs:
            found[resource.resource] = cell
    return found


def _cell(version: str, resource: Resource, stale: tuple[str, ...]) -> Cell:
    return Cell(
        versions=(version,),
        preferred=version,
        kind=resource.response_kind.kind if resource.response_kind else "",
        scope=resource.scope,
        short_names=resource.short_names,
        verbs=resource.verbs or (),
        subresources=tuple(sorted(each.subresource for each in resource.subresources)),
        storage_version_hash=resource.storage_version_hash,
        stale=stale,
    )
