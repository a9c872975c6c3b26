"""A scope of the fleet: its clusters, matrix and views, and the parts that are computed again."""

import asyncio
from dataclasses import replace

import pytest
from apidiscovery_formats.matrix import Agreement, Cell, Column, Freshness, Row
from apidiscovery_service.core.cluster import Dialect
from apidiscovery_service.core.model import Freshness as VersionFreshness
from apidiscovery_service.core.model import Group, Version
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.kube.objects.selectors import parse_labels
from fleet_clusters import cluster, fleet_of, group


def row(scope: Scope, resource: str) -> Row:
    return next(each for each in scope.matrix().rows if each.resource == resource)


def versions(found: Row) -> list[tuple[str, ...] | None]:
    return [cell.versions if cell else None for cell in found.cells]


def column(scope: Scope, name: str) -> Column:
    return next(each for each in scope.columns() if each.name == name)


def test_the_matrix_has_a_column_for_each_cluster_and_a_row_for_each_resource() -> None:
    east = cluster("east", group("apps", "Job", versions=("v2", "v1")))
    scope = fleet_of(cluster("west"), east).scope()

    assert [each.name for each in scope.matrix().columns] == ["east", "west"]
    assert [(each.group, each.resource) for each in scope.matrix().rows] == [
        ("", "pods"),
        ("apps", "jobs"),
    ]
    assert row(scope, "pods").cells[0] == Cell(
        ("v1",), "v1", "Pod", "Namespaced", ("po",), ("get",)
    )
    assert row(scope, "pods").agreement is Agreement.SAME
    assert versions(row(scope, "jobs")) == [("v2", "v1"), None]
    assert row(scope, "jobs").agreement is Agreement.DIFFERENT


def test_a_column_tells_release_labels_count_and_content() -> None:
    labels = {"region": "eu"}
    scope = fleet_of(
        cluster("a", labels=labels), cluster("b"), cluster("c", group("x", "Y"))
    ).scope()

    first, same, other = scope.columns()

    assert first == Column("a", version="v1.36.2", resources=1, hash=same.hash, labels=labels)
    assert other.resources == 2
    assert other.hash != same.hash


@pytest.mark.parametrize(
    "version", [b"", b"nonsense", b"[]", b'{"gitVersion":7}', b'{"major":"1"}']
)
def test_a_release_that_is_not_told_is_empty(version: bytes) -> None:
    odd = replace(cluster("a"), dialect=Dialect(version=version))
    assert [each.version for each in fleet_of(odd).scope().columns()] == [""]


def test_a_stale_cluster_keeps_its_cells() -> None:
    fleet = fleet_of(cluster("east"), cluster("west"))
    rows = fleet.scope().matrix().rows

    fleet.update([cluster("west", state=SourceState.STALE, error="connection refused")])

    west = column(fleet.scope(), "west")
    assert (west.freshness, west.since) == (Freshness.STALE, "2026-11-23T12:00:00Z")
    assert west.reason == "connection refused"
    assert list(map(id, fleet.scope().matrix().rows)) == list(map(id, rows))


def test_a_cluster_that_was_never_had_denies_nothing() -> None:
    never = replace(cluster("west", state=SourceState.PENDING), core=None, named=None)
    failing = replace(cluster("zoo", state=SourceState.STALE, error="401"), core=None, named=None)
    scope = fleet_of(cluster("east"), never, failing).scope()

    assert [each.freshness for each in scope.columns()] == ["Current", "Unknown", "Unknown"]
    assert [each.reason for each in scope.columns()] == ["", "it has not been asked yet", "401"]
    assert row(scope, "pods").agreement is Agreement.UNSURE


def test_a_core_group_that_was_never_had_is_unknown_and_not_absent() -> None:
    half = replace(cluster("west", state=SourceState.STALE, error="500"), core=None)
    scope = fleet_of(cluster("east", group("apps", "Job")), half).scope()

    assert row(scope, "pods").cells[1] == Cell(unknown=("v1",))
    assert row(scope, "pods").agreement is Agreement.UNSURE
    assert row(scope, "jobs").agreement is Agreement.DIFFERENT


def test_a_version_that_has_never_answered_is_unknown() -> None:
    silent = Group("apps", (Version("v1", (), VersionFreshness.STALE),))
    scope = fleet_of(cluster("east", group("apps", "Job")), cluster("west", silent)).scope()

    assert row(scope, "jobs").cells[1] == Cell(unknown=("v1",))
    assert row(scope, "jobs").agreement is Agreement.UNSURE


def test_what_the_cluster_itself_calls_stale_is_stale_in_the_cell() -> None:
    stale = Group("apps", (replace(group("apps", "Job").versions[0], freshness="Stale"),))
    scope = fleet_of(cluster("east", stale)).scope()

    (found,) = row(scope, "jobs").cells
    assert found is not None
    assert found.stale == ("v1",)


def test_only_rows_of_a_changed_group_are_made_again() -> None:
    clusters = [
        cluster(f"c{n:03}", group("apps", "Job", "Deploy"), group("x", "Y")) for n in range(50)
    ]
    fleet = fleet_of(*clusters)
    scope = fleet.scope()
    before = scope.matrix()

    fleet.update([cluster("c007", group("apps", "Job", "Deploy"), group("x", "Y", "Z"))])

    after = scope.matrix()
    same = {id(each) for each in before.rows}
    assert [each.resource for each in after.rows if id(each) not in same] == ["zs"]
    assert versions(row(scope, "zs"))[7] == ("v1",)
    assert scope.matrix() is after


def test_nothing_changes_where_an_update_says_nothing_new() -> None:
    fleet = fleet_of(cluster("east", group("apps", "Job")))
    scope = fleet.scope()
    revision, matrix, view = scope.revision, scope.matrix(), scope.view("union")

    fleet.update([cluster("east", group("apps", "Job"))], gone=["unheard-of"])

    assert (scope.revision, scope.matrix(), scope.view("union")) == (revision, matrix, view)


def test_clusters_share_the_cells_of_equal_groups() -> None:
    scope = fleet_of(cluster("east", group("x", "Y")), cluster("west", group("x", "Y"))).scope()
    first, second = row(scope, "ys").cells
    assert first is second


def test_a_scope_sees_the_clusters_whose_names_match() -> None:
    names = ["prod-eu", "prod-us", "test", "a.b", "axb"]
    fleet = fleet_of(*map(cluster, names))

    assert list(fleet.scope(("prod-*",)).clusters) == ["prod-eu", "prod-us"]
    assert list(fleet.scope(("*-us", "test")).clusters) == ["prod-us", "test"]
    assert list(fleet.scope(("a.b",)).clusters) == ["a.b"]
    assert list(fleet.scope(()).clusters) == []
    assert list(fleet.scope().clusters) == sorted(names)
    assert fleet.scope(("b", "a")) is fleet.scope(("a", "b", "a"))


def test_clusters_outside_of_a_scope_change_nothing_in_it() -> None:
    fleet = fleet_of(cluster("east", group("x", "Y")), cluster("secret", group("hidden", "Z")))
    scope = fleet.scope(("east",))
    revision, matrix, view = scope.revision, scope.matrix(), scope.view("union")

    fleet.update([cluster("secret", group("hidden", "Z", "Q")), cluster("secret-2")])

    assert (scope.revision, scope.matrix(), scope.view("union")) == (revision, matrix, view)
    assert view is not None
    assert view.group("hidden") is None
    assert "secret" not in repr(matrix)


def test_labels_select_clusters() -> None:
    fleet = fleet_of(cluster("a", labels={"region": "eu"}), cluster("b", labels={"region": "us"}))
    scope = fleet.scope()
    europe = scope.selected(parse_labels("region=eu"))

    assert list(europe.clusters) == ["a"]
    assert scope.selected(parse_labels("region=eu")) is europe
    assert scope.selected(parse_labels("")) is scope

    fleet.update([cluster("b", labels={"region": "eu"}), cluster("a")])
    assert list(europe.clusters) == ["b"]


def test_a_cluster_that_is_gone_takes_its_rows_with_it() -> None:
    fleet = fleet_of(cluster("east"), cluster("west", group("x", "Y")))
    scope = fleet.scope()
    assert len(scope.matrix().rows) == 2

    fleet.update([], gone=["west"])

    assert [each.name for each in scope.matrix().columns] == ["east"]
    assert [each.resource for each in scope.matrix().rows] == ["pods"]


async def test_a_waiter_learns_of_changes_in_its_scope_alone() -> None:
    fleet = fleet_of(cluster("east"), cluster("secret"))
    scope = fleet.scope(("east",))
    seen = scope.revision
    waiting = asyncio.ensure_future(scope.wait(seen))

    fleet.update([cluster("secret", group("x", "Y"))])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()

    fleet.update([cluster("east", group("x", "Y"))])
    assert await waiting == scope.revision != seen
    assert await scope.wait(seen) == scope.revision
