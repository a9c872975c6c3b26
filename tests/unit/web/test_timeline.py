"""The timeline: changes that were first seen together share a line, and few lines are made."""

from collections.abc import Iterator
from datetime import UTC, datetime

from apidiscovery_service.history.model import Change, Kind
from apidiscovery_service.web.change_words import ToldChange, briefly, entries

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def change(number: int, before: str = "", cluster: str = "east") -> Change:
    etag = "E" if before else ""
    return Change(number, NOON, cluster, Kind.GROUP, f"g{number}", "", before, "after", etag, "F")


def test_what_is_first_seen_of_a_cluster_is_one_line() -> None:
    changes = [change(9, "before"), change(8), change(7), change(6, cluster="west")]
    found = [
        [one.change.number for one in entry.changes] for entry in entries(map(briefly, changes))
    ]
    assert found == [[9], [8, 7], [6]]


def test_no_more_changes_are_worded_than_are_shown() -> None:
    worded: list[int] = []

    def lines() -> Iterator[ToldChange]:
        for number in range(99, 0, -1):
            worded.append(number)
            yield briefly(change(number, "before"))

    assert len(entries(lines(), 3)) == 3
    assert len(worded) <= 4
