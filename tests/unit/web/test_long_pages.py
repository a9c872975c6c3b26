"""Pages of long lists show the first, and lead to the rest by links."""

from typing import cast

from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.web.pages import fleet, groups
from apidiscovery_service.web.pages.fleet import RowLine
from apidiscovery_service.web.pages.groups import GroupLine
from apidiscovery_service.web.paging import Pages
from apidiscovery_service.web.view import Page, Served, View, Viewer
from fleet_clusters import cluster, fleet_of, group


class _Server:
    """The parts of a server that the pages use."""

    registry = Registry()


def _view(of: Fleet, snapshot: EncodedSnapshot, **parameters: str) -> View:
    served = cast("Served", _Server())
    return View(served, Viewer(), of.scope(), snapshot, "/ui/", parameters=parameters)


async def _matrix(**parameters: str) -> Page:
    odd = group("a.example", "Odd")
    clusters = [cluster(f"c{n:02}", *((odd,) if n % 3 else ())) for n in range(50)]
    return await fleet.page(_view(fleet_of(*clusters), cast("EncodedSnapshot", None), **parameters))


async def test_the_first_clusters_are_shown_and_all_count() -> None:
    values = (await _matrix()).values
    (row,) = cast("list[RowLine]", values["rows"])
    assert [query for _, query in row.cells] == [f"?cluster=c{n:02}" for n in range(25)]
    assert [cell.text for cell, _ in row.cells[:3]] == ["-", "v1", "v1"]
    assert [cell.is_odd for cell, _ in row.cells[:3]] == [True, False, False]
    assert (values["column_count"], values["wide"]) == (50, "columns=all")


async def test_all_clusters_are_shown_when_they_are_asked_for() -> None:
    values = (await _matrix(columns="all")).values
    (row,) = cast("list[RowLine]", values["rows"])
    assert len(row.cells) == len(cast("tuple[object, ...]", values["columns"])) == 50


async def test_a_page_has_a_hundred_groups() -> None:
    many = [group(f"g{n:03}.example", "Widget") for n in range(250)]
    snapshot = EncodedSnapshot(Publisher().snapshot(cluster("here", *many)))
    page = await groups.listing(_view(Fleet(), snapshot, page="3"))
    names = [line.name for line in cast("list[GroupLine]", page.values["groups"])]
    assert names[0] == "g199.example"
    assert (len(names), cast("Pages[object]", page.values["pages"]).total) == (51, 251)
