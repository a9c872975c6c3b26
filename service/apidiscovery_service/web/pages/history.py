"""The timeline: what changed when and why; and one change with its content before and after."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import urlencode

from apidiscovery_formats.times import time_text

from apidiscovery_service.core.model import Group
from apidiscovery_service.history.history import History, ReadContent
from apidiscovery_service.history.model import (
    AGE_UNITS,
    MERGED,
    Change,
    ChangeFilter,
    ChangeKind,
)
from apidiscovery_service.web.changes import ShownChange, TimelineEntry, entries, explained
from apidiscovery_service.web.name_search import NamedKind, kinds_of
from apidiscovery_service.web.view import Page, PageError, View, group_named, not_found

_LINES = 20  # of a page
_PAGE = 200  # changes that are read for a page: many may share a line
_SCANNED = 600  # changes of groups that are read for one page where a kind is wanted
_AGO = re.compile(r"(\d{1,5})([mhd])")
_MERGED_NAME = "served"


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters in the URL.

    Attributes:
        cluster: A name; `served` for what the server itself serves; empty for all.
        group: A group, `core` for the core group; empty for all.
        kind: A kind or resource; empty for all.
        since: A time, or how long ago, such as `7d`.
        all_changes: Whether changes are shown that no client sees, or that another one implies.
    """

    cluster: str = ""
    group: str = ""
    kind: str = ""
    since: str = ""
    all_changes: bool = False

    @property
    def query(self) -> str:
        """The query that names them, without the place in the list."""
        named = {
            "cluster": self.cluster,
            "group": self.group,
            "kind": self.kind,
            "since": self.since,
            "all": "1" if self.all_changes else "",
        }
        return urlencode({name: value for name, value in named.items() if value})

    def shows(self, line: ShownChange) -> bool:
        """Return whether a line is shown: clients see the change, and no other line implies it."""
        if self.all_changes:
            return True
        is_echo = line.is_echo and self.cluster != _MERGED_NAME
        return not (line.is_unseen or line.is_implied or is_echo)


@dataclass(frozen=True, slots=True)
class GroupSide:
    """A group before or after a change, with its kinds by name."""

    group: Group
    kinds: tuple[NamedKind, ...]


async def page(view: View) -> Page:
    """Make the page: one change where `id` names it, else the timeline."""
    history = view.served.history
    if history is None:
        return Page("history.html", {"remembers": False})
    return await (_one if view.parameter("id") else _timeline)(view, history)


async def _timeline(view: View, history: History) -> Page:
    filters = Filters(
        view.parameter("cluster"),
        view.parameter("group"),
        view.parameter("kind"),
        view.parameter("since"),
        view.flag("all"),
    )
    before = view.parameter("before")
    cursor = int(before) if before.isdecimal() and len(before) < 19 else None  # noqa: PLR2004
    only = ChangeFilter(
        clusters=_clusters(filters.cluster),
        may_read=view.changes_filter(),
        kinds=(ChangeKind.GROUP,) if filters.kind else (),
        groups=(group_named(filters.group),) if filters.group else None,
        since=_since(filters.since),
    )
    limit = _SCANNED if filters.kind else _PAGE
    found = await history.changes(only, before=cursor, limit=limit + 1)
    read = found[:limit]
    oldest = read[-1].id if read else 0
    candidates = [change for change in read if filters.shows(ShownChange(change))]
    if filters.kind:
        shown, last = await _of_kind(history, candidates, filters.kind.lower())
    else:
        shown, last = await _of_all(view, history, candidates, filters)
    # The page ends with the last change that it has looked at.
    end = candidates[last].id if last < len(candidates) - 1 else oldest
    is_last = len(found) <= limit and end == oldest
    count = sum(change.id >= end for change in read)
    return Page(
        "history.html",
        {
            "remembers": True,
            "one": None,
            "filters": filters,
            "entries": shown,
            "before": urlencode({"before": cursor}) if cursor is not None else "",
            "left_out": 0 if filters.kind else count - sum(len(one.changes) for one in shown),
            "everything": replace(filters, all_changes=True).query,
            "older": "" if is_last else urlencode({"before": end}),
            "is_first": cursor is None,
            "searched": count if filters.kind else 0,
            "clusters": [_MERGED_NAME, *view.scope.clusters],
        },
    )


async def _one(view: View, history: History) -> Page:
    text = view.parameter("id")
    number = int(text) if text.isdecimal() and len(text) < 19 else 0  # noqa: PLR2004 - an int64
    change = await history.change(number)
    may_read = view.changes_filter()
    if change is None or (may_read is not None and not may_read(change.cluster)):
        raise not_found(f"There is no change {text[:20]}: it does not exist, or has been deleted.")
    sides = await history.read_sides(change)
    line = await asyncio.to_thread(explained, change, *sides)
    return Page(
        "history.html",
        {
            "remembers": True,
            "one": line,
            "raw": change,
            "before": _side(sides[0]),
            "after": _side(sides[1]),
            "documents": _documents(change),
        },
    )


async def _of_all(
    view: View, history: History, changes: Sequence[Change], filters: Filters
) -> tuple[list[TimelineEntry], int]:
    """Return the first lines, and the place of the last change that was looked at."""
    pending = entries(map(ShownChange, changes))
    shown: list[TimelineEntry] = []
    place = -1
    for start in range(0, len(pending), _LINES):
        some = pending[start : start + _LINES]
        # Changes that share a line are shown without their effects.
        alone = [entry.first.change for entry in some if len(entry.changes) == 1]
        lines = iter(await view.served.explained.of(history, alone))
        for entry in some:
            place += len(entry.changes)
            found = TimelineEntry((next(lines),)) if len(entry.changes) == 1 else entry
            if filters.shows(found.first):
                shown.append(found)
            if len(shown) == _LINES:
                return shown, place
    return shown, place


async def _of_kind(
    history: History, changes: Sequence[Change], kind: str
) -> tuple[list[TimelineEntry], int]:
    """Return the first lines that are of a kind, and the place of the last change looked at."""
    lines: list[ShownChange] = []
    count = 0
    while count < len(changes) and len(lines) < _LINES:
        some = changes[count : count + _LINES]
        lines += await _of_one_kind(history, some, kind)
        count += len(some)
    return entries(lines), count - 1


async def _of_one_kind(history: History, changes: Sequence[Change], kind: str) -> list[ShownChange]:
    sides = await history.read_all_sides(changes)
    pairs = zip(changes, sides, strict=True)
    lines = await asyncio.to_thread(lambda: [explained(one, *each, kind) for one, each in pairs])
    return [line for line in lines if line is not None]


def _side(side: ReadContent) -> GroupSide | None:
    return GroupSide(side, tuple(kinds_of(side))) if isinstance(side, Group) else None


def _documents(change: Change) -> str:
    """Return the path of the document after a change; empty where it is none of discovery."""
    if change.kind is not ChangeKind.GROUP or not change.after:
        return ""
    prefix = "" if change.cluster == MERGED else f"/clusters/{change.cluster}"
    path = "/apis" if change.name else "/api"
    when = time_text(change.time, "milliseconds")
    return f"{prefix}{path}?{urlencode({'at': when})}"


def _clusters(text: str) -> tuple[str, ...] | None:
    if not text:
        return None
    return (MERGED if text == _MERGED_NAME else text,)


def _since(text: str) -> datetime | None:
    """Return a time of the URL: of RFC 3339, a date, or how long ago; times without zone are UTC.

    Raises:
        PageError: It is none of these.
    """
    if not text:
        return None
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return datetime.now(UTC) - int(ago[1]) * AGE_UNITS[ago[2]]
        when = datetime.fromisoformat(text.replace(" ", "+"))
    except (ValueError, OverflowError):
        message = "Since: want a time such as 2026-11-20T10:00:00Z, or how long ago, such as 7d."
        raise PageError(HTTPStatus.BAD_REQUEST, message) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
