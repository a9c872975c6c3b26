"""The last changes on the overview: simultaneous ones are one line."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

from apidiscovery_service.history.model import Change, ChangeKind
from apidiscovery_service.web.changes import ShownChange
from apidiscovery_service.web.pages.home import Changes, together
from jinja2 import Environment, PackageLoader

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def change(number: int, seconds: float, after: str = "after") -> ShownChange:
    time = NOON - timedelta(seconds=seconds)
    name = "apis/a.example/v1"
    return ShownChange(
        Change(number, time, "east", ChangeKind.OPENAPI, name, "poll", "before", after)
    )


def test_changes_of_one_sort_that_came_together_are_one() -> None:
    last, before, removed = change(9, 0), change(8, 1), change(7, 1, "")
    earlier = change(6, 60)
    assert together([last, before, removed, earlier], 8) == [
        Changes(last, 1),
        Changes(removed),
        Changes(earlier),
    ]


def test_no_more_changes_are_read_than_are_shown() -> None:
    several = [change(9, 0), change(8, 20), change(7, 40), change(6, 60)]
    unread = iter(several)
    assert together(unread, 2) == [Changes(several[0]), Changes(several[1])]
    assert next(unread) is several[3]


def test_the_last_line_has_all_changes_that_came_with_it() -> None:
    first, last, late = change(9, 0), change(8, 20), change(7, 24)
    between = change(7, 21, "")
    assert together([first, last, between, late], 2) == [Changes(first), Changes(last, 1)]


def test_words_of_a_line_are_separated_by_spaces() -> None:
    loader = PackageLoader("apidiscovery_service.web")
    templates = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    macros = templates.get_template("macros.html").make_module({"core": "core"})
    line = cast("Callable[..., str]", vars(macros)["change_line"])(change(9, 0), "", 2)
    assert " ".join(re.sub(r"<[^>]*>", "", line).split()) == (
        "fields of 3 group-versions changed in east"
    )
