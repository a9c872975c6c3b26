"""Paging of lists, and the sides of a comparison."""

from datetime import UTC, datetime

import pytest
from apidiscovery_service.web.comparing import Discovery, compare_discovery
from apidiscovery_service.web.comparing_sides import Side, parse_side
from apidiscovery_service.web.paging import paged
from apidiscovery_service.web.view import PageError


@pytest.mark.parametrize(
    ("wanted", "number", "items"),
    [
        pytest.param("", 1, [0, 1], id="first"),
        pytest.param("3", 3, [4], id="last"),
        pytest.param("99", 3, [4], id="beyond"),
        pytest.param("-1", 1, [0, 1], id="no-number"),
    ],
)
def test_a_list_is_cut_into_pages(wanted: str, number: int, items: list[int]) -> None:
    page = paged(range(5), 2, wanted)
    assert (page.number, page.count, page.total, list(page.items)) == (number, 3, 5, items)


def test_a_side_may_have_a_time_and_a_name_an_at_sign() -> None:
    when = datetime(2026, 11, 20, 10, tzinfo=UTC)
    past = "cluster:east@2026-11-20T10:00:00Z"
    assert parse_side(past, known={"east": None}) == Side(past, "cluster:", "east", when)
    named = "cluster:admin@east"
    assert parse_side(named, known={"admin@east": None}) == Side(named, "cluster:", "admin@east")


@pytest.mark.parametrize("text", ["east", "cluster:", "served@noon", "view:all@2026-11-20T10:00Z"])
def test_a_malformed_side_is_refused(text: str) -> None:
    with pytest.raises(PageError, match=r"want|only clusters"):
        parse_side(text, known={})


def test_releases_are_compared_as_by_the_command_line() -> None:
    one, other = (Discovery(f"kubernetes:{name}", name) for name in ("1.24", "1.25"))
    broken = {found.subject for found in compare_discovery(one, other).breaking}
    assert "batch/v1beta1" in broken
