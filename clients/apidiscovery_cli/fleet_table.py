"""The matrix of a fleet as a table, for people and for Markdown."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from apidiscovery_formats.matrix import Cell, Column, Freshness, Matrix, Row
from apidiscovery_formats.matrix_words import counts_text, uncertain, unlike, versions_text

from apidiscovery_cli.printing import table
from apidiscovery_cli.reports.forms import escaped

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def headline(matrix: Matrix, now: datetime) -> str:
    """Return what there is and how much of it differs, and who does not answer; one line."""
    line = counts_text(matrix)
    return "; ".join([line, *(silence(c, now) for c in matrix.columns if _is_silent(c))])


def rows_text(matrix: Matrix, now: datetime, *, wide: bool) -> str:
    """Return a line for each row under a line of titles; nothing for a matrix without rows."""
    if not matrix.rows:
        return ""
    return table([_titles(matrix, wide=wide), *_lines(matrix, now, wide=wide)])


def markdown(matrix: Matrix, now: datetime, *, title: str, wide: bool) -> str:
    """Return the title, a line of plain text, and the table in Markdown."""
    paragraph = f"{escaped(title)}.\n"
    if not matrix.rows:
        return paragraph
    titles = _titles(matrix, wide=wide)
    lines = [titles, ["---"] * len(titles), *_lines(matrix, now, wide=wide)]
    rows = "".join(f"| {' | '.join(map(escaped, line))} |\n" for line in lines)
    return f"{paragraph}\n{rows}"


def common_rows(matrix: Matrix) -> Iterator[tuple[Row, tuple[str, ...]]]:
    """Yield rows that every cluster serves as the same kind, with the versions that all have.

    Versions are in the order of the first cluster. What some cluster last was known to serve counts
    as served; where it is not known at all whether a cluster serves a row, it is left out.
    """
    for row in matrix.rows:
        cells = [cell for cell in row.cells if cell is not None]
        alike = {(cell.kind, cell.scope) for cell in cells}
        if len(cells) < len(row.cells) or len(alike) != 1:
            continue
        versions = tuple(v for v in cells[0].versions if all(v in c.versions for c in cells))
        if versions:
            yield row, versions


def common_text(matrix: Matrix) -> str:
    """Return a line for each resource that is served everywhere, under a line of titles."""
    lines = [
        [row.kind, row.resource, row.group, ",".join(versions)]
        for row, versions in common_rows(matrix)
    ]
    return table([["KIND", "NAME", "GROUP", "VERSIONS"], *lines])


def _titles(matrix: Matrix, *, wide: bool) -> list[str]:
    more = ["NAME", "SHORTNAMES", "SCOPE"] if wide else []
    return ["KIND", *more, "GROUP", *(column.name.upper() for column in matrix.columns)]


def _lines(matrix: Matrix, now: datetime, *, wide: bool) -> Iterator[list[str]]:
    for row in matrix.rows:
        more = [row.resource, _short_names(row), row.scope] if wide else []
        cells = [
            _cell_text(row, column, cell, now)
            for column, cell in zip(matrix.columns, row.cells, strict=True)
        ]
        yield [row.kind or row.resource, *more, row.group, *cells]


def _short_names(row: Row) -> str:
    names = (name for cell in row.cells if cell for name in cell.short_names)
    return ",".join(dict.fromkeys(names))


def _cell_text(row: Row, column: Column, cell: Cell | None, now: datetime) -> str:
    """Return versions, the preferred one marked where there are several, and what is unlike."""
    versions = versions_text(column, cell)
    if cell is None or not cell.versions:
        return versions
    notes = list(unlike(cell, row))
    told = uncertain(cell)
    if column.freshness is Freshness.STALE:
        notes.append(f"stale {_age(column.since, now)}".rstrip())
        told = uncertain(replace(cell, stale=()))
    notes += told
    return f"{versions} ({'; '.join(notes)})" if notes else versions


def _is_silent(column: Column) -> bool:
    return column.freshness is not Freshness.CURRENT


def silence(column: Column, now: datetime) -> str:
    """Return which cluster does not answer, for how long and why; one line."""
    age = _age(column.since, now) if column.freshness is Freshness.STALE else ""
    told = f"has not answered for {age}" if age else "does not answer"
    return f"{column.name} {told} ({column.reason})"


def _age(since: str, now: datetime) -> str:
    """Return how long ago that was, in its largest unit; empty for less than a second."""
    if not since:
        return ""
    seconds = max(int((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds()), 0)
    for unit, length in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s" if seconds else ""
