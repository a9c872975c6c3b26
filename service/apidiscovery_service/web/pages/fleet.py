"""The matrix of the fleet: which cluster serves which kind, in which versions."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from http import HTTPStatus
from urllib.parse import urlencode

from apidiscovery_formats.matrix import Agreement, Cell, Column, Freshness, Matrix, Row, of_clusters
from apidiscovery_formats.matrix_words import counts_text, uncertain, unlike, versions_text

from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.selectors import parse_labels
from apidiscovery_service.web.paging import Pages, paged
from apidiscovery_service.web.view import Page, PageError, View, group_named, kind_path

_ORDER = (Agreement.DIFFERENT, Agreement.UNSURE, Agreement.SAME)
_MAX_ROWS = 500
_COLUMNS = 25  # unless all are asked for
_MAX_CELLS = 600  # of one page, which a browser lays out
_MIN_ROWS = 10


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters in the URL.

    Attributes:
        group: A group, `core` for the core group; empty for all.
        kind: A kind or resource, in any case; empty for all.
        cluster: Names of clusters with commas between, in which `*` is any text; empty for all.
        labels: A label selector.
        all_rows: Whether rows are shown that are the same everywhere.
        all_columns: Whether all clusters are shown, however many.
    """

    group: str = ""
    kind: str = ""
    cluster: str = ""
    labels: str = ""
    all_rows: bool = False
    all_columns: bool = False

    @property
    def query(self) -> str:
        """The query that names them, without the page."""
        named = {
            "group": self.group,
            "kind": self.kind,
            "cluster": self.cluster,
            "l": self.labels,
            "all": "1" if self.all_rows else "",
            "columns": "all" if self.all_columns else "",
        }
        return urlencode({name: value for name, value in named.items() if value})

    @property
    def selects_rows(self) -> bool:
        """Whether rows are selected by group or kind."""
        return bool(self.group or self.kind)


@dataclass(frozen=True, slots=True)
class CellLine:
    """A cell of the matrix; clusters that serve a kind in the same way share it.

    Attributes:
        text: The versions, `-` or `?`.
        path: Of the kind, without the cluster; empty where it is not served.
        notes: What other clusters have and this one has not, and what is stale.
        is_odd: Whether most clusters serve the kind in another way.
    """

    text: str
    path: str
    notes: str
    is_odd: bool


@dataclass(frozen=True, slots=True)
class RowLine:
    """A row of the matrix; `path` leads to the kind where some cluster serves it.

    Each cell is beside the query that names its cluster.
    """

    row: Row
    path: str
    cells: tuple[tuple[CellLine, str], ...]


async def page(view: View) -> Page:
    """Make the page."""
    filters = Filters(
        view.parameter("group"),
        view.parameter("kind"),
        view.parameter("cluster"),
        view.parameter("l"),
        view.flag("all"),
        view.parameter("columns") == "all",
    )
    try:
        scope = view.scope.selected(parse_labels(filters.labels))
    except ObjectError as error:
        raise PageError(HTTPStatus.BAD_REQUEST, f"Labels: {error.message}.") from None
    matrix = scope.matrix()
    names = [column.name for column in matrix.columns]
    chosen = _matching(names, filters.cluster)
    if len(chosen) < len(names):
        matrix = await asyncio.to_thread(of_clusters, matrix, chosen)
    whole = matrix
    if filters.selects_rows:
        groups = [group_named(filters.group)] if filters.group else []
        matrix = matrix.selected(groups=groups, kinds=[filters.kind] if filters.kind else [])
    # Of one cluster nothing differs, so all is shown.
    is_whole = filters.all_rows or len(matrix.columns) < 2  # noqa: PLR2004 - a pair
    shown = matrix if is_whole else matrix.selected(different=True)
    rows = sorted(shown.rows, key=lambda row: _ORDER.index(row.agreement))
    columns = matrix.columns if filters.all_columns else matrix.columns[:_COLUMNS]
    pages = paged(rows, _rows_of(columns), view.parameter("page"))
    return Page(
        "fleet.html",
        {
            "filters": filters,
            "columns": columns,
            "column_count": len(matrix.columns),
            "wide": replace(filters, all_columns=True).query,
            "silent": [c for c in whole.columns if c.freshness is not Freshness.CURRENT],
            "summary": counts_text(matrix),
            "same": matrix.count(Agreement.SAME),
            "is_whole": is_whole,
            "rows": await asyncio.to_thread(_lines, pages, matrix, len(columns)),
            "pages": pages,
            "is_served": bool(view.scope.clusters),
            "groups": sorted({row.group or "core" for row in whole.rows}),
            "names": names,
        },
    )


def _rows_of(columns: Sequence[Column]) -> int:
    """Return how many rows a page has."""
    return max(_MIN_ROWS, min(_MAX_ROWS, _MAX_CELLS // max(1, len(columns))))


def _matching(names: Sequence[str], wanted: str) -> frozenset[str]:
    patterns = [each.strip() for each in wanted.split(",") if each.strip()]
    if not patterns:
        return frozenset(names)
    return frozenset(name for name in names if any(fnmatchcase(name, each) for each in patterns))


def _lines(pages: Pages[Row], matrix: Matrix, count: int) -> list[RowLine]:
    """Return the rows of a page, with cells of the first clusters."""
    shown = matrix.columns[:count]
    queries = [f"?{urlencode({'cluster': column.name})}" for column in shown]
    return [_line(row, matrix.columns, queries) for row in pages.items]


def _line(row: Row, columns: Sequence[Column], queries: Sequence[str]) -> RowLine:
    usual = _most_usual(row, columns)
    # Clusters share their cells, so the words of each are made once.
    made: dict[tuple[int, str], CellLine] = {}
    cells: list[tuple[CellLine, str]] = []
    for column, cell, query in zip(columns, row.cells, queries, strict=False):
        key = id(cell), column.freshness
        line = made.get(key)
        if line is None:
            line = made[key] = _words(row, column, cell, usual)
        cells.append((line, query))
    served = next((cell for cell in row.cells if cell and cell.versions), None)
    return RowLine(row, _path(row, served), tuple(cells))


def _words(row: Row, column: Column, cell: Cell | None, usual: object) -> CellLine:
    notes = [] if cell is None or not cell.versions else [*unlike(cell, row), *uncertain(cell)]
    is_known = cell is not None or column.freshness is not Freshness.UNKNOWN
    is_odd = is_known and (cell.served if cell else None) != usual
    shows_odd = is_odd and row.agreement is Agreement.DIFFERENT
    return CellLine(versions_text(column, cell), _path(row, cell), "; ".join(notes), shows_odd)


def _most_usual(row: Row, columns: Sequence[Column]) -> object:
    """Return how most clusters serve a row; of several ways that of the first cluster."""
    known = [
        cell
        for column, cell in zip(columns, row.cells, strict=True)
        if cell is not None or column.freshness is not Freshness.UNKNOWN
    ]
    cells = dict(zip(map(id, known), known, strict=True))
    count: Counter[object] = Counter()
    for key, number in Counter(map(id, known)).items():  # in the order of clusters
        cell = cells[key]
        count[cell.served if cell else None] += number
    return max(count, key=count.__getitem__, default=None)


def _path(row: Row, cell: Cell | None) -> str:
    """Return the path of a kind in the preferred version of a cell; empty where it has none."""
    if cell is None or not cell.versions or not cell.kind:
        return ""
    return kind_path(row.group, cell.preferred or cell.versions[0], cell.kind)
