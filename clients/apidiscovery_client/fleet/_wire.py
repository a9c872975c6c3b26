"""Messages of FleetService: requests, and the matrix, which pages and changes make up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from apidiscovery.service.v1 import fleet_pb2
from apidiscovery_formats.matrix import Agreement, Cell, Column, Freshness, Key, Matrix, Row
from apidiscovery_formats.times import time_text
from google.protobuf.duration_pb2 import Duration

from apidiscovery_client._errors import UnexpectedDocument
from apidiscovery_client.fleet._answer import freshness_of, since_of, unknown
from apidiscovery_client.model import (
    CURRENT,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Stale,
    Subresource,
    Unknown,
    Version,
)
from apidiscovery_client.transports._grpc_answers import InconsistentError

SERVICE: Final = fleet_pb2.DESCRIPTOR.services_by_name["FleetService"].full_name
CLUSTERS: Final = "ListClusters"
MATRIX: Final = "GetMatrix"
WATCH: Final = "WatchFleet"

_NOT_READ = "its resources have not been read"

# Values that this client does not know are read as the most careful one.
_FRESHNESS = {
    fleet_pb2.FLEET_FRESHNESS_CURRENT: Freshness.CURRENT,
    fleet_pb2.FLEET_FRESHNESS_STALE: Freshness.STALE,
}
_AGREEMENT = {
    fleet_pb2.FLEET_AGREEMENT_SAME: Agreement.SAME,
    fleet_pb2.FLEET_AGREEMENT_DIFFERENT: Agreement.DIFFERENT,
}


def clusters_request(selector: str, page_token: str) -> fleet_pb2.ListClustersRequest:
    """Return a request for clusters with their group-versions."""
    return fleet_pb2.ListClustersRequest(
        label_selector=selector, with_group_versions=True, page_token=page_token
    )


def matrix_request(selector: str, hash_: str, page_token: str) -> fleet_pb2.GetMatrixRequest:
    """Return a request for the matrix, unless it has that hash."""
    return fleet_pb2.GetMatrixRequest(
        selection=fleet_pb2.FleetSelection(label_selector=selector),
        if_none_match=hash_,
        page_token=page_token,
    )


def watch_request(selector: str, hash_: str, heartbeat_s: float) -> fleet_pb2.WatchFleetRequest:
    """Return a request for the matrix, unless it has that hash, and for all changes."""
    heartbeat = Duration()
    heartbeat.FromNanoseconds(round(heartbeat_s * 1e9))
    return fleet_pb2.WatchFleetRequest(
        selection=fleet_pb2.FleetSelection(label_selector=selector),
        if_none_match=hash_,
        heartbeat_interval=heartbeat,
    )


@dataclass(slots=True)
class Received:
    """A matrix that arrives in parts.

    Attributes:
        hash: Of the matrix; empty while it is incomplete.
    """

    hash: str = ""
    _columns: dict[str, Column] = field(default_factory=dict[str, Column])
    _rows: dict[Key, fleet_pb2.FleetRow] = field(default_factory=dict[Key, fleet_pb2.FleetRow])
    # The rows of the last complete matrix, with the messages that they were made from.
    _made: dict[Key, tuple[fleet_pb2.FleetRow, Row]] = field(
        default_factory=dict[Key, tuple[fleet_pb2.FleetRow, Row]]
    )
    _names: tuple[str, ...] = ()

    def add_page(self, page: fleet_pb2.GetMatrixResponse.Page) -> None:
        """Add a page."""
        self._take(page.clusters, page.rows)

    def change(self, changes: fleet_pb2.WatchFleetResponse.Changes) -> Matrix | None:
        """Apply changes; return the matrix that they complete, None if more of them follow.

        Raises:
            InconsistentError: A row has a cluster that is not listed.
        """
        if changes.from_nothing:
            self._columns.clear()
            self._rows.clear()
        delta = changes.delta
        for name in delta.removed_clusters:
            self._columns.pop(name, None)
        for key in delta.removed_rows:
            self._rows.pop((key.group, key.resource), None)
        self._take(delta.clusters, delta.rows)
        self.hash = changes.hash
        return self.matrix() if changes.hash else None

    def matrix(self) -> Matrix:
        """Return the matrix.

        Raises:
            InconsistentError: A row has a cluster that is not listed.
        """
        names = tuple(sorted(self._columns))
        before = self._made if names == self._names else {}
        self._names, self._made = names, {}
        places = {name: place for place, name in enumerate(names)}
        for key in sorted(self._rows):
            message = self._rows[key]
            known = before.get(key)
            is_same = known is not None and known[0] is message
            self._made[key] = known if known and is_same else (message, _row(message, places))
        return Matrix(
            tuple(self._columns[name] for name in names),
            tuple(row for _, row in self._made.values()),
        )

    def _take(
        self, clusters: Iterable[fleet_pb2.FleetCluster], rows: Iterable[fleet_pb2.FleetRow]
    ) -> None:
        self._columns |= {cluster.name: column(cluster) for cluster in clusters}
        self._rows |= {(row.group, row.resource): row for row in rows}


def column(message: fleet_pb2.FleetCluster) -> Column:
    """Return the column of a cluster."""
    return Column(
        message.name,
        _FRESHNESS.get(message.freshness, Freshness.UNKNOWN),
        time_text(message.since.ToDatetime(UTC)) if message.HasField("since") else "",
        message.reason,
        message.version,
        message.resource_count,
        message.hash,
        dict(message.labels),
    )


def _row(message: fleet_pb2.FleetRow, places: Mapping[str, int]) -> Row:
    cells: list[Cell | None] = [None] * len(places)
    for told in message.cells:
        cell = Cell(
            tuple(told.versions),
            told.preferred_version,
            told.kind,
            told.scope,
            tuple(told.short_names),
            tuple(told.verbs),
            tuple(told.subresources),
            told.storage_version_hash,
            tuple(told.stale_versions),
            tuple(told.unknown_versions),
        )
        for name in told.clusters:
            if name not in places:
                raise InconsistentError(
                    f"the row of {message.resource!r} has the cluster {name!r}, which is not listed"
                )
            cells[places[name]] = cell
    agreement = _AGREEMENT.get(message.agreement, Agreement.UNSURE)
    return Row(message.group, message.resource, tuple(cells), agreement)


# Snapshots of clusters, made from their cells.


def snapshot_of(message: fleet_pb2.FleetCluster, matrix: Matrix) -> Snapshot:
    """Return what a cluster serves, as far as its column of the matrix has it.

    There are no categories; kinds, verbs and short names are those of the preferred version.
    """
    told = column(message)
    if told.freshness is Freshness.UNKNOWN:
        return unknown(told.name, since_of(told), told.reason)
    place = next(p for p, each in enumerate(matrix.columns) if each.name == told.name)
    resources: dict[GroupVersion, list[Resource]] = {}
    silent: dict[GroupVersion, None] = {}
    for row in matrix.rows:
        cell = row.cells[place]
        if cell is None:
            continue
        silent |= dict.fromkeys(GroupVersion(row.group, version) for version in cell.unknown)
        for version in cell.versions:
            gv = GroupVersion(row.group, version)
            resources.setdefault(gv, []).append(_resource(gv, row.resource, cell))
    versions = {GroupVersion(each.group, each.version): each for each in message.group_versions}
    groups: dict[str, list[Version]] = {"": []} if any(not gv.group for gv in silent) else {}
    for gv, each in versions.items():
        is_current = each.freshness == fleet_pb2.FLEET_FRESHNESS_CURRENT
        since = since_of(told)
        own = CURRENT if is_current else Stale(since, told.reason or f"stale: {gv}")
        freshness = Unknown(since, _NOT_READ) if gv in silent else own
        known = Version(gv, tuple(resources.get(gv, ())), freshness)
        groups.setdefault(gv.group, []).append(known)
    for gv in silent.keys() - versions.keys():
        groups.setdefault(gv.group, []).append(Version(gv, (), Unknown(since_of(told), _NOT_READ)))
    return Snapshot(
        groups=tuple(Group(name, tuple(each)) for name, each in groups.items()),
        server=told.name,
        checked_at=datetime.now(UTC),
        freshness=freshness_of(told),
    )


def _resource(gv: GroupVersion, name: str, cell: Cell) -> Resource:
    return Resource(
        gv=gv,
        name=name,
        singular_name=cell.kind.lower(),
        scope=cell.scope,
        response_kind=GroupVersionKind("", "", cell.kind) if cell.kind else None,
        verbs=cell.verbs,
        short_names=cell.short_names,
        subresources=tuple(Subresource(each, None, ()) for each in cell.subresources),
        storage_version_hash=cell.storage_version_hash,
    )


def unexpected(error: InconsistentError, address: str, method: str) -> UnexpectedDocument:
    """Return the error for a message that contradicts earlier ones."""
    return UnexpectedDocument(str(error), url=address, method=method)
