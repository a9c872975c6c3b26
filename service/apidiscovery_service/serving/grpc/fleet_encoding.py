"""The matrix encoded: each cluster and row once, shared by all calls; pages of it, and deltas.

A message is put together from encoded parts: a message field and a bytes field look the same on the
wire. A change encodes only the rows and clusters that it concerns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias

from apidiscovery.service.v1 import fleet_pb2
from apidiscovery_formats.matrix import Column, Key, Matrix, Row, Selection

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.kube import wire
from apidiscovery_service.recent import Recent
from apidiscovery_service.serving.grpc.calls import number_of
from apidiscovery_service.serving.grpc.fleet_messages import (
    cluster_message,
    digest,
    row_message,
)
from apidiscovery_service.serving.grpc.message_fields import PART_BYTES

# Deltas and selections of one matrix that callers share.
_MAX_SHARED = 8

_HASH = number_of(fleet_pb2.GetMatrixResponse, "hash")
_NOT_MODIFIED = number_of(fleet_pb2.GetMatrixResponse, "not_modified")
_PAGE = number_of(fleet_pb2.GetMatrixResponse, "page")
_NEXT = number_of(fleet_pb2.GetMatrixResponse, "next_page_token")
_PAGE_CLUSTERS = number_of(fleet_pb2.GetMatrixResponse.Page, "clusters")
_PAGE_ROWS = number_of(fleet_pb2.GetMatrixResponse.Page, "rows")
_CHANGES = number_of(fleet_pb2.WatchFleetResponse, "changes")
_CHANGES_HASH = number_of(fleet_pb2.WatchFleetResponse.Changes, "hash")
_CHANGES_DELTA = number_of(fleet_pb2.WatchFleetResponse.Changes, "delta")
_FROM_NOTHING = fleet_pb2.WatchFleetResponse.Changes(from_nothing=True).SerializeToString()
_CLUSTERS = number_of(fleet_pb2.FleetDelta, "clusters")
_REMOVED_CLUSTERS = number_of(fleet_pb2.FleetDelta, "removed_clusters")
_ROWS = number_of(fleet_pb2.FleetDelta, "rows")
_REMOVED_ROWS = number_of(fleet_pb2.FleetDelta, "removed_rows")

# A field of a message, and its content.
_Field: TypeAlias = tuple[int, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    data: bytes
    digest: bytes

    @classmethod
    def of(cls, message: fleet_pb2.FleetCluster | fleet_pb2.FleetRow) -> "_Encoded":
        data = message.SerializeToString(deterministic=True)  # labels are a map
        return cls(data, digest(data))


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """The digests of what a watch has sent. It has no bytes, so a slow reader keeps none alive."""

    hash: str
    clusters: Mapping[str, bytes]
    rows: Mapping[Key, bytes]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the matrix.

    Attributes:
        message: The encoded answer, but for the token.
        end: Where the next page begins; None on the last page.
    """

    message: bytes
    end: int | None

    def with_token(self, token: str) -> bytes:
        """Return the encoded answer."""
        return self.message + (wire.delimited(_NEXT, token.encode()) if token else b"")


class EncodedMatrix:
    """One state of the matrix, or a selection of it; it does not change.

    Attributes:
        hash: Changes with any cluster or row.
    """

    def __init__(self, clusters: Mapping[str, _Encoded], rows: Mapping[Key, _Encoded]) -> None:
        self._clusters = clusters
        self._rows = rows
        self.hash = digest(
            b"".join(
                each.digest for part in (clusters, rows) for each in (*part.values(), _SEPARATOR)
            )
        ).hex()
        # By the id of a `Sent`: the messages, and the object itself, so that no other gets its id.
        self._deltas: Recent[int, tuple[Sent, list[bytes]]] = Recent(_MAX_SHARED)

    @cached_property
    def sent(self) -> Sent:
        """The digests that a watch keeps once it has sent this."""
        return Sent(
            self.hash,
            {name: each.digest for name, each in self._clusters.items()},
            {key: each.digest for key, each in self._rows.items()},
        )

    @property
    def not_modified(self) -> bytes:
        """The answer of GetMatrix to a caller that has this."""
        return wire.delimited(_HASH, self.hash.encode()) + wire.delimited(_NOT_MODIFIED, b"")

    def page(self, begin: int, page_size: int | None) -> Page:
        """Return a page: the clusters come first, then the rows.

        Args:
            begin: 0, or the `end` of the page before.
            page_size: The largest number of rows; None for as many as fit.
        """
        fields: list[_Field] = [(_PAGE_CLUSTERS, each.data) for each in self._clusters.values()]
        count = len(fields)
        fields += [(_PAGE_ROWS, each.data) for each in self._rows.values()]
        last = len(fields) if page_size is None else max(begin, count) + page_size
        end = begin + next((len(part) for part in _parts(fields[begin:last])), 0)
        payload = b"".join(wire.delimited(*each) for each in fields[begin:end])
        message = wire.delimited(_HASH, self.hash.encode()) + wire.delimited(_PAGE, payload)
        return Page(message, end if end < len(fields) else None)

    def whole(self) -> Iterator[bytes]:
        """Yield the messages of a watch that lead from nothing to this."""
        fields: list[_Field] = [(_CLUSTERS, each.data) for each in self._clusters.values()]
        fields += [(_ROWS, each.data) for each in self._rows.values()]
        return self._messages(fields, from_nothing=True)

    def delta(self, sent: Sent) -> list[bytes]:
        """Return the messages of a watch with the difference to what it sent; none for none."""
        if sent is self.sent:
            return []
        shared = self._deltas.get(id(sent))
        if shared is None:
            fields = list(self._changed(sent))
            shared = sent, list(self._messages(fields)) if fields else []
            self._deltas.put(id(sent), shared)
        return shared[1]

    def _changed(self, sent: Sent) -> Iterator[_Field]:
        for name, cluster in self._clusters.items():
            if sent.clusters.get(name) != cluster.digest:
                yield _CLUSTERS, cluster.data
        for name in sorted(sent.clusters.keys() - self._clusters.keys()):
            yield _REMOVED_CLUSTERS, name.encode()
        for key, row in self._rows.items():
            if sent.rows.get(key) != row.digest:
                yield _ROWS, row.data
        for group, resource in sorted(sent.rows.keys() - self._rows.keys()):
            key_message = fleet_pb2.FleetRowKey(group=group, resource=resource)
            yield _REMOVED_ROWS, key_message.SerializeToString()

    def _messages(self, fields: list[_Field], *, from_nothing: bool = False) -> Iterator[bytes]:
        begin = 0
        for part in _parts(fields) if fields else [fields]:
            payload = b"".join(wire.delimited(*each) for each in part)
            changes = wire.delimited(_CHANGES_DELTA, payload)
            if from_nothing and begin == 0:
                changes += _FROM_NOTHING
            begin += len(part)
            if begin == len(fields):
                changes += wire.delimited(_CHANGES_HASH, self.hash.encode())
            yield wire.delimited(_CHANGES, changes)


_SEPARATOR = _Encoded(b"", bytes(16))


def _parts(fields: list[_Field]) -> Iterator[list[_Field]]:
    """Yield fields in parts of a bounded size, each of one field at least."""
    part: list[_Field] = []
    size = 0
    for each in fields:
        if part and size + len(each[1]) > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each[1])
    if part:
        yield part


@dataclass(frozen=True, slots=True, eq=False)
class EncodedScope:
    """The matrix of one scope at one time, encoded.

    Attributes:
        matrix: All of it.
        clusters: Each column and cluster beside its encoding.
        rows: Each row beside its encoding.
    """

    matrix: EncodedMatrix
    clusters: Mapping[str, tuple[Column, Cluster, _Encoded]]
    rows: Mapping[Key, tuple[Row, _Encoded]]
    _shared: Recent[Selection, EncodedMatrix] = field(
        default_factory=partial(Recent[Selection, EncodedMatrix], _MAX_SHARED), init=False
    )

    def selected(self, rows: Selection) -> EncodedMatrix:
        """Return all clusters with a selection of rows."""
        if rows == Selection():
            return self.matrix
        matrix = self._shared.get(rows)
        if matrix is None:
            found = {key: encoded for key, (row, encoded) in self.rows.items() if rows.admits(row)}
            matrix = EncodedMatrix(_encoded_clusters(self.clusters), found)
            self._shared.put(rows, matrix)
        return matrix


def write(
    matrix: Matrix, clusters: Mapping[str, Cluster], before: EncodedScope | None
) -> EncodedScope:
    """Return a matrix encoded; the encoding of an object that was there before is used again.

    Args:
        matrix: The matrix.
        clusters: Those of its columns, by name.
        before: The last result for the same scope; None for none.
    """
    columns = dict(_written_clusters(matrix, clusters, before.clusters if before else {}))
    is_same_order = before is not None and [*before.clusters] == [*columns]
    rows = dict(_written_rows(matrix, before.rows if before and is_same_order else {}))
    encoded = EncodedMatrix(
        _encoded_clusters(columns), {key: each for key, (_, each) in rows.items()}
    )
    # Equal matrices are one, so that what watches have sent is found in it.
    is_same = before is not None and before.matrix.hash == encoded.hash
    return EncodedScope(before.matrix if before and is_same else encoded, columns, rows)


def _encoded_clusters(
    clusters: Mapping[str, tuple[Column, Cluster, _Encoded]],
) -> dict[str, _Encoded]:
    """Return the encodings alone."""
    return {name: encoded for name, (_, _, encoded) in clusters.items()}


def _written_clusters(
    matrix: Matrix,
    clusters: Mapping[str, Cluster],
    before: Mapping[str, tuple[Column, Cluster, _Encoded]],
) -> Iterator[tuple[str, tuple[Column, Cluster, _Encoded]]]:
    for column in matrix.columns:
        cluster = clusters[column.name]
        known = before.get(column.name)
        if known is None or known[0] is not column or known[1] is not cluster:
            known = column, cluster, _Encoded.of(cluster_message(column, cluster))
        yield column.name, known


def _written_rows(
    matrix: Matrix, before: Mapping[Key, tuple[Row, _Encoded]]
) -> Iterator[tuple[Key, tuple[Row, _Encoded]]]:
    names = [column.name for column in matrix.columns]
    for row in matrix.rows:
        key = (row.group, row.resource)
        known = before.get(key)
        if known is None or known[0] is not row:
            known = row, _Encoded.of(row_message(row, names))
        yield key, known


def heartbeat(sent: Sent) -> bytes:
    """Return the message of a watch without a change since it sent something."""
    message = fleet_pb2.WatchFleetResponse.Heartbeat(hash=sent.hash)
    return fleet_pb2.WatchFleetResponse(heartbeat=message).SerializeToString()
