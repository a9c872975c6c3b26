"""The matrix of a fleet: which cluster serves which resource, in which versions.

A row is a resource of a group, a column is a cluster. Freshness of a whole cluster stands with its
column, so a cluster that stops answering changes one column and no row. The JSON form is what
`/fleet/matrix` serves and `apidiscovery fleet -o json` prints.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

JSONObject: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]  # group and resource


class Freshness(StrEnum):
    """Whether the known state of a cluster is its present one."""

    CURRENT = "Current"
    STALE = "Stale"
    UNKNOWN = "Unknown"


class Agreement(StrEnum):
    """Whether all clusters serve a resource alike."""

    SAME = "Same"
    DIFFERENT = "Different"
    UNSURE = "Unsure"


@dataclass(frozen=True, slots=True)
class Cell:
    """How one cluster serves one resource.

    Where versions differ in scope, verbs and names, those of the preferred version count.

    Attributes:
        versions: In the order in which the cluster prefers them; empty where only `unknown` is.
        preferred: The version for clients that ask for none.
        kind: Empty if the server states none.
        scope: `Namespaced`, `Cluster`, or whatever else the server says.
        subresources: Their names, sorted.
        storage_version_hash: Of the preferred version; empty if it is not known.
        stale: Those of `versions` of which only the last known state is known.
        unknown: Versions of the group that have never answered, which may have the resource.
    """

    versions: tuple[str, ...] = ()
    preferred: str = ""
    kind: str = ""
    scope: str = ""
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    storage_version_hash: str = ""
    stale: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def served(self) -> tuple[object, ...]:
        """The values that are compared with other cells: what clients can do.

        Verbs and short names are sets, since no client depends on their order. Storage versions do
        not count: clients do not see how objects are stored.
        """
        return (
            self.versions,
            self.preferred,
            self.kind,
            self.scope,
            frozenset(self.short_names),
            frozenset(self.verbs),
            self.subresources,
        )


@dataclass(frozen=True, slots=True)
class Column:
    """One cluster.

    Attributes:
        since: Since when it is not current, as RFC 3339; empty where it is current.
        reason: Why it is not current; one line.
        version: What it says of its release, such as `v1.36.2`; empty where it is not known.
        resources: How many resources it serves.
        hash: Equal for clusters that serve the same.
        labels: As the operator gave them.
    """

    name: str
    freshness: Freshness = Freshness.CURRENT
    since: str = ""
    reason: str = ""
    version: str = ""
    resources: int = 0
    hash: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One resource in every cluster.

    Attributes:
        cells: One for each column, in their order; None where the cluster does not serve it.
        agreement: `Different` where two clusters that are known serve it differently; `Unsure`
            where they do not, but what some cluster serves is not known.
    """

    group: str
    resource: str
    cells: tuple[Cell | None, ...]
    agreement: Agreement

    def __repr__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"<Row {name}: {self.agreement} in {len(self.cells)} clusters>"

    @property
    def kind(self) -> str:
        """The kind in the first cluster that states one."""
        return next((cell.kind for cell in self.cells if cell and cell.kind), "")

    def is_named(self, names: Iterable[str]) -> bool:
        """Return whether one of these, in lower case, is its kind, resource or a short name."""
        return any(
            name in (self.kind.lower(), self.resource)
            or any(cell and name in cell.short_names for cell in self.cells)
            for name in names
        )

    @property
    def scope(self) -> str:
        """The scope in the first cluster that states one."""
        return next((cell.scope for cell in self.cells if cell and cell.scope), "")


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects rows of a matrix.

    Attributes:
        groups: Names of groups, empty for the core group; nothing for all.
        kinds: Names of kinds or resources in lower case, or short names; nothing for all.
        different: Whether rows that are the same everywhere are left out.
    """

    groups: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    different: bool = False

    @classmethod
    def of(
        cls, groups: Iterable[str] = (), kinds: Iterable[str] = (), *, different: bool = False
    ) -> "Selection":
        """Return the selection by names, those of kinds in any case."""
        return cls(frozenset(groups), frozenset(kind.lower() for kind in kinds), different)

    def admits(self, row: Row) -> bool:
        """Return whether a row is selected."""
        return (
            (not self.groups or row.group in self.groups)
            and (not self.kinds or row.is_named(self.kinds))
            and not (self.different and row.agreement is Agreement.SAME)
        )


@dataclass(frozen=True, slots=True)
class Matrix:
    """All rows, by group and resource, and the columns in the order in which they were given."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(one)} {one}" for one in Agreement if self.count(one))
        rows = f"{len(self.rows)} rows" + (f" ({counts})" if counts else "")
        return f"<Matrix of {len(self.columns)} clusters: {rows}>"

    def count(self, agreement: Agreement) -> int:
        """Return the number of rows with an agreement."""
        return sum(row.agreement is agreement for row in self.rows)

    def selected(
        self, *, groups: Iterable[str] = (), kinds: Iterable[str] = (), different: bool = False
    ) -> "Matrix":
        """Return the matrix with some of its rows.

        Args:
            groups: Names of groups, empty for the core group; nothing for all.
            kinds: Names of kinds or resources, in any case, or short names; nothing for all.
            different: Whether rows that are the same everywhere are left out.
        """
        selection = Selection.of(groups, kinds, different=different)
        return replace(self, rows=tuple(filter(selection.admits, self.rows)))


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster, from which a matrix is made.

    Attributes:
        cells: How the cluster serves each resource.
        unknown: By group, its versions that have never answered.
    """

    column: Column
    cells: Mapping[Key, Cell]
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def cell(self, key: Key) -> Cell | None:
        """Return the cell of a resource; None where the cluster does not serve it."""
        cell = self.cells.get(key)
        unknown = self.unknown.get(key[0])
        return replace(cell or Cell(), unknown=unknown) if unknown else cell


def make(clusters: Sequence[Cluster]) -> Matrix:
    """Return the matrix of clusters, with a row for each resource that any of them serves."""
    keys = sorted({key for cluster in clusters for key in cluster.cells})
    columns = tuple(cluster.column for cluster in clusters)
    return Matrix(columns, tuple(make_row(key, clusters) for key in keys))


def make_row(key: Key, clusters: Sequence[Cluster]) -> Row:
    """Return the row of one resource, by group and name."""
    cells = tuple(cluster.cell(key) for cluster in clusters)
    return row_of(key, [cluster.column for cluster in clusters], cells)


def row_of(key: Key, columns: Sequence[Column], cells: tuple[Cell | None, ...]) -> Row:
    """Return the row of one resource with these cells, one for each column."""
    # Most clusters share their cells, so each of those is looked at once.
    different = {id(cell): cell for cell in cells}
    told = [cell for cell in different.values() if cell is not None]
    known: set[object] = {cell.served for cell in told if not cell.unknown}
    is_sure = not any(cell.unknown for cell in told)
    if len(told) < len(different):
        without = {c.freshness for c, cell in zip(columns, cells, strict=True) if cell is None}
        is_sure &= Freshness.UNKNOWN not in without
        if without - {Freshness.UNKNOWN}:
            known.add(None)
    if len(known) > 1:
        return Row(*key, cells, Agreement.DIFFERENT)
    return Row(*key, cells, Agreement.SAME if is_sure else Agreement.UNSURE)


def of_clusters(matrix: Matrix, names: Container[str]) -> Matrix:
    """Return the matrix of clusters with these names, with the rows that any of them serves."""
    places = [place for place, column in enumerate(matrix.columns) if column.name in names]
    columns = tuple(matrix.columns[place] for place in places)
    found = (
        ((row.group, row.resource), tuple(row.cells[place] for place in places))
        for row in matrix.rows
    )
    return Matrix(
        columns,
        tuple(
            row_of(key, columns, cells)
            for key, cells in found
            if any(cell is not None and cell.versions for cell in cells)
        ),
    )


def cells_of(versions: Iterable[Mapping[str, Cell]]) -> dict[str, Cell]:
    """Return how a cluster serves each resource of a group.

    Args:
        versions: How each version of the group serves it, by the name of the resource, in the order
            in which the cluster prefers them; each cell has that version alone.
    """
    served: dict[str, list[Cell]] = {}
    for version in versions:
        for name, cell in version.items():
            served.setdefault(name, []).append(cell)
    return {
        name: replace(
            cells[0],
            versions=tuple(version for cell in cells for version in cell.versions),
            stale=tuple(version for cell in cells for version in cell.stale),
        )
        for name, cells in served.items()
    }


def group_hash(cells: Mapping[str, Cell]) -> str:
    """Return a hash that is equal for groups that are served alike, by `Cell.served`."""
    return hash_of({name: _comparable(cell) for name, cell in cells.items()})


def _comparable(cell: Cell) -> JSONObject:
    """Return the values of `Cell.served` as JSON, sets in order."""
    own = _cell_json(replace(cell, storage_version_hash="", stale=(), unknown=()))
    return {**own, "verbs": sorted(set(cell.verbs)), "shortNames": sorted(set(cell.short_names))}


def content_hash(groups: Mapping[str, str]) -> str:
    """Return the hash of a column, from the hash of each group that has resources."""
    return hash_of(dict(groups))


def to_json(matrix: Matrix) -> JSONObject:
    """Return the matrix as a JSON value, with its hash."""
    value: JSONObject = {
        "clusters": [column_json(column) for column in matrix.columns],
        "rows": [row_json(row, matrix.columns) for row in matrix.rows],
    }
    return {"hash": hash_of(value), **value}


def hash_of(value: object) -> str:
    """Return a hash that is equal for equal JSON values."""
    return hash_of_text([canonical_text(value)])


def canonical_text(value: object) -> bytes:
    """Return the text of a JSON value that `hash_of` hashes, the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def hash_of_text(parts: Iterable[bytes]) -> str:
    """Return the hash of a JSON value, whose canonical text comes in parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:32]


def column_json(column: Column) -> JSONObject:
    """Return a column as a JSON value; what is empty is left out."""
    return _without_empty(
        name=column.name,
        labels=dict(sorted(column.labels.items())),
        freshness=str(column.freshness),
        since=column.since,
        reason=column.reason,
        version=column.version,
        resources=column.resources,
        hash=column.hash,
    )


def row_json(row: Row, columns: Sequence[Column]) -> JSONObject:
    """Return a row as a JSON value: each different cell once, with the clusters that have it.

    Clusters without the resource are under `absent`, those of which nothing is known under
    `unknown`.
    """
    clusters: dict[Cell, list[str]] = {}
    absent: list[str] = []
    unknown: list[str] = []
    # The lists of names by the identity of the cell, since comparing cells takes far longer.
    different = {id(cell): cell for cell in row.cells if cell is not None}
    named = {key: clusters.setdefault(cell, []) for key, cell in different.items()}
    for column, cell in zip(columns, row.cells, strict=True):
        if cell is not None:
            named[id(cell)].append(column.name)
        elif column.freshness is Freshness.UNKNOWN:
            unknown.append(column.name)
        else:
            absent.append(column.name)
    return {
        "group": row.group,
        "resource": row.resource,
        "kind": row.kind,
        "agreement": str(row.agreement),
        "cells": [
            {"clusters": names, **_cell_json(cell)}
            for cell, names in sorted(clusters.items(), key=lambda each: each[1])
        ],
        **_without_empty(absent=absent, unknown=unknown),
    }


def _cell_json(cell: Cell) -> JSONObject:
    return _without_empty(
        versions=list(cell.versions),
        preferred=cell.preferred,
        kind=cell.kind,
        scope=cell.scope,
        shortNames=list(cell.short_names),
        verbs=list(cell.verbs),
        subresources=list(cell.subresources),
        storageVersionHash=cell.storage_version_hash,
        stale=list(cell.stale),
        unknownVersions=list(cell.unknown),
    )


def _without_empty(**fields: object) -> JSONObject:
    return {name: value for name, value in fields.items() if value not in ("", [], {})}


@dataclass(frozen=True, slots=True)
class Delta:
    """The difference of two matrices: whole columns and rows that are new or changed.

    Attributes:
        order: The names of all columns that are there now, in order.
        gone: Group and resource of each row that is no longer there.
    """

    columns: tuple[Column, ...]
    order: tuple[str, ...]
    rows: tuple[Row, ...]
    gone: tuple[Key, ...]


def delta(before: Matrix, after: Matrix) -> Delta:
    """Return what has changed from one matrix to the next."""
    columns = {column.name: column for column in before.columns}
    rows = {(row.group, row.resource): row for row in before.rows}
    is_same_order = [c.name for c in before.columns] == [c.name for c in after.columns]
    return Delta(
        tuple(c for c in after.columns if columns.get(c.name) != c),
        tuple(c.name for c in after.columns),
        tuple(
            row
            for row in after.rows
            if not is_same_order or rows.get((row.group, row.resource)) != row
        ),
        tuple(sorted(rows.keys() - {(row.group, row.resource) for row in after.rows})),
    )


def applied(before: Matrix, change: Delta) -> Matrix:
    """Return the matrix that a change leads to."""
    columns = {column.name: column for column in (*before.columns, *change.columns)}
    rows = {(row.group, row.resource): row for row in (*before.rows, *change.rows)}
    for key in change.gone:
        del rows[key]
    return Matrix(
        tuple(columns[name] for name in change.order), tuple(rows[key] for key in sorted(rows))
    )
