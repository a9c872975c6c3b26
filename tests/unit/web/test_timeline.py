"""The timeline: lines that matter to clients, and pages of them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast
from urllib.parse import parse_qs

from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.history.history import History, ReadContent
from apidiscovery_service.history.model import Change, ChangeFilter, ChangeKind, ContentDamaged
from apidiscovery_service.web.changes import ExplainedChanges, ShownChange, TimelineEntry, entries
from apidiscovery_service.web.pages import history
from apidiscovery_service.web.view import Page, Served, View, Viewer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def change(
    number: int, before: str = "", cluster: str = "east", kind: ChangeKind = ChangeKind.GROUP
) -> Change:
    etag = "E" if before else ""
    return Change(number, NOON, cluster, kind, f"g{number}", "", before, "after", etag, "F")


def test_what_is_first_seen_of_a_cluster_is_one_line() -> None:
    changes = [change(9, "before"), change(8), change(7), change(6, cluster="west")]
    found = [
        [one.change.id for one in entry.changes] for entry in entries(map(ShownChange, changes))
    ]
    assert found == [[9], [8, 7], [6]]


class _History:
    """99 changes: every third one is of a release, the others do not matter to clients."""

    async def changes(self, _only: ChangeFilter, *, before: int | None, limit: int) -> list[Change]:
        newest = 99 if before is None else before - 1
        return [
            change(number, kind=ChangeKind.OPENAPI)
            if number % 3 == 2
            else change(number, "before", kind=ChangeKind.DOCUMENT)
            for number in range(newest, max(0, newest - limit), -1)
        ]

    async def read_all_sides(
        self, changes: Iterable[Change]
    ) -> list[tuple[ReadContent, ReadContent]]:
        return [("v1.35", "v1.35" if each.id % 3 else "v1.36") for each in changes]


class _Server:
    history = _History()
    explained = ExplainedChanges()


async def _page(**parameters: str) -> Page:
    served, snapshot = cast("Served", _Server()), cast("EncodedSnapshot", None)
    scope = Fleet().scope()
    return await history.page(
        View(served, Viewer(), scope, snapshot, "/ui/history", parameters=parameters)
    )


def _numbers(page: Page) -> list[int]:
    return [entry.first.change.id for entry in cast("list[TimelineEntry]", page.values["entries"])]


async def test_a_page_is_filled_with_changes_that_matter_to_clients() -> None:
    page = await _page()
    assert _numbers(page) == list(range(99, 41, -3))
    assert page.values["left_out"] == 99 - 42 + 1 - 20
    older = parse_qs(cast("str", page.values["older"]))
    page = await _page(before=older["before"][0])
    assert _numbers(page) == list(range(39, 0, -3))
    assert page.values["older"] == ""


async def test_all_changes_are_shown_when_they_are_asked_for() -> None:
    page = await _page(all="1")
    assert _numbers(page) == list(range(99, 79, -1))
    assert page.values["left_out"] == 0


class _Contents:
    """Contents of which that of change 2 is damaged at first; notes what is read."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.damaged = {2}

    async def read_all_sides(
        self, changes: Iterable[Change]
    ) -> list[tuple[ReadContent, ReadContent]]:
        numbers = [each.id for each in changes]
        self.read += numbers
        lost = ContentDamaged("gone")
        return [("v1.35", lost if number in self.damaged else "v1.36") for number in numbers]


async def test_a_change_is_read_once_unless_its_content_is_damaged() -> None:
    contents, explained = _Contents(), ExplainedChanges()
    history = cast("History", contents)
    changes = [change(number, "before", kind=ChangeKind.DOCUMENT) for number in (3, 2, 1)]
    first = await explained.of(history, changes)
    assert [line.change.id for line in first] == [3, 2, 1]
    assert [line.note[:11] for line in first] == ["release v1.", "details are", "release v1."]
    contents.damaged.clear()
    again = await explained.of(history, changes)
    assert again[1].note == "release v1.35 → v1.36"
    assert contents.read == [3, 2, 1, 2]
    assert [again[0], again[2]] == [first[0], first[2]]


async def test_of_many_changes_the_last_ones_are_kept() -> None:
    contents, explained = _Contents(), ExplainedChanges()
    history = cast("History", contents)
    changes = [change(number, "before", kind=ChangeKind.DOCUMENT) for number in range(10, 610)]
    assert [line.change for line in await explained.of(history, changes)] == changes
    contents.read.clear()
    await explained.of(history, changes[-500:])
    assert contents.read == []
    await explained.of(history, changes[:1])
    assert contents.read == [10]
