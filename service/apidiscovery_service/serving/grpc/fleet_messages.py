"""Messages of FleetService, from clusters and rows of the matrix."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from apidiscovery.service.v1 import fleet_pb2
from apidiscovery_formats.matrix import Agreement, Cell, Column, Freshness, Row, Selection

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Freshness as VersionFreshness
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.selectors import LabelSelector, parse_labels
from apidiscovery_service.serving.grpc.message_fields import (
    PART_BYTES,
    check_names,
    page_token,
    timestamp,
)

_MAX_SELECTOR = 4_096  # characters

_FRESHNESS = {
    Freshness.CURRENT: fleet_pb2.FLEET_FRESHNESS_CURRENT,
    Freshness.STALE: fleet_pb2.FLEET_FRESHNESS_STALE,
    Freshness.UNKNOWN: fleet_pb2.FLEET_FRESHNESS_UNKNOWN,
}
_AGREEMENT = {
    Agreement.SAME: fleet_pb2.FLEET_AGREEMENT_SAME,
    Agreement.DIFFERENT: fleet_pb2.FLEET_AGREEMENT_DIFFERENT,
    Agreement.UNSURE: fleet_pb2.FLEET_AGREEMENT_UNSURE,
}


def selection_of(message: fleet_pb2.FleetSelection) -> tuple[LabelSelector, Selection]:
    """Read a selection of clusters and rows.

    Raises:
        InvalidFields: The label selector is malformed, or there are too many names.
    """
    for field, names in (("groups", message.groups), ("kinds", message.kinds)):
        check_names(f"selection.{field}", names)
    labels = labels_of("selection.label_selector", message.label_selector)
    return labels, Selection.of(message.groups, message.kinds, different=message.only_different)


def labels_of(field: str, selector: str) -> LabelSelector:
    """Read a label selector.

    Raises:
        InvalidFields: It is malformed, or too long.
    """
    if len(selector) > _MAX_SELECTOR:
        text = f"has {len(selector)} characters, want at most {_MAX_SELECTOR}"
        raise InvalidFields(FieldViolation(field, text))
    try:
        return parse_labels(selector)
    except ObjectError as error:
        text = f"{error.message}; want a label selector such as region=eu"
        raise InvalidFields(FieldViolation(field, text)) from None


# Clusters.


def cluster_message(column: Column, cluster: Cluster) -> fleet_pb2.FleetCluster:
    """Return a cluster as a message, without its group-versions."""
    groups = cluster.groups or ()
    return fleet_pb2.FleetCluster(
        name=column.name,
        labels=dict(column.labels),
        reachable=cluster.status.state is SourceState.CURRENT,
        freshness=_FRESHNESS[column.freshness],
        since=timestamp(datetime.fromisoformat(column.since) if column.since else None),
        reason=column.reason,
        version=column.version,
        group_count=len(groups),
        group_version_count=sum(len(group.versions) for group in groups),
        resource_count=column.resources,
        hash=column.hash,
    )


def clusters_page(
    columns: Iterable[Column],
    clusters: Mapping[str, Cluster],
    page_size: int | None,
    *,
    with_group_versions: bool,
) -> fleet_pb2.ListClustersResponse:
    """Return a page of clusters.

    Args:
        columns: The columns that remain, by name.
        clusters: The clusters of the columns, by name.
        page_size: The largest number of clusters; None for as many as fit.
        with_group_versions: Whether each has its group-versions.
    """
    page = fleet_pb2.ListClustersResponse()
    size = 0
    for column in columns:
        cluster = clusters[column.name]
        message = cluster_message(column, cluster)
        if with_group_versions:
            message.group_versions.extend(_group_version_messages(column, cluster))
        size += message.ByteSize()
        if page.clusters and (len(page.clusters) == page_size or size > PART_BYTES):
            page.next_page_token = page_token(page.clusters[-1].name)
            break
        page.clusters.append(message)
    return page


def _group_version_messages(
    column: Column, cluster: Cluster
) -> Iterator[fleet_pb2.FleetGroupVersion]:
    """Yield the group-versions of a cluster in its order of preference; no fresher than it is."""
    for group in cluster.groups or ():
        for version in group.versions:
            is_current = (
                column.freshness is Freshness.CURRENT
                and version.freshness == VersionFreshness.CURRENT
            )
            yield fleet_pb2.FleetGroupVersion(
                group=group.name,
                version=version.version,
                freshness=_FRESHNESS[Freshness.CURRENT if is_current else Freshness.STALE],
            )


# Rows.


def row_message(row: Row, names: Iterable[str]) -> fleet_pb2.FleetRow:
    """Return a row as a message.

    Args:
        row: The row.
        names: Those of the clusters, in the order of the cells.
    """
    return fleet_pb2.FleetRow(
        group=row.group,
        resource=row.resource,
        kind=row.kind,
        agreement=_AGREEMENT[row.agreement],
        cells=[
            _cell_message(cell, clusters)
            for cell, clusters in sorted(_clusters(row, names).items(), key=lambda each: each[1])
        ],
    )


def _clusters(row: Row, names: Iterable[str]) -> Mapping[Cell, list[str]]:
    """Return the clusters of each different cell.

    Most clusters share their cells, and to compare two objects is faster than to hash a cell.
    """
    by_id: dict[int, tuple[Cell, list[str]]] = {}
    for cell, name in zip(row.cells, names, strict=True):
        if cell is not None:
            by_id.setdefault(id(cell), (cell, []))[1].append(name)
    found: dict[Cell, list[str]] = {}
    for cell, clusters in by_id.values():
        found.setdefault(cell, []).extend(clusters)
    for clusters in found.values():
        clusters.sort()
    return found


def _cell_message(cell: Cell, clusters: Iterable[str]) -> fleet_pb2.FleetCell:
    return fleet_pb2.FleetCell(
        clusters=clusters,
        versions=cell.versions,
        preferred_version=cell.preferred,
        kind=cell.kind,
        scope=cell.scope,
        short_names=cell.short_names,
        verbs=cell.verbs,
        subresources=cell.subresources,
        storage_version_hash=cell.storage_version_hash,
        stale_versions=cell.stale,
        unknown_versions=cell.unknown,
    )


def digest(data: bytes) -> bytes:
    """Return what stands for encoded messages in comparisons."""
    return hashlib.blake2b(data, digest_size=16).digest()
