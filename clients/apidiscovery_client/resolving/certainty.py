"""What is not known of a server, and whether it could change the answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apidiscovery_client.model import Current, Resource, Snapshot
from apidiscovery_client.resolving.index import ALWAYS_FIRST, Index, Table
from apidiscovery_client.resolving.reading import Exact, Reading

CORE_PATH, GROUPS_PATH = "/api", "/apis"  # the keys of `Snapshot.failures`


@dataclass(frozen=True, slots=True)
class Rivals:
    """By what a better match than the one found would be found.

    Attributes:
        anywhere: In whatever group-version.
        before: Only in a group-version that is preferred to that of the one found.
    """

    anywhere: Sequence[Reading] = ()
    before: Sequence[Reading] = ()


NO_RIVALS = Rivals()


def unsure_of_miss(
    snapshot: Snapshot, index: Index, looked_for: Iterable[Reading | Exact]
) -> dict[str, str]:
    """Return why what was not found may be there nevertheless; empty when it is certainly not.

    Keys are group-versions, the path of a part that is missing, and the server where it did not
    answer the last time.
    """
    sought = list(looked_for)
    unsure = {
        str(table.version.gv): _reason(table)
        for table in index.unknown()
        if any(_may_hold(one, table) for one in sought)
    }
    unsure |= {path: why for path, why in snapshot.failures.items() if _may_be_at(path, sought)}
    if not isinstance(snapshot.freshness, Current):
        unsure[snapshot.server] = snapshot.freshness.reason
    return unsure


def unsure_of_match(
    snapshot: Snapshot, index: Index, found: Resource, rivals: Rivals
) -> dict[str, str]:
    """Return why there may be a better match than the one found; empty when there is none."""
    rank = index.rank(found)
    unsure = {
        str(table.version.gv): _reason(table)
        for table in index.unknown()
        if any(one.admits(table.version.gv) for one in rivals.anywhere)
        or (table.rank < rank and any(one.admits(table.version.gv) for one in rivals.before))
    }
    is_first = found.gv == ALWAYS_FIRST
    sought = [*rivals.anywhere, *(() if is_first else rivals.before)]
    failures = snapshot.failures.items()
    return unsure | {path: why for path, why in failures if _may_be_at(path, sought)}


def _may_hold(sought: Reading | Exact, table: Table) -> bool:
    if isinstance(sought, Exact):
        return sought.gv == table.version.gv
    return sought.admits(table.version.gv)


def _may_be_at(path: str, sought: Iterable[Reading | Exact]) -> bool:
    """Return whether what is sought may be in a part: a named group is not the core group."""
    for one in sought:
        group, is_whole = (
            (one.gv.group, True) if isinstance(one, Exact) else (one.group, one.is_whole)
        )
        if (path == GROUPS_PATH and (group or not is_whole)) or (path == CORE_PATH and not group):
            return True
    return False


def _reason(table: Table) -> str:
    freshness = table.version.freshness
    return "" if isinstance(freshness, Current) else freshness.reason
