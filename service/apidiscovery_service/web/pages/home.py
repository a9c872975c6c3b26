"""The first page: what this server serves, which clusters answer, and what changed last."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from apidiscovery_formats.matrix import Agreement, Freshness, Matrix

from apidiscovery_service.core.source import UPSTREAM, SourceState, SourceStatus
from apidiscovery_service.history.model import Filter, HistoryError, Kind
from apidiscovery_service.web.changes import ShownChange, shown, visible
from apidiscovery_service.web.pages.search import refresh_fields
from apidiscovery_service.web.sources import visible_statuses
from apidiscovery_service.web.view import Page, View

_LAST_CHANGES = 8
_READ_CHANGES = 400
# Changes of one cluster within this time are of one event, such as an upgrade.
_TOGETHER = timedelta(seconds=5)
_MAX_CLUSTERS = 24
# The order of groups changes with each group that comes or goes, which tells more.
_TOLD = (Kind.GROUP, Kind.OPENAPI, Kind.STATE)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is served."""

    groups: int
    group_versions: int
    kinds: int


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
    statuses = [each for each in visible_statuses(view) if not _is_cluster(each, view)]
    changes, problem = await _last_changes(view)
    return Page(
        "home.html",
        {
            "counts": counts(view),
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


def counts(view: View) -> Counts:
    """Return how much is merged."""
    snapshot = view.snapshot.snapshot
    groups = (*snapshot.core.groups, *snapshot.named.groups)
    versions = sum(len(published.group.versions) for published in groups)
    return Counts(len(groups), versions, sum(published.kinds for published in groups))


def _differing(matrix: Matrix) -> int:
    return len(matrix.rows) - matrix.count(Agreement.SAME) if len(matrix.columns) > 1 else 0


def _is_cluster(status: SourceStatus, view: View) -> bool:
    return status.name.removeprefix(UPSTREAM) in view.scope.clusters


async def _last_changes(view: View) -> tuple[list[Changes], str]:
    """Return the last changes, and why they cannot be read; empty if they can."""
    history = view.served.history
    if history is None:
        return [], ""
    may_read = visible(view)
    try:
        only = Filter(may_read=may_read, kinds=_TOLD)
        found = await history.changes(only, limit=_READ_CHANGES)
    except HistoryError as error:
        return [], str(error)
    # Documents that are read for the first time are no change, and groups that come are told.
    changed = (one for one in found if one.before or one.kind is not Kind.OPENAPI)
    lines = (line for line in map(shown, changed) if not (line.is_echo or line.is_beginning))
    return together(lines, _LAST_CHANGES), ""


def together(changes: Iterable[ShownChange], limit: int) -> list[Changes]:
    """Return changes, the last first, those of one sort that came together as one.

    Args:
        changes: The last first; as many are read as are needed.
        limit: How many are returned.
    """
    found: list[tuple[ShownChange, list[ShownChange]]] = []
    # The place of the last one of each sort: an earlier one is too far away in time, too.
    places: dict[tuple[str, str, str, str], int] = {}
    for change in changes:
        sort = change.cluster, change.kind, change.what, change.cause
        place = places.get(sort)
        if place is not None and found[place][0].time - change.time <= _TOGETHER:
            found[place][1].append(change)
        elif len(found) < limit:
            places[sort] = len(found)
            found.append((change, []))
        elif found[-1][0].time - change.time > _TOGETHER:
            break
    return [Changes(last, len(others)) for last, others in found]
