"""One cluster of the matrix, from what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from apidiscovery_formats.matrix import Cell, Cluster, Column, Freshness, Key, hash_of

from apidiscovery_client.model import Current, Group, Resource, Snapshot, Stale, Unknown, Version


def cluster_of(name: str, snapshot: Snapshot, labels: Mapping[str, str]) -> Cluster:
    """Return the cluster whose snapshot this is: as fresh as the snapshot, and no fresher."""
    cells: dict[Key, Cell] = {}
    unknown: dict[str, tuple[str, ...]] = {}
    for group in snapshot.groups:
        cells |= _cells(group)
        if silent := tuple(v.name for v in group.versions if isinstance(v.freshness, Unknown)):
            unknown[group.name] = silent
    column = Column(
        name,
        resources=len(cells),
        hash=hash_of([[*key, repr(cells[key].served)] for key in sorted(cells)]),
        labels=labels,
    )
    return Cluster(_with_freshness(column, snapshot), cells, unknown)


def _with_freshness(column: Column, snapshot: Snapshot) -> Column:
    match snapshot.freshness:
        case Stale(since, reason):
            column = replace(
                column, freshness=Freshness.STALE, since=_rfc3339(since), reason=reason
            )
        case Unknown(since, reason):
            column = replace(
                column, freshness=Freshness.UNKNOWN, since=_rfc3339(since), reason=reason
            )
        case Current():
            pass
    if snapshot.failures:  # a whole document is missing: what is not there may be in it
        reason = "; ".join(dict.fromkeys(snapshot.failures.values()))
        column = replace(column, freshness=Freshness.UNKNOWN, reason=column.reason or reason)
    return column


def _rfc3339(when: datetime) -> str:
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def _cells(group: Group) -> dict[Key, Cell]:
    """Return the cells of a group, without parents that only stand there for subresources.

    Versions are in the order in which the cluster prefers them, whether they answer now or not, so
    a cluster that stops answering differs from none.
    """
    served: dict[str, list[tuple[Version, Resource]]] = {}
    for version in sorted(group.versions, key=lambda each: each.name != group.stated_preference):
        for resource in version.resources:
            if resource.kind or resource.verbs:
                served.setdefault(resource.name, []).append((version, resource))
    return {(group.name, name): _cell(found) for name, found in served.items()}


def _cell(served: Sequence[tuple[Version, Resource]]) -> Cell:
    preferred, resource = served[0]
    return Cell(
        versions=tuple(version.name for version, _ in served),
        preferred=preferred.name,
        kind=resource.kind,
        scope=resource.scope,
        short_names=resource.short_names,
        verbs=resource.verbs,
        subresources=tuple(sorted(each.name for each in resource.subresources)),
        storage_version_hash=resource.storage_version_hash,
        stale=tuple(v.name for v, _ in served if isinstance(v.freshness, Stale)),
    )
