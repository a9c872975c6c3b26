"""`Fleet.of_server` and the commands that use it, against a real service with two clusters."""

import asyncio
import json
from collections.abc import Generator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from apidiscovery_client import DiscoveryError, NotYetServed, RequestRefused, ServerUnreachable
from apidiscovery_client.fleet import AsyncFleet, Fleet
from apidiscovery_client.testing import FakeApiServer, group, resource
from apidiscovery_formats.matrix import Agreement, Freshness, Matrix, applied
from command_line import Outcome, run
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from programs import free_port
from server import Server, serving
from waiting import WITHIN_S, eventually

PODS = group("", v1=[resource("pods", "Pod")])
WIDGETS = group("example.com", v1=[resource("widgets", "Widget", short_names=["wd"])])
NEWER = group(
    "example.com",
    v2=[resource("widgets", "Widget", short_names=["wd"])],
    v1=[resource("widgets", "Widget", short_names=["wd"])],
)
CRONTABS = group("stable.example.com", v1=[resource("crontabs", "CronTab")])
COMMON = (
    "KIND     NAME      GROUP         VERSIONS\n"
    "Pod      pods                    v1\n"
    "Widget   widgets   example.com   v1\n"
)

Capture = pytest.CaptureFixture[str]


@dataclass
class Clusters:
    """A service with two clusters, and what they really are."""

    east: FakeApiServer
    west: FakeApiServer
    server: Server

    def url(self, scheme: str) -> str:
        return f"grpc://{self.server.grpc}" if scheme == "grpc" else self.server.url

    def until(self, condition: str, *, resource: str = "") -> None:
        """Wait until the service has seen something of west."""

        def look() -> bool:
            with Fleet.of_server(self.server.url) as fleet:
                matrix = fleet.matrix()
            rows = {row.resource for row in matrix.rows}
            seen = {column.name: column.freshness for column in matrix.columns if column.version}
            wanted = {"east": "Current", "west": condition}
            return seen == wanted and (not resource or resource in rows)

        eventually(look, f"west is {condition}, with {resource}")


@contextmanager
def running(folder: Path) -> Generator[Clusters]:
    with FakeApiServer([PODS, WIDGETS]) as east, FakeApiServer([PODS, NEWER]) as west:
        config = folder / "config.json"
        upstreams = {
            name: {"url": fake.url, "poll-interval": "1s"}
            for name, fake in (("east", east), ("west", west))
        }
        config.write_text(json.dumps({"upstreams": upstreams}), encoding="utf-8")
        flags = ("--catalog", "none", "--store", "memory", "--config", str(config))
        with serving(folder, *flags) as server:
            clusters = Clusters(east, west, server)
            clusters.until("Current")
            yield clusters


@pytest.fixture(name="clusters")
def fixture_clusters(tmp_path: Path) -> Iterator[Clusters]:
    with running(tmp_path) as clusters:
        yield clusters


@pytest.fixture(name="steady", scope="module")
def fixture_steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Return clusters that no test changes."""
    with running(tmp_path_factory.mktemp("steady")) as clusters:
        yield clusters


each_scheme = pytest.mark.parametrize("scheme", ["http", "grpc"])


def table(matrix: Matrix) -> dict[str, list[tuple[str, ...] | None]]:
    return {
        row.resource: [cell.versions if cell else None for cell in row.cells] for row in matrix.rows
    }


def test_both_ways_tell_the_same_matrix(steady: Clusters) -> None:
    with over_both(steady) as (http, pushed):
        assert http.matrix() == pushed.matrix()
        assert http.clusters() == pushed.clusters()
        assert http.names == ("east", "west")
        assert table(http.matrix()) == {
            "pods": [("v1",), ("v1",)],
            "widgets": [("v1",), ("v2", "v1")],
        }
        # Not modified: what is known already is the same object.
        assert http.matrix() is http.matrix()
        assert pushed.matrix() is pushed.matrix()


@contextmanager
def over_both(clusters: Clusters, timeout_s: float | None = None) -> Generator[tuple[Fleet, Fleet]]:
    """Return a fleet over HTTP and one over gRPC."""
    with (
        Fleet.of_server(clusters.url("http"), request_timeout_s=timeout_s) as http,
        Fleet.of_server(clusters.url("grpc"), request_timeout_s=timeout_s) as pushed,
    ):
        yield http, pushed


def test_names_are_resolved_in_each_cluster(steady: Clusters) -> None:
    with over_both(steady) as fleets:
        for fleet in fleets:
            assert fleet.best_common_version("wd").version == "v1"
            assert fleet.best_common_version("Widget", ["west"]).version == "v2"
            found = fleet.wait_for("widgets")
            assert {name: str(each.resource.gv) for name, each in found.items()} == {
                "east": "example.com/v1",
                "west": "example.com/v2",
            }
            with pytest.raises(NotYetServed) as caught:
                fleet.wait_for("crontabs", timeout_s=0.1)
            assert set(caught.value.missing) == {"east", "west"}
            with pytest.raises(KeyError):
                fleet.best_common_version("widgets", ["south"])


def test_a_cluster_and_then_the_service_die_and_empty_nothing(
    clusters: Clusters, capsys: Capture
) -> None:
    with over_both(clusters, timeout_s=10) as fleets:
        before = [fleet.matrix() for fleet in fleets]
        clusters.west.down()
        clusters.until("Stale")
        for fleet, known in zip(fleets, before, strict=True):
            after = fleet.matrix()
            assert after.rows == known.rows
            assert [one.freshness for one in after.columns] == [Freshness.CURRENT, Freshness.STALE]
            assert "refused" in after.columns[1].reason
            best = fleet.best_common_version("widgets")
            assert (best.version, set(best.unsure)) == ("v1", {"west"})
            with pytest.raises(NotYetServed) as caught:
                fleet.wait_for("widgets", timeout_s=0.1)
            assert set(caught.value.missing) == {"west"}
        comparing_tells_of_the_dead(clusters, capsys)
        clusters.server.stop()
        for fleet, known in zip(fleets, before, strict=True):
            after, again = fleet.matrix(), fleet.matrix()
            assert after.rows == known.rows
            assert {column.freshness for column in after.columns} == {Freshness.STALE}
            assert [c.since for c in after.columns] == [c.since for c in again.columns]


def comparing_tells_of_the_dead(clusters: Clusters, capsys: Capture) -> None:
    """See that commands which compare warn of the cluster west, which has died."""
    two = command(clusters, capsys, "diff", "cluster:east", "cluster:west")
    several = command(clusters, capsys, "diff", "cluster:east", "cluster:west", "a=cluster:east")
    url = f"http://{clusters.server.http}/clusters/west"
    listed = run(capsys, "api-resources", "--no-cache", "--server", url)
    missing = command(clusters, capsys, "diff", "cluster:east", "cluster:south")

    assert two.stderr.startswith("Warning: this is the last known answer of cluster west: ")
    assert "connection refused by 127.0.0.1:" in two.stderr
    assert two.exit_code == 1
    assert listed.stderr == two.stderr  # one line, though two requests were answered with it
    assert "; west " in several.stdout.splitlines()[0]
    assert "(stale" in several.stdout.splitlines()[2]
    assert missing == Outcome(
        2, "", "error: south: the service knows no such cluster; it knows east, west\n"
    )


async def test_a_watch_tells_changes_and_survives_the_service(clusters: Clusters) -> None:
    """Over HTTP and over gRPC, at the same time."""
    stopped = asyncio.Event()
    seen = asyncio.Barrier(3)

    async def see(scheme: str) -> None:
        async with (
            AsyncFleet.of_server(clusters.url(scheme)) as fleet,
            aclosing(fleet.watch(interval_s=0.1)) as deltas,
        ):
            first = await anext(deltas)
            matrix = applied(Matrix((), ()), first)
            await seen.wait()
            told = [await anext(deltas)]
            while not told[-1].rows:  # such as a release that is learned of later
                told.append(await anext(deltas))
            for delta in told:
                matrix = applied(matrix, delta)
            assert matrix == await fleet.matrix()
            assert list(await fleet.wait_for("crontabs", in_all=False)) == ["west"]
            await seen.wait()
            await stopped.wait()
            rows = matrix.rows
            while {column.freshness for column in matrix.columns} != {Freshness.STALE}:
                matrix = applied(matrix, await anext(deltas))
        assert [row.resource for row in first.rows] == ["pods", "widgets"]
        assert [row.resource for row in told[-1].rows] == ["crontabs"]
        assert [column.name for column in told[-1].columns] == ["west"]
        assert matrix.rows == rows

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for scheme in ("http", "grpc"):
            tasks.create_task(see(scheme))
        await seen.wait()
        clusters.west.add(CRONTABS)
        await seen.wait()
        await asyncio.to_thread(clusters.server.stop)
        stopped.set()


@each_scheme
def test_without_any_answer_there_is_an_error_and_no_empty_matrix(scheme: str) -> None:
    url = f"{scheme}://127.0.0.1:{free_port()}"
    with (
        Fleet.of_server(url, request_timeout_s=2) as fleet,
        pytest.raises(ServerUnreachable) as caught,
    ):
        fleet.matrix()
    assert "127.0.0.1" in str(caught.value)


@each_scheme
def test_a_wrong_selector_is_an_error_each_time(steady: Clusters, scheme: str) -> None:
    with Fleet.of_server(steady.url(scheme), selector="region in eu") as fleet:
        with pytest.raises(RequestRefused):
            fleet.matrix()
        with pytest.raises(RequestRefused) as caught:
            fleet.matrix()
    assert caught.value.status == 400
    assert "expected: '('" in str(caught.value)


@each_scheme
def test_no_cluster_has_labels_that_nobody_gave(steady: Clusters, scheme: str) -> None:
    with Fleet.of_server(steady.url(scheme), selector="region=eu") as fleet:
        assert fleet.clusters() == ()
        with pytest.raises(NotYetServed):
            fleet.wait_for("widgets", timeout_s=0.1)
    with Fleet.of_server(steady.url(scheme), selector="!region") as fleet:
        assert len(fleet.clusters()) == 2


def test_a_server_without_a_fleet_is_named(steady: Clusters) -> None:
    with Fleet.of_server(steady.east.url) as fleet, pytest.raises(DiscoveryError) as caught:
        fleet.matrix()
    assert "shows no clusters" in str(caught.value)


def command(steady: Clusters, capsys: Capture, *args: str) -> Outcome:
    return run(capsys, *args, "--server", steady.server.url)


def test_the_command_shows_what_the_service_knows(steady: Clusters, capsys: Capture) -> None:
    found = command(steady, capsys, "fleet")
    pushed = run(capsys, "fleet", "--server", steady.url("grpc"))

    assert found.stdout == (
        "2 clusters, 2 kinds: 1 the same everywhere, 1 differ\n"
        "KIND     GROUP         EAST   WEST\n"
        "Widget   example.com   v1     v2*,v1\n"
    )
    assert found.exit_code == 1
    assert pushed == found


@pytest.mark.parametrize(
    ("args", "exit_code", "stdout"),
    [
        (("fleet", "e*"), 0, "1 cluster, 2 kinds: 2 the same everywhere, 0 differ\n"),
        (("fleet", "-o", "name"), 1, "widgets.example.com\n"),
        (("fleet", "best", "widgets"), 0, "example.com/v1 Widget\n"),
        (("fleet", "best", "widgets", "west"), 0, "example.com/v2 Widget\n"),
        (("fleet", "--common"), 0, COMMON),
        (("fleet", "south"), 2, ""),
        (("fleet", "-l", "region in eu"), 2, ""),
        (("fleet", "-l", "region=eu", "best", "widgets"), 2, ""),
        (("fleet", "-l", "region=eu"), 2, ""),
        (("fleet", "--all-contexts"), 2, ""),
        (("diff", "cluster:east", "cluster:east"), 0, None),
        (("diff", "cluster:east", "cluster:west", "-o", "json"), 1, None),
        (("diff", "cluster:east", "cluster:south"), 2, ""),
        (("diff", "cluster:", "cluster:south"), 2, ""),
    ],
)  # fmt: skip
def test_exit_codes_and_forms(
    steady: Clusters, capsys: Capture, args: tuple[str, ...], exit_code: int, stdout: str | None
) -> None:
    found = command(steady, capsys, *args)

    assert found.exit_code == exit_code, found
    assert stdout is None or found.stdout == stdout
    assert bool(found.stderr) == (exit_code == 2)


def test_several_sides_are_a_table(steady: Clusters, capsys: Capture) -> None:
    sides = ("cluster:east", "cluster:west", f"direct={steady.west.url}")
    found = command(steady, capsys, "diff", *sides)
    markdown = command(steady, capsys, "diff", *sides, "-o", "markdown")
    document = command(steady, capsys, "diff", *sides, "-o", "json")

    assert found.stdout == (
        "3 clusters, 2 kinds: 1 the same everywhere, 1 differ\n"
        "KIND     GROUP         EAST   WEST     DIRECT\n"
        "Widget   example.com   v1     v2*,v1   v2*,v1\n"
    )
    assert found.exit_code == 1
    assert "| Widget | example.com | v1 | v2\\*,v1 | v2\\*,v1 |" in markdown.stdout
    assert [row["agreement"] for row in json.loads(document.stdout)["rows"]] == ["Different"]
    assert command(steady, capsys, "diff", *sides, "--breaking-only").exit_code == 2


def test_a_cluster_is_compared_with_releases(steady: Clusters, capsys: Capture) -> None:
    found = command(steady, capsys, "diff", "cluster:east", "kubernetes:1.30")
    assert found.exit_code == 1
    assert "cluster:east -> kubernetes:1.30" in found.stdout


def test_agreement_is_among_the_clusters_that_are_shown(steady: Clusters, capsys: Capture) -> None:
    found = command(steady, capsys, "fleet", "west", "--all", "-o", "json")
    document = json.loads(found.stdout)
    assert [row["agreement"] for row in document["rows"]] == [str(Agreement.SAME)] * 2


def test_the_service_is_in_health_and_reflection(steady: Clusters) -> None:
    service = "apidiscovery.service.v1.FleetService"
    with grpc.insecure_channel(steady.server.grpc) as channel:
        check: grpc.UnaryUnaryMultiCallable[
            health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
        ]
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        status = check(health_pb2.HealthCheckRequest(service=service), timeout=WITHIN_S).status
        listed = ProtoReflectionDescriptorDatabase(channel).get_services()

    assert status == health_pb2.HealthCheckResponse.SERVING
    assert service in listed


def test_upgrade_takes_all_clusters_of_a_service(steady: Clusters, capsys: Capture) -> None:
    found = run(capsys, "upgrade", "--to", "1.36", "--server", steady.server.url)
    lines = found.stdout.splitlines()
    assert lines[0] == "2 clusters to Kubernetes 1.36: 2 with nothing to do"
    assert [line.partition(":")[0] for line in lines[1:3]] == ["  east", "  west"]
    assert found.exit_code == 2, "only discovery could be read"
