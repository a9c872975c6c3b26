"""All kinds: those that are merged, and those that only clusters serve."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from apidiscovery_formats.matrix import Matrix

from apidiscovery_service.web.name_search import NamedKind
from apidiscovery_service.web.paging import paged
from apidiscovery_service.web.view import Page, View

_KINDS = 200  # of a page


@dataclass(frozen=True, slots=True)
class Line:
    """A kind.

    Attributes:
        named: The kind with its names.
        versions: All that serve it, the preferred one first.
        clusters: How many clusters serve it.
    """

    named: NamedKind
    versions: tuple[str, ...]
    clusters: int


async def page(view: View) -> Page:
    """Make the page."""
    wanted = view.parameter("q")
    names = await view.served.names.of(view.scope, view.snapshot)
    matrix = view.scope.matrix()
    chosen = [kind for kind in names.kinds if _has(kind, wanted.lower())]
    chosen.sort(key=lambda kind: (kind.kind, kind.group, kind.resource.resource))
    pages = paged(chosen, _KINDS, view.parameter("page"))
    # Of 1,000 clusters the matrix has a million cells.
    lines = await asyncio.to_thread(_lines, pages.items, matrix)
    values = {
        "lines": lines,
        "pages": pages,
        "wanted": wanted,
        "total": len(names.kinds),
        "cluster_count": len(matrix.columns),
    }
    return Page("kinds.html", values)


def _lines(kinds: Sequence[NamedKind], matrix: Matrix) -> list[Line]:
    shown = {(kind.group, kind.resource.resource) for kind in kinds}
    cells = {
        key: [cell for cell in row.cells if cell and cell.versions]
        for row in matrix.rows
        if (key := (row.group, row.resource)) in shown
    }
    lines: list[Line] = []
    for kind in kinds:
        found = cells.get((kind.group, kind.resource.resource), [])
        # A kind that is not merged may have other versions in other clusters.
        others = found if kind.cluster else ()
        versions = dict.fromkeys((*kind.versions, *(v for cell in others for v in cell.versions)))
        lines.append(Line(kind, tuple(versions), len(found)))
    return lines


def _has(kind: NamedKind, text: str) -> bool:
    """Return whether one of its names, or its group, has a text, which is in lower case."""
    return any(text in name for name in (*kind.names, kind.group or "core"))
