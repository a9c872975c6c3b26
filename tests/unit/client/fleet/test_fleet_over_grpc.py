"""`Fleet` and `AsyncFleet` over FleetService in this process: each matrix is one whole state."""

import asyncio
import random
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from apidiscovery_client.fleet import AsyncFleet, Fleet
from apidiscovery_client.transports import CallRefused
from apidiscovery_formats.matrix import Freshness, Matrix, applied
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.serving.grpc import fleet_encoding
from fleet_clusters import cluster, group
from fleet_server import Served, serving
from programs import free_port
from waiting import WITHIN_S

APPS = group("apps", "Job", versions=("v2", "v1"))
OTHER = group("other.example.com", "Thing")
GROUPS = (APPS, OTHER, group("apps", "Job"), group("z.example.com", "Zed", "Zoo"))


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    clusters = [cluster(f"cluster-{n}", GROUPS[n % 4]) for n in range(6)]
    async with serving(*clusters) as served:
        yield served


def shaken(served: Served, chance: random.Random) -> Matrix:
    """Change a cluster, or let one come or go; return the matrix then."""
    name = f"cluster-{chance.randrange(8)}"
    state = chance.choice([SourceState.CURRENT, SourceState.STALE])
    gone = [name] if chance.random() < 0.2 else []
    changed = [] if gone else [cluster(name, chance.choice(GROUPS), state=state)]
    served.fleet.update(changed, gone)
    return served.fleet.scope().matrix()


async def test_each_matrix_is_one_state_of_the_fleet(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fleet may change between any two of many pages."""
    monkeypatch.setattr(fleet_encoding, "PART_BYTES", 200)
    states = [served.fleet.scope().matrix()]
    chance = random.Random(7)  # noqa: S311 - no secret

    async def shake() -> None:
        while True:
            states.append(shaken(served, chance))
            await asyncio.sleep(0.001)

    shaking = asyncio.create_task(shake())
    async with (
        AsyncFleet.of_server(f"grpc://{served.target}") as fleet,
        asyncio.timeout(WITHIN_S),
    ):
        found = [await fleet.matrix() for _ in range(20)]
    shaking.cancel()

    assert all(matrix in states for matrix in found)


async def test_a_watch_of_a_fleet_that_flaps_ends_where_the_fleet_is(served: Served) -> None:
    chance = random.Random(8)  # noqa: S311 - no secret
    matrix = Matrix((), ())
    async with (
        AsyncFleet.of_server(f"grpc://{served.target}") as fleet,
        aclosing(fleet.watch()) as deltas,
        asyncio.timeout(WITHIN_S),
    ):
        matrix = applied(matrix, await anext(deltas))
        for _ in range(50):
            now = shaken(served, chance)
            if matrix != now:
                matrix = applied(matrix, await anext(deltas))
        while matrix != served.fleet.scope().matrix():
            matrix = applied(matrix, await anext(deltas))


async def test_a_watch_goes_on_when_the_service_comes_back() -> None:
    before = [cluster("east", APPS), cluster("west", OTHER)]
    async with (
        serving(*before, port=free_port()) as first,
        AsyncFleet.of_server(f"grpc://{first.target}") as fleet,
        aclosing(fleet.watch(interval_s=0.05)) as deltas,
        asyncio.timeout(WITHIN_S),
    ):
        matrix = applied(Matrix((), ()), await anext(deltas))
        rows = matrix.rows
        await first.server.stop(0)
        matrix = applied(matrix, await anext(deltas))
        assert {column.freshness for column in matrix.columns} == {Freshness.STALE}
        assert matrix.rows == rows
        async with serving(*before, port=first.port) as second:
            while {column.freshness for column in matrix.columns} != {Freshness.CURRENT}:
                matrix = applied(matrix, await anext(deltas))
            assert matrix.rows == rows
            second.fleet.update([cluster("west", APPS)])
            matrix = applied(matrix, await anext(deltas))
            assert matrix == second.fleet.scope().matrix()


async def test_the_blocking_watch_tells_the_same(served: Served) -> None:
    def first_two() -> Matrix:
        with Fleet.of_server(f"grpc://{served.target}") as fleet:
            deltas = fleet.watch()
            matrix = applied(Matrix((), ()), next(deltas))
            has_begun.set()
            matrix = applied(matrix, next(deltas))
            deltas.close()
            return matrix

    has_begun = threading.Event()
    watching = asyncio.create_task(asyncio.to_thread(first_two))
    async with asyncio.timeout(WITHIN_S):
        await asyncio.to_thread(has_begun.wait)
        served.fleet.update([cluster("new", OTHER)])
        assert await watching == served.fleet.scope().matrix()


async def test_a_service_that_is_not_ready_is_waited_for_a_moment_only() -> None:
    async with (
        serving(cluster("east"), ready=False) as served,
        AsyncFleet.of_server(f"grpc://{served.target}", request_timeout_s=10) as fleet,
    ):
        with pytest.raises(CallRefused) as caught:
            await fleet.matrix()
        served.ready = True
        assert len(await fleet.clusters()) == 1
    assert caught.value.status == 503
