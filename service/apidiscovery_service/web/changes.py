"""Changes of the history as lines of a list, in the words of `apidiscovery diff`."""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlencode

from apidiscovery_client.diffing import Finding
from apidiscovery_client.model import CORE_PATH, GROUPS_PATH, DiscoveryPath
from apidiscovery_formats.times import time_text

from apidiscovery_service.core.model import Group, Resource
from apidiscovery_service.core.source import UPSTREAM, SourceState
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.history.contents import STATES
from apidiscovery_service.history.history import History, ReadContent
from apidiscovery_service.history.model import MERGED, Change, ChangeKind, ContentDamaged
from apidiscovery_service.recent import Recent
from apidiscovery_service.web.comparing import Discovery, compare_discovery

_MAX_KEPT = 500  # changes; a page shows 20
_STEP = timedelta(milliseconds=1)  # the precision of the history
_HEAD = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},'


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A change as a page shows it.

    Attributes:
        change: The change.
        findings: What it did to a group; empty for changes of other things.
        note: Other effects, in one line; empty where the findings say all.
        is_unseen: Whether no client sees what it did.
    """

    change: Change
    findings: tuple[Finding, ...] = ()
    note: str = ""
    is_unseen: bool = False

    @property
    def name(self) -> str:
        """The group, or the group-version of a document; empty for other changes."""
        name = self.change.name
        if self.change.kind is ChangeKind.OPENAPI:
            return name.removeprefix("apis/").removeprefix("api/")
        return name

    @property
    def what(self) -> str:
        """What has happened, such as `added`."""
        before, after = self.change.before, self.change.after
        if self.change.kind is ChangeKind.STATE:
            return _state_words(STATES.get(before), STATES.get(after))
        if not before:
            return "added"
        return "changed" if after else "removed"

    @property
    def diff(self) -> str:
        """The query of the comparison of before and after; empty where there is none."""
        change = self.change
        is_first = not change.etag_before and not change.before
        is_new_document = change.kind is ChangeKind.OPENAPI and not change.before
        if change.kind is ChangeKind.STATE or is_first or is_new_document:
            return ""
        side = "served" if change.cluster == MERGED else f"cluster:{change.cluster}"
        before, after = (
            f"{side}@{time_text(when, 'milliseconds')}"
            for when in (change.time - _STEP, change.time)
        )
        fields = {"fields": "1"} if change.kind is ChangeKind.OPENAPI else {}
        return urlencode({"from": before, "to": after, **fields})

    @property
    def is_first(self) -> bool:
        """Whether it was added, and nothing can be compared with it: most are seen at once."""
        return not self.diff and self.what == "added"

    @property
    def is_echo(self) -> bool:
        """Whether it is the effect of changes of clusters on the merged APIs."""
        causes = self.change.cause.split(", ")
        return self.change.cluster == MERGED and all(each.startswith(UPSTREAM) for each in causes)

    @property
    def is_implied(self) -> bool:
        """Whether another change says the same, or it says nothing about a cluster.

        A document comes and goes with its group-version, or is read for the first time; a server
        that starts has not asked its clusters yet.
        """
        change = self.change
        if change.kind is ChangeKind.OPENAPI:
            return not (change.before and change.after)
        return change.kind is ChangeKind.STATE and STATES.get(change.after) is SourceState.PENDING


def _state_words(before: SourceState | None, after: SourceState | None) -> str:
    match after:
        case SourceState.CURRENT:
            return "answers again" if before is SourceState.STALE else "answers"
        case SourceState.STALE:
            return "does not answer"
        case SourceState.PENDING:
            return "has not answered yet"
        case None:
            return "is not configured any more"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A line of the timeline: a change, or several of the same sort that came together."""

    changes: tuple[ShownChange, ...]

    @property
    def first(self) -> ShownChange:
        """The newest of its changes."""
        return self.changes[0]


def entries(changes: Iterable[ShownChange]) -> list[TimelineEntry]:
    """Return changes as lines: the groups that were first seen of a cluster are one line."""
    runs = itertools.groupby(enumerate(changes), key=lambda pair: _run(*pair))
    return [TimelineEntry(tuple(change for _, change in run)) for _, run in runs]


def _run(place: int, line: ShownChange) -> object:
    """Return a key that is equal for neighbours of one line."""
    return (line.change.cluster, line.change.kind) if line.is_first else place


class ExplainedChanges:
    """Explains changes and caches recent ones, since changes are immutable. For the event loop."""

    def __init__(self) -> None:
        self._kept: Recent[int, ShownChange] = Recent(_MAX_KEPT)

    async def of(self, history: History, changes: Sequence[Change]) -> list[ShownChange]:
        """Return changes with what they did, in their order.

        Raises:
            HistoryError: The history cannot be read.
        """
        kept = {change.id: self._kept.get(change.id) for change in changes}
        found = {id_: line for id_, line in kept.items() if line is not None}
        new = [change for change in changes if change.id not in found]
        if new:
            sides = await history.read_all_sides(new)
            lines = await asyncio.to_thread(lambda: list(map(_explained, new, sides)))
            for change, line, each in zip(new, lines, sides, strict=True):
                found[change.id] = line
                if not any(isinstance(side, ContentDamaged) for side in each):
                    self._kept.put(change.id, line)
        return [found[change.id] for change in changes]


def _explained(change: Change, sides: tuple[ReadContent, ReadContent]) -> ShownChange:
    return explained(change, *sides) or ShownChange(change)


def explained(
    change: Change, before: ReadContent, after: ReadContent, kind: str = ""
) -> ShownChange | None:
    """Return a change with what it did; large groups take some milliseconds.

    Args:
        change: The change.
        before: The content before, as `History.read_sides` returns it.
        after: The content since.
        kind: A kind or resource in lower case; only what changed in this one. Empty for all.

    Returns:
        None for a change that did nothing to that kind.
    """
    for side in (before, after):
        if isinstance(side, ContentDamaged):
            return ShownChange(change, note=f"details are damaged: {side}")
    if change.kind is ChangeKind.GROUP:
        findings = _findings(_only(before, kind), _only(after, kind))
        if kind and not findings:
            return None
        if findings:
            return ShownChange(change, findings)
        note = "only what clients do not see: order, or categories of lists"
        return ShownChange(change, note=note, is_unseen=True)
    return _with_release(change, before, after)


def _with_release(change: Change, before: ReadContent, after: ReadContent) -> ShownChange:
    if change.kind is not ChangeKind.DOCUMENT:
        return ShownChange(change)
    # An unknown release on either side is not a release change.
    if before and after and before != after:
        return ShownChange(change, note=f"release {before} → {after}")
    return ShownChange(change, note="only the order of groups", is_unseen=True)


def _findings(before: Group | None, after: Group | None) -> tuple[Finding, ...]:
    if before == after:
        return ()
    # Here is one group alone, and names lead from one group to another.
    sides = _side("before", before), _side("after", after)
    return compare_discovery(*sides, resolves=False).findings


def _only(side: ReadContent, kind: str) -> Group | None:
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
    response = resource.response_kind
    return kind == resource.resource or (response is not None and kind == response.kind.lower())


def _side(name: str, group: Group | None) -> Discovery:
    empty = _HEAD + b'"items":[]}'
    documents: dict[DiscoveryPath, bytes] = {CORE_PATH: empty, GROUPS_PATH: empty}
    if group is not None:
        chunks = Publisher().document([group]).chunks
        items = b",".join(chunk.json for chunk in chunks)
        path = GROUPS_PATH if group.name else CORE_PATH
        documents[path] = _HEAD + b'"items":[' + items + b"]}"
    return Discovery(name, documents=documents)
