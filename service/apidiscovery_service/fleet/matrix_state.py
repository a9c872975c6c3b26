"""The matrix of some clusters, of which only those rows are made again that may have changed."""

import operator
from collections.abc import Iterable, Iterator, Mapping

from apidiscovery_formats.matrix import Column, Freshness, Matrix, Row, row_of

from apidiscovery_service.fleet.cells import ClusterCells


class MatrixState:
    """Remembers the rows of each group, and the clusters that they were made of."""

    def __init__(self) -> None:
        self._clusters: tuple[ClusterCells, ...] = ()
        self._rows: dict[str, tuple[Row, ...]] = {}
        self._matrix = Matrix((), ())

    def matrix(self, clusters: tuple[ClusterCells, ...]) -> Matrix:
        """Return the matrix of these clusters: the former one if they are the same.

        Rows that do not change are the same objects, so callers can keep derived values by row.
        """
        before = self._clusters
        if _same(before, clusters):
            return self._matrix
        columns = tuple(cluster.column for cluster in clusters)
        if _column_states(before) == _column_states(clusters):
            changed = _changed_groups(before, clusters)
        else:
            changed = {name for each in (*before, *clusters) for name in each.groups}
            self._rows.clear()
        for group in changed:
            former = {row.resource: row for row in self._rows.pop(group, ())}
            if rows := tuple(_rows(group, columns, clusters, former)):
                self._rows[group] = rows
        self._clusters = clusters
        self._matrix = Matrix(
            columns,
            tuple(row for group in sorted(self._rows) for row in self._rows[group])
            if changed
            else self._matrix.rows,
        )
        return self._matrix


def _same(before: tuple[ClusterCells, ...], after: tuple[ClusterCells, ...]) -> bool:
    return len(before) == len(after) and all(map(operator.is_, before, after))


def _column_states(clusters: Iterable[ClusterCells]) -> list[tuple[str, bool]]:
    """Return what every row depends on: the columns, and which of them deny nothing."""
    return [(c.column.name, c.column.freshness is Freshness.UNKNOWN) for c in clusters]


def _changed_groups(before: Iterable[ClusterCells], after: Iterable[ClusterCells]) -> set[str]:
    """Return the groups that some cluster serves in another way; clusters are in the same order."""
    return {
        name
        for old, new in zip(before, after, strict=True)
        if old is not new
        for name in old.groups.keys() | new.groups.keys()
        if old.groups.get(name) is not new.groups.get(name)
    }


def _rows(
    group: str,
    columns: tuple[Column, ...],
    clusters: tuple[ClusterCells, ...],
    former: Mapping[str, Row],
) -> Iterator[Row]:
    """Yield the rows of a group, by resource: the former ones where they are equal."""
    served = [cluster.groups.get(group) for cluster in clusters]
    identities = list(map(id, served))
    # Most clusters share the cells of a group, so the cell of a resource is looked up once for all.
    different = dict(zip(identities, served, strict=True))
    for resource in sorted({name for each in different.values() if each for name in each.cells}):
        found = {key: each.cell(resource) if each else None for key, each in different.items()}
        row = row_of((group, resource), columns, tuple(map(found.__getitem__, identities)))
        before = former.get(resource)
        yield before if before is not None and before == row else row
