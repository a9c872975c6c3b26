"""`Fleet` and `AsyncFleet`: several clusters side by side, asked by this process."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apidiscovery_client import InvalidConfiguration, NotYetServed
from apidiscovery_client.fleet import AsyncFleet, Fleet
from apidiscovery_client.fleet._cells import cluster_of
from apidiscovery_client.model import Snapshot, Stale
from apidiscovery_client.testing import FakeApiServer, group, resource
from apidiscovery_formats.matrix import Agreement, Freshness, Matrix
from kubectl_config import several, write
from waiting import WITHIN_S

WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])
NEWER = group("example.com", v2=[resource("widgets", "Widget")], v1=[resource("widgets", "Widget")])


@pytest.fixture
def east() -> Iterator[FakeApiServer]:
    with FakeApiServer([WIDGETS]) as server:
        yield server


@pytest.fixture
def west() -> Iterator[FakeApiServer]:
    with FakeApiServer([NEWER]) as server:
        yield server


def agreements(matrix: Matrix) -> dict[str, Agreement]:
    return {row.resource: row.agreement for row in matrix.rows}


def test_clusters_that_serve_other_versions_differ(
    east: FakeApiServer, west: FakeApiServer
) -> None:
    with Fleet({"east": east.url, "west": west.url}) as fleet:
        (row,) = fleet.matrix().rows

    assert row.agreement is Agreement.DIFFERENT
    assert [cell.versions for cell in row.cells if cell] == [("v1",), ("v2", "v1")]


def test_a_cluster_that_dies_keeps_its_column(east: FakeApiServer, west: FakeApiServer) -> None:
    with Fleet({"east": east.url, "west": west.url}) as fleet:
        before = fleet.matrix()
        west.down()
        after = fleet.matrix(max_age_s=0)

    assert after.rows == before.rows
    assert [column.freshness for column in after.columns] == [Freshness.CURRENT, Freshness.STALE]
    assert "refused" in after.columns[1].reason


def test_a_cluster_that_does_not_answer_is_as_old_as_its_last_answer() -> None:
    """The answer may be that to another process: the snapshot is from the disk cache."""
    answered = datetime(2026, 11, 20, 10, tzinfo=UTC)
    stale = Stale(datetime(2026, 11, 20, 12, tzinfo=UTC), "refused")
    snapshot = Snapshot((), "http://127.0.0.1:1", answered, freshness=stale)

    assert cluster_of("east", snapshot, {}).column.since == "2026-11-20T10:00:00Z"


def test_a_cluster_that_never_answered_denies_nothing(east: FakeApiServer) -> None:
    with Fleet({"east": east.url, "west": "http://127.0.0.1:1"}) as fleet:
        matrix = fleet.matrix()

    assert agreements(matrix) == {"widgets": Agreement.UNSURE}
    assert matrix.columns[1].freshness is Freshness.UNKNOWN
    assert "127.0.0.1:1" in matrix.columns[1].reason


def test_a_version_that_never_answered_denies_nothing(
    east: FakeApiServer, west: FakeApiServer
) -> None:
    west.replace([WIDGETS])
    west.fail("example.com/v1")

    with Fleet({"east": east.url, "west": west.url}) as fleet:
        assert agreements(fleet.matrix()) == {"widgets": Agreement.UNSURE}


def test_the_best_common_version_is_one_that_all_serve(
    east: FakeApiServer, west: FakeApiServer
) -> None:
    with Fleet({"east": east.url, "west": west.url}) as fleet:
        assert fleet.best_common_version("widgets").version == "v1"
        assert fleet.best_common_version("widgets", ["west"]).version == "v2"


def test_it_waits_until_all_serve_what_is_wanted(east: FakeApiServer, west: FakeApiServer) -> None:
    with Fleet({"east": east.url, "west": west.url}) as fleet:
        fleet.matrix()
        west.remove("example.com")
        assert list(fleet.wait_for("widgets", in_all=False)) == ["east"]
        with pytest.raises(NotYetServed) as caught:
            fleet.wait_for("widgets", timeout_s=3.0)
        west.add(WIDGETS)
        assert set(fleet.wait_for("widgets")) == {"east", "west"}

    assert set(caught.value.missing) == {"west"}


async def test_a_watch_tells_what_changes_after_all_that_is_there(
    east: FakeApiServer, west: FakeApiServer
) -> None:
    async with (
        AsyncFleet({"east": east.url, "west": west.url}) as fleet,
        aclosing(fleet.watch(interval_s=0.01)) as deltas,
        asyncio.timeout(WITHIN_S),
    ):
        first = await anext(deltas)
        west.add(group("stable.example.com", v1=[resource("crontabs", "CronTab")]))
        second = await anext(deltas)

    assert [row.resource for row in first.rows] == ["widgets"]
    assert [row.resource for row in second.rows] == ["crontabs"]
    assert [column.name for column in second.columns] == ["west"]


def test_contexts_are_taken_by_pattern(
    east: FakeApiServer, west: FakeApiServer, tmp_path: Path
) -> None:
    file = write(tmp_path / "config", several(prod_east=east.url, prod_west=west.url, dev=""))

    with Fleet.from_kubeconfig(file, ["prod_*"]) as fleet:
        assert fleet.names == ("prod_east", "prod_west")
        assert fleet.matrix().count(Agreement.DIFFERENT) == 1
    with pytest.raises(InvalidConfiguration, match=r"none matches 'test-\*'; there are dev"):
        Fleet.from_kubeconfig(file, ["test-*"])


def test_a_context_that_cannot_be_used_is_a_cluster_of_which_nothing_is_known(
    east: FakeApiServer, tmp_path: Path
) -> None:
    file = write(tmp_path / "config", several(east=east.url, broken="no-url"))

    with Fleet.from_kubeconfig(file) as fleet:
        broken, found = fleet.matrix().columns

    assert (broken.name, broken.freshness) == ("broken", Freshness.UNKNOWN)
    assert str(file) in broken.reason
    assert found.freshness is Freshness.CURRENT
