"""What changes of a history did, in the words of `apidiscovery diff`."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlencode

from apidiscovery_client.diffing import Finding
from apidiscovery_client.model import CORE_PATH, GROUPS_PATH, DiscoveryPath

from apidiscovery_service.core.model import Group, Resource
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.history.history import Told
from apidiscovery_service.history.model import MERGED, Change, ContentDamaged, Kind
from apidiscovery_service.web.changes import ShownChange, shown
from apidiscovery_service.web.comparing import Discovery, compare_discovery

_STEP = timedelta(milliseconds=1)  # the precision of the history
_HEAD = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},'


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change with what it did.

    Attributes:
        change: The change.
        findings: What it did to a group; empty for changes of other things.
        note: What it did besides, in one line; empty where the findings say all.
        diff: The query of the comparison of before and after; empty where there is none.
        is_unseen: Whether no client sees what it did.
    """

    change: ShownChange
    findings: tuple[Finding, ...] = ()
    note: str = ""
    diff: str = ""
    is_unseen: bool = False

    @property
    def is_first(self) -> bool:
        """Whether it was added, and nothing can be compared with it: most are seen at once."""
        return not self.diff and self.change.what == "added"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the timeline: a change, or several of the same sort that came together."""

    changes: tuple[ToldChange, ...]

    @property
    def first(self) -> ToldChange:
        """The newest of its changes."""
        return self.changes[0]


def entries(changes: Iterable[ToldChange], limit: int | None = None) -> list[Entry]:
    """Return the first lines of a timeline: what was first seen of a cluster is one line."""
    runs = itertools.groupby(enumerate(changes), key=lambda pair: _run(*pair))
    return [Entry(tuple(change for _, change in run)) for _, run in itertools.islice(runs, limit)]


def _run(place: int, line: ToldChange) -> object:
    """Return what is equal for neighbours that are one line."""
    return (line.change.cluster, line.change.kind) if line.is_first else place


def briefly(change: Change) -> ToldChange:
    """Return a change in words, without what it did."""
    return ToldChange(shown(change), diff=_diff(change))


def told(change: Change, before: Told, after: Told, kind: str = "") -> ToldChange | None:
    """Return a change in words; large groups take some milliseconds.

    Args:
        change: The change.
        before: What was before, as `History.told_by` returns it.
        after: What has been since.
        kind: A kind or resource in lower case: what it did to this one is told; empty for all.

    Returns:
        None for a change that did nothing to that kind.
    """
    line = briefly(change)
    for side in (before, after):
        if isinstance(side, ContentDamaged):
            return ToldChange(line.change, (), f"how is lost: {side}", line.diff)
    if change.kind is Kind.GROUP:
        findings = _findings(_only(before, kind), _only(after, kind))
        if kind and not findings:
            return None
        if findings:
            return ToldChange(line.change, findings, diff=line.diff)
        note = "only what clients do not see: order, or categories of lists"
        return replace(line, note=note, is_unseen=True)
    return _with_release(line, before, after) if change.kind is Kind.DOCUMENT else line


def _with_release(line: ToldChange, before: Told, after: Told) -> ToldChange:
    # A release that was not known, or is not, is no change of the release.
    if before and after and before != after:
        return replace(line, note=f"release {before} → {after}")
    return replace(line, note="only the order of groups", is_unseen=True)


def _findings(before: Group | None, after: Group | None) -> tuple[Finding, ...]:
    if before == after:
        return ()
    # Here is one group alone, and names lead from one group to another.
    sides = _side("before", before), _side("after", after)
    return compare_discovery(*sides, resolves=False).findings


def _only(side: Told, kind: str) -> Group | None:
    """Return a group with one kind, or with all; None where it has none."""
    if not isinstance(side, Group):
        return None
    if not kind:
        return side
    versions = [
        replace(version, resources=resources)
        for version in side.versions
        if (resources := tuple(each for each in version.resources if _is_of(each, kind)))
    ]
    return replace(side, versions=tuple(versions)) if versions else None


def _is_of(resource: Resource, kind: str) -> bool:
    told = resource.response_kind
    return kind == resource.resource or (told is not None and kind == told.kind.lower())


def _side(name: str, group: Group | None) -> Discovery:
    empty = _HEAD + b'"items":[]}'
    documents: dict[DiscoveryPath, bytes] = {CORE_PATH: empty, GROUPS_PATH: empty}
    if group is not None:
        chunks = Publisher().document([group]).chunks
        items = b",".join(chunk.json for chunk in chunks)
        path = GROUPS_PATH if group.name else CORE_PATH
        documents[path] = _HEAD + b'"items":[' + items + b"]}"
    return Discovery(name, documents=documents)


def _diff(change: Change) -> str:
    """Return the query of the page that compares what was served before and after a change."""
    is_first = not change.etag_before and not change.before
    if change.kind is Kind.STATE or is_first or (change.kind is Kind.OPENAPI and not change.before):
        return ""
    side = "served" if change.cluster == MERGED else f"cluster:{change.cluster}"
    times = (
        when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for when in (change.time - _STEP, change.time)
    )
    before, after = (f"{side}@{time}" for time in times)
    fields = {"fields": "1"} if change.kind is Kind.OPENAPI else {}
    return urlencode({"from": before, "to": after, **fields})
