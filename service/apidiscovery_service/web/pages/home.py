"""The first page: what this server serves, which clusters answer, and what changed last."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from apidiscovery_formats.matrix import Agreement, Freshness, Matrix

from apidiscovery_service.core.source import UPSTREAM, SourceState, SourceStatus
from apidiscovery_service.errors import told_to_callers
from apidiscovery_service.history.history import History
from apidiscovery_service.history.model import ChangeFilter, ChangeKind, HistoryError
from apidiscovery_service.web.changes import ShownChange
from apidiscovery_service.web.pages.search import refresh_fields
from apidiscovery_service.web.view import Page, View

_LINES = 8
_READ_CHANGES = 400
# Changes of one cluster within this time are of one event, such as an upgrade.
_TOGETHER = timedelta(seconds=5)
_MAX_CLUSTERS = 24
# The order of groups changes with each group that comes or goes, which is listed itself.
_KINDS = (ChangeKind.GROUP, ChangeKind.OPENAPI, ChangeKind.STATE)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one sort that came together.

    Attributes:
        last: The last of them.
        more: How many others.
    """

    last: ShownChange
    more: int = 0


async def page(view: View) -> Page:
    """Make the page."""
    refresh_fields(view)  # who opens the overview searches next
    matrix = view.scope.matrix()
    columns = sorted(matrix.columns, key=lambda c: (c.freshness is Freshness.CURRENT, c.name))
    statuses = [each for each in view.statuses() if not _is_cluster(each, view)]
    changes, problem = await _last_changes(view)
    snapshot = view.snapshot.snapshot
    groups = (*snapshot.core.groups, *snapshot.named.groups)
    return Page(
        "home.html",
        {
            "groups": len(groups),
            "versions": sum(len(published.group.versions) for published in groups),
            "kinds": sum(published.kinds for published in groups),
            "clusters": columns[:_MAX_CLUSTERS],
            "cluster_count": len(columns),
            "down": sum(c.freshness is not Freshness.CURRENT for c in columns),
            "differing": _differing(matrix),
            "sources": [each for each in statuses if each.state is not SourceState.CURRENT],
            "source_names": view.served.registry.sources,
            "changes": changes,
            "history_problem": problem,
            "remembers": view.served.history is not None,
        },
    )


def _differing(matrix: Matrix) -> int:
    return len(matrix.rows) - matrix.count(Agreement.SAME) if len(matrix.columns) > 1 else 0


def _is_cluster(status: SourceStatus, view: View) -> bool:
    return status.name.removeprefix(UPSTREAM) in view.scope.clusters


async def _last_changes(view: View) -> tuple[list[Changes], str]:
    """Return the last changes, and why they cannot be read; empty if they can."""
    history = view.served.history
    if history is None:
        return [], ""
    try:
        only = ChangeFilter(may_read=view.changes_filter(), kinds=_KINDS)
        found = map(ShownChange, await history.changes(only, limit=_READ_CHANGES))
        lines = together((one for one in found if not (one.is_echo or one.is_implied)), _LINES)
        return await _with_effects(view, history, lines), ""
    except HistoryError as error:
        return [], told_to_callers(error)


async def _with_effects(view: View, history: History, lines: Sequence[Changes]) -> list[Changes]:
    """Return the lines with the effects of their last changes, without those nobody sees."""
    effects = await view.served.explained.of(history, [line.last.change for line in lines])
    found = [replace(line, last=last) for line, last in zip(lines, effects, strict=True)]
    return [line for line in found if line.more or not line.last.is_unseen]


def together(changes: Iterable[ShownChange], limit: int) -> list[Changes]:
    """Return changes, the newest first, those of one sort that came together as one.

    Args:
        changes: The newest first; as many are read as are needed.
        limit: How many are returned.
    """
    found: list[tuple[ShownChange, list[ShownChange]]] = []
    # The place of the last one of each sort: an earlier one is too far away in time, too.
    places: dict[tuple[str, str, str, str], int] = {}
    for shown in changes:
        change = shown.change
        sort = change.cluster, change.kind, shown.what, change.cause
        place = places.get(sort)
        if place is not None and found[place][0].change.time - change.time <= _TOGETHER:
            found[place][1].append(shown)
        elif len(found) < limit:
            places[sort] = len(found)
            found.append((shown, []))
        elif found[-1][0].change.time - change.time > _TOGETHER:
            break
    return [Changes(last, len(others)) for last, others in found]
