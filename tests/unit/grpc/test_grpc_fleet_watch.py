"""WatchFleet: the whole state, then whole rows and columns that change, and nothing in between."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import cast

import betterproto
import grpc
import pytest
from apidiscovery.service.v1 import fleet_pb2
from apidiscovery_betterproto.apidiscovery.service import v1
from apidiscovery_client.fleet._wire import Received
from apidiscovery_formats.matrix import Matrix
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.serving.grpc import fleet_encoding
from fleet_clusters import cluster, group
from fleet_server import (
    Served,
    Stub,
    WatchCall,
    never_asked,
    next_changes,
    serving,
)
from google.protobuf.duration_pb2 import Duration
from grpc_errors import refusal
from grpc_server import next_message
from hypothesis import given
from hypothesis import strategies as st
from waiting import WITHIN_S

APPS = group("apps", "Job", versions=("v2", "v1"))
OLDER = group("apps", "Job")
OTHER = group("other.example.com", "Thing")


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving(cluster("east", APPS), cluster("west", OLDER)) as served:
        yield served


@pytest.fixture(name="stub")
async def fixture_stub(served: Served) -> AsyncGenerator[Stub]:
    async with served.stub() as stub:
        yield stub


@asynccontextmanager
async def watching(
    stub: Stub,
    known: str = "",
    heartbeat_s: int | None = None,
    selection: fleet_pb2.FleetSelection | None = None,
) -> AsyncGenerator[WatchCall]:
    call = stub.WatchFleet(
        fleet_pb2.WatchFleetRequest(
            selection=selection,
            if_none_match=known,
            heartbeat_interval=Duration(seconds=heartbeat_s) if heartbeat_s else None,
        )
    )
    try:
        yield call
    finally:
        call.cancel()


async def taken(call: WatchCall, received: Received) -> Matrix:
    """Return the next whole state, whatever the number of its messages."""
    while True:
        matrix = received.change(await next_changes(call))
        if matrix is not None:
            return matrix


async def test_a_change_is_one_row_and_one_column(served: Served, stub: Stub) -> None:
    received = Received()
    async with watching(stub) as call:
        await taken(call, received)
        served.fleet.update([cluster("west", OLDER, OTHER)])
        change = await next_changes(call)

    assert [each.name for each in change.delta.clusters] == ["west"]
    assert [each.resource for each in change.delta.rows] == ["things"]
    assert not change.from_nothing
    assert received.change(change) == served.fleet.scope().matrix()


async def test_a_cluster_that_dies_changes_its_column_and_no_row(
    served: Served, stub: Stub
) -> None:
    received = Received()
    async with watching(stub) as call:
        await taken(call, received)
        served.fleet.update([cluster("west", OLDER, state=SourceState.STALE, error="refused")])
        change = await next_changes(call)

    assert [each.reason for each in change.delta.clusters] == ["refused"]
    assert not change.delta.rows
    assert received.change(change) == served.fleet.scope().matrix()


async def test_a_cluster_that_goes_takes_its_column_along(served: Served, stub: Stub) -> None:
    served.fleet.update([cluster("west", OLDER, OTHER)])
    received = Received()
    async with watching(stub) as call:
        await taken(call, received)
        served.fleet.update([], ["west"])
        change = await next_changes(call)

    assert list(change.delta.removed_clusters) == ["west"]
    assert [(key.group, key.resource) for key in change.delta.removed_rows] == [
        ("other.example.com", "things")
    ]
    assert received.change(change) == served.fleet.scope().matrix()


async def test_rows_leave_a_selection_that_they_fit_no_more(served: Served, stub: Stub) -> None:
    received = Received()
    async with watching(stub, selection=fleet_pb2.FleetSelection(only_different=True)) as call:
        before = await taken(call, received)
        served.fleet.update([cluster("west", APPS)])
        after = await taken(call, received)

    assert [row.resource for row in before.rows] == ["jobs"]
    assert after == served.fleet.scope().matrix().selected(different=True)
    assert not after.rows


async def test_only_clusters_with_the_labels_are_sent(served: Served, stub: Stub) -> None:
    served.fleet.update([cluster("east", APPS, labels={"region": "eu"})])
    selection = fleet_pb2.FleetSelection(label_selector="region=eu")
    async with watching(stub, heartbeat_s=1, selection=selection) as call:
        matrix = await taken(call, Received())
        served.fleet.update([cluster("west", OTHER)])
        following = await next_message(call)

    assert [column.name for column in matrix.columns] == ["east"]
    assert following.WhichOneof("event") == "heartbeat"


async def test_a_caller_that_has_the_state_goes_on_at_a_replica(served: Served, stub: Stub) -> None:
    received = Received()
    async with watching(stub) as call:
        await taken(call, received)
    clusters = reversed([*served.fleet.clusters.values()])
    async with serving(*clusters) as replica, replica.stub() as other:
        async with watching(other, received.hash) as call:
            assert (await next_message(call)).heartbeat.hash == received.hash
            replica.fleet.update([cluster("west", OTHER)])
            assert await taken(call, received) == replica.fleet.scope().matrix()
        async with watching(other, "another") as call:
            assert (await next_changes(call)).from_nothing


async def test_large_states_and_changes_come_in_parts(
    served: Served, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_encoding, "PART_BYTES", 100)
    received = Received()
    async with watching(stub) as call:
        parts = [await next_changes(call)]
        assert not parts[0].hash
        assert received.change(parts[0]) is None
        assert await taken(call, received) == served.fleet.scope().matrix()
        served.fleet.update([cluster("west", OTHER), cluster("north", OTHER), cluster("south")])
        first = await next_changes(call)
        assert not first.hash
        assert not first.from_nothing
        assert received.change(first) is None
        assert await taken(call, received) == served.fleet.scope().matrix()


async def test_the_first_message_of_an_empty_fleet_has_a_hash() -> None:
    async with serving() as served, served.stub() as stub, watching(stub) as call:
        first = await next_changes(call)
        assert first.hash
        served.fleet.update([cluster("east")])
        second = await next_changes(call)
    assert [each.name for each in second.delta.clusters] == ["east"]


async def test_watchers_are_counted_and_get_the_same(served: Served, stub: Stub) -> None:
    async with watching(stub) as one, watching(stub) as other:
        received = [Received(), Received()]
        for call, each in zip((one, other), received, strict=True):
            await taken(call, each)
        assert served.watchers == 2
        served.fleet.update([cluster("north", OTHER)])
        told = [await taken(call, each) for call, each in zip((one, other), received, strict=True)]
    assert told == [served.fleet.scope().matrix()] * 2


@pytest.mark.parametrize("seconds", [0, 3601])
async def test_the_interval_of_heartbeats_is_bounded(stub: Stub, seconds: int) -> None:
    call = stub.WatchFleet(
        fleet_pb2.WatchFleetRequest(heartbeat_interval=Duration(seconds=seconds))
    )
    error = await refusal(next_message(call))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


GROUPS = (APPS, OLDER, OTHER, group("z.example.com", "Zed", "Zoo"))
one_cluster = st.builds(
    cluster,
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from(GROUPS),
    state=st.sampled_from([SourceState.CURRENT, SourceState.STALE]),
    labels=st.sampled_from([{}, {"region": "eu"}]),
) | st.builds(never_asked, st.sampled_from(["a", "b", "c", "d"]))
steps = st.lists(
    st.tuples(st.lists(one_cluster, max_size=3), st.lists(st.sampled_from("abcd"), max_size=2)),
    min_size=1,
    max_size=6,
)


@given(changes=steps, part_bytes=st.sampled_from([1, 300, 10_000]), skipping=st.booleans())
def test_a_delta_applied_to_the_old_gives_the_new(
    changes: list[tuple[list[Cluster], list[str]]], part_bytes: int, *, skipping: bool
) -> None:
    """Also when the reader skips states, and whatever the size of messages."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fleet_encoding, "PART_BYTES", part_bytes)
        fleet, received = Fleet(), Received()
        scope = fleet.scope()
        written = fleet_encoding.write(scope.matrix(), scope.clusters, None)
        messages = list(written.matrix.whole())
        sent = written.matrix.sent
        for number, (changed, gone) in enumerate(changes):
            fleet.update(changed, gone)
            written = fleet_encoding.write(scope.matrix(), scope.clusters, written)
            if skipping and number % 2:
                continue
            messages += written.matrix.delta(sent)
            sent = written.matrix.sent
        messages += written.matrix.delta(sent)
        matrix = None
        for message in messages:
            matrix = received.change(fleet_pb2.WatchFleetResponse.FromString(message).changes)

    assert matrix == scope.matrix()
    assert received.hash == written.matrix.hash
    assert (
        written.matrix.hash
        == fleet_encoding.write(scope.matrix(), scope.clusters, None).matrix.hash
    )


async def test_a_watch_misses_nothing_of_a_fleet_that_flaps(served: Served, stub: Stub) -> None:
    chance = random.Random(18)  # noqa: S311 - no secret
    received = Received()
    names = [f"cluster-{number}" for number in range(20)]
    async with watching(stub) as call:
        matrix = await taken(call, received)
        for _ in range(300):
            name = chance.choice(names)
            state = chance.choice([SourceState.CURRENT, SourceState.STALE])
            gone = [chance.choice(names)] if chance.random() < 0.1 else []
            served.fleet.update([cluster(name, chance.choice(GROUPS), state=state)], gone)
            await asyncio.sleep(0)
            if chance.random() < 0.1 and matrix != served.fleet.scope().matrix():
                matrix = await taken(call, received)
        async with asyncio.timeout(WITHIN_S):
            while matrix != served.fleet.scope().matrix():
                matrix = await taken(call, received)


async def test_betterproto_reads_the_same() -> None:
    async with (
        serving(cluster("east", APPS, labels={"region": "eu"}), cluster("west", OLDER)) as served,
        served.grpclib_channel() as channel,
        asyncio.timeout(WITHIN_S),
    ):
        stub = v1.FleetServiceStub(channel)
        listed = await stub.list_clusters(v1.ListClustersRequest(with_group_versions=True))
        page = await stub.get_matrix(
            v1.GetMatrixRequest(selection=v1.FleetSelection(groups=["apps"]))
        )
        again = await stub.get_matrix(
            v1.GetMatrixRequest(
                selection=v1.FleetSelection(groups=["apps"]), if_none_match=page.hash
            )
        )
        request = v1.WatchFleetRequest(heartbeat_interval=timedelta(seconds=1))
        # betterproto calls it an iterator; it is a generator.
        watch = cast("AsyncGenerator[v1.WatchFleetResponse]", stub.watch_fleet(request))
        async with aclosing(watch) as told:
            first = await anext(told)
            second = await anext(told)

    assert [each.name for each in listed.clusters] == ["east", "west"]
    assert listed.clusters[0].labels == {"region": "eu"}
    assert len(listed.clusters[0].group_versions) == 3
    (row,) = page.page.rows
    assert row.agreement == v1.FleetAgreement.from_string("DIFFERENT")
    assert [cell.clusters for cell in row.cells] == [["east"], ["west"]]
    assert betterproto.which_one_of(again, "result")[0] == "not_modified"
    assert first.changes.from_nothing
    assert second.heartbeat.hash == first.changes.hash
