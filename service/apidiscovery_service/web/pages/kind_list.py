"""All kinds: those that are merged, and those that only clusters serve."""

import asyncio
from dataclasses import dataclass

from apidiscovery_formats.matrix import Matrix

from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.web.pages.groups import kinds_of
from apidiscovery_service.web.paging import paged
from apidiscovery_service.web.view import Page, View

_KINDS = 200  # of a page


@dataclass(frozen=True, slots=True)
class Line:
    """A kind.

    Attributes:
        group: Its group; empty for the core group.
        kind: Its name.
        resource: The name of its resource.
        versions: That serve it, the preferred one first.
        short_names: Of the resource; empty where only clusters serve it.
        scope: Namespaced or Cluster; empty where only clusters serve it.
        clusters: How many clusters serve it.
    """

    group: str
    kind: str
    resource: str
    versions: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    scope: str = ""
    clusters: int = 0

    def has(self, text: str) -> bool:
        """Return whether one of its names has a text, which is in lower case."""
        names = (self.kind, self.resource, self.group or "core", *self.short_names)
        return any(text in name.lower() for name in names)


async def page(view: View) -> Page:
    """Make the page."""
    wanted = view.parameter("q").strip()
    matrix = view.scope.matrix()
    lines = await asyncio.to_thread(_lines, view.snapshot.snapshot, matrix)
    chosen = [line for line in lines if line.has(wanted.lower())] if wanted else lines
    values = {
        "pages": paged(chosen, _KINDS, view.parameter("page")),
        "wanted": wanted,
        "total": len(lines),
        "cluster_count": len(matrix.columns),
    }
    return Page("kinds.html", values)


def _lines(snapshot: Snapshot, matrix: Matrix) -> list[Line]:
    """Return all kinds by name, then by group."""
    rows = {(row.group, row.resource): row for row in matrix.rows}
    served = {
        key: [cell for cell in row.cells if cell and cell.versions] for key, row in rows.items()
    }
    found: dict[tuple[str, str], Line] = {}
    for published in (*snapshot.core.groups, *snapshot.named.groups):
        for one in kinds_of(published.group):
            key = published.name, one.resource.resource
            names = published.name, one.kind, one.resource.resource
            short, scope = one.resource.short_names, one.resource.scope
            found[key] = Line(*names, one.versions, short, scope, len(served.get(key, ())))
    for key, row in rows.items():
        cells = served[key]
        if key not in found and cells and row.kind:
            versions = tuple(dict.fromkeys(v for cell in cells for v in cell.versions))
            found[key] = Line(row.group, row.kind, row.resource, versions, clusters=len(cells))
    return sorted(found.values(), key=lambda line: (line.kind, line.group, line.resource))
