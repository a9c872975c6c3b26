"""Makes a cluster of the matrix from its snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apidiscovery_formats.matrix import (
    Cell,
    Cluster,
    Column,
    Freshness,
    Key,
    cells_of,
    content_hash,
    group_hash,
)
from apidiscovery_formats.times import time_text

from apidiscovery_client.model import Current, Group, Resource, Snapshot, Stale, Unknown, Version


def cluster_of(name: str, snapshot: Snapshot, labels: Mapping[str, str]) -> Cluster:
    """Return the cluster of a snapshot, with the freshness of the snapshot."""
    cells: dict[Key, Cell] = {}
    hashes: dict[str, str] = {}
    unknown: dict[str, tuple[str, ...]] = {}
    for group in snapshot.groups:
        if found := cells_of(map(_cells, _in_order(group))):
            hashes[group.name] = group_hash(found)
            cells |= {(group.name, resource): cell for resource, cell in found.items()}
        if silent := tuple(v.name for v in group.versions if isinstance(v.freshness, Unknown)):
            unknown[group.name] = silent
    column = Column(name, resources=len(cells), hash=content_hash(hashes), labels=labels)
    return Cluster(_with_freshness(column, snapshot), cells, unknown)


def _with_freshness(column: Column, snapshot: Snapshot) -> Column:
    match snapshot.freshness:
        case Stale(since, reason):
            # Another process may have had the last answer, through the disk cache.
            answered = time_text(min(since, snapshot.checked_at))
            column = replace(column, freshness=Freshness.STALE, since=answered, reason=reason)
        case Unknown(since, reason):
            column = replace(
                column, freshness=Freshness.UNKNOWN, since=time_text(since), reason=reason
            )
        case Current():
            pass
    if snapshot.failures:  # a missing document may have any resource
        reason = "; ".join(dict.fromkeys(snapshot.failures.values()))
        column = replace(column, freshness=Freshness.UNKNOWN, reason=column.reason or reason)
    return column


def _in_order(group: Group) -> Sequence[Version]:
    """Return versions in the cluster's order of preference, whether they answer or not.

    So a cluster that stops answering does not differ from the others.
    """
    return sorted(group.versions, key=lambda each: each.name != group.stated_preference)


def _cells(version: Version) -> dict[str, Cell]:
    """Return the cells of a version, without resources that only have subresources."""
    stale = (version.name,) if isinstance(version.freshness, Stale) else ()
    return {
        resource.name: _cell(version.name, resource, stale)
        for resource in version.resources
        if resource.kind or resource.verbs
    }


def _cell(version: str, resource: Resource, stale: tuple[str, ...]) -> Cell:
    return Cell(
        versions=(version,),
        preferred=version,
        kind=resource.kind,
        scope=resource.scope,
        short_names=resource.short_names,
        verbs=resource.verbs,
        subresources=tuple(sorted(each.name for each in resource.subresources)),
        storage_version_hash=resource.storage_version_hash,
        stale=stale,
    )
