"""The matrix of a fleet in words, for tables of the command line and pages of the service."""

from collections.abc import Iterator, Sequence

from apidiscovery_formats.matrix import Agreement, Cell, Column, Freshness, Matrix, Row

ABSENT, UNKNOWN = "-", "?"
"""Cells of a cluster that does not serve a resource, and of one where that is not known."""


def counts_text(matrix: Matrix) -> str:
    """Return the numbers of clusters, kinds and differences.

    Such as `3 clusters, 97 kinds: 92 the same everywhere, 5 differ`.
    """
    counts = {agreement: matrix.count(agreement) for agreement in Agreement}
    told = [f"{counts[Agreement.SAME]} the same everywhere"]
    told.append(f"{counts[Agreement.DIFFERENT]} differ")
    if counts[Agreement.UNSURE]:
        told.append(f"{counts[Agreement.UNSURE]} not known everywhere")
    clusters = _counted(len(matrix.columns), "cluster")
    return f"{clusters}, {_counted(len(matrix.rows), 'kind')}: {', '.join(told)}"


def versions_text(column: Column, cell: Cell | None) -> str:
    """Return the versions of a cell, the preferred one marked where there are several.

    It is `-` where the cluster does not serve the resource, and `?` where that is not known.
    """
    if cell is None:
        return UNKNOWN if column.freshness is Freshness.UNKNOWN else ABSENT
    if not cell.versions:
        return UNKNOWN
    mark = "*" if len(cell.versions) > 1 else ""
    return ",".join(v + mark if v == cell.preferred else v for v in cell.versions)


def unlike(cell: Cell, row: Row) -> Iterator[str]:
    """Yield what this cluster lacks, besides versions, that others of the row have."""
    # Clusters share their cells.
    others = {id(other): other for other in row.cells if other and other.versions}.values()
    for name in ("kind", "scope"):
        if len({getattr(other, name) for other in others}) > 1:
            yield str(getattr(cell, name)) or f"no {name}"
    for name, prefix in (("verbs", ""), ("subresources", "/"), ("short_names", "short name ")):
        everywhere: dict[str, None] = {}
        for other in others:
            everywhere |= dict.fromkeys(getattr(other, name))
        if lacking := [each for each in everywhere if each not in getattr(cell, name)]:
            yield f"no {', '.join(prefix + each for each in lacking)}"


def uncertain(cell: Cell) -> Sequence[str]:
    """Return which versions of a cell are stale, and which are not known."""
    told = [f"stale {','.join(cell.stale)}"] if cell.stale else []
    return [*told, f"{','.join(cell.unknown)} unknown"] if cell.unknown else told


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
