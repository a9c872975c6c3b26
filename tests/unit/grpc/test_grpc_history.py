"""HistoryService: changes in pages and in a watch, and earlier states."""

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio
import pytest
from apidiscovery.service.v1 import discovery_pb2, history_pb2, history_pb2_grpc
from apidiscovery_service.core.cluster import Cluster, Dialect
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.history.history import History
from apidiscovery_service.history.model import Retention
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.serving.grpc.history import HistoryService
from fleet_clusters import group
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_errors import refusal
from grpc_server import GrpcServed, next_message
from waiting import until

GROUP = history_pb2.HISTORY_CHANGE_KIND_GROUP
STATE = history_pb2.HISTORY_CHANGE_KIND_STATE
OPENAPI = history_pb2.HISTORY_CHANGE_KIND_OPENAPI
VERSION = b'{"gitVersion": "v1.36.2"}'

Stub: TypeAlias = "history_pb2_grpc.HistoryServiceAsyncStub"


@dataclass
class Remembered:
    """A history that this process writes and serves.

    Attributes:
        documents: OpenAPI documents by cluster and path.
    """

    history: History
    stub: Stub
    documents: dict[str, dict[str, Recipe]]

    async def until_written(self, count: int) -> None:
        """Wait until the history has so many changes."""

        async def is_written() -> bool:
            return len(await self.history.changes(limit=10**6)) >= count

        await until(is_written, f"{count} changes are written")


@asynccontextmanager
async def remembered(path: Path | None = None) -> AsyncGenerator[Remembered]:
    documents: dict[str, dict[str, Recipe]] = {}

    async def openapi_of(name: str) -> dict[str, Recipe]:
        return documents.get(name, {})

    history = await History.open(path, Retention(), lambda name: f"ETAG OF {name}", openapi_of)
    recording = asyncio.create_task(history.record())
    try:
        async with stub_of(history) as stub:
            yield Remembered(history, stub, documents)
    finally:
        recording.cancel()
        await asyncio.wait([recording])
        await history.close()


@asynccontextmanager
async def stub_of(history: History | None) -> AsyncGenerator[Stub]:
    """Serve a history, or none, and connect with a stub."""
    served = GrpcServed()
    async with (
        served.running(HistoryService(history, served.metrics)),
        served.connected(history_pb2_grpc.HistoryServiceStub) as stub,
    ):
        yield stub


def cluster(
    name: str, *named: Group, state: SourceState = SourceState.CURRENT, error: str = ""
) -> Cluster:
    status = SourceStatus(name, state, error=error)
    return Cluster(name, status, {}, (), named, dialect=Dialect(version=VERSION))


@pytest.fixture(name="run")
async def fixture_run() -> AsyncGenerator[Remembered]:
    """East had widgets, then also gadgets; west has them still."""
    async with remembered() as run:
        run.history.clusters_changed(
            [cluster("east", group("a.test", "Widget")), cluster("west", group("b.test", "Tool"))],
            (),
        )
        await run.until_written(7)
        await asyncio.sleep(0.002)  # another millisecond
        run.history.clusters_changed([cluster("east", group("a.test", "Widget", "Gadget"))], ())
        await run.until_written(8)
        yield run


async def listed(
    run: Remembered,
    selection: history_pb2.HistorySelection | None = None,
    **fields: object,
) -> list[history_pb2.HistoryChange]:
    """Return all changes of a selection, page by page."""
    found: list[history_pb2.HistoryChange] = []
    page_token = ""
    while True:
        request = history_pb2.ListChangesRequest(
            selection=selection,
            page_token=page_token,
            **fields,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        )
        page = await run.stub.ListChanges(request)
        found += page.changes
        page_token = page.next_page_token
        if not page_token:
            return found


def told(changes: Sequence[history_pb2.HistoryChange]) -> list[tuple[str, str]]:
    return [(one.cluster, one.name) for one in changes if one.kind == GROUP]


def kinds(of: history_pb2.HistoryGroup) -> list[str]:
    return [r.response_kind.kind for version in of.group.versions for r in version.resources]


async def refused(call: "grpc.aio.UnaryUnaryCall[Any, Any]") -> tuple[grpc.StatusCode, str]:
    error = await refusal(call)
    return error.code(), error.details() or ""


def at(when: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(when)
    return timestamp


async def test_changes_come_newest_first_with_their_groups(run: Remembered) -> None:
    changes = await listed(run, with_groups=True)
    assert told(changes) == [("east", "a.test"), ("west", "b.test"), ("east", "a.test")]
    assert [one.id for one in changes] == sorted((one.id for one in changes), reverse=True)
    newest = changes[0]
    assert (kinds(newest.group_before), kinds(newest.group_after)) == (
        ["Widget"],
        ["Widget", "Gadget"],
    )
    assert (newest.cause, newest.etag_after, newest.damage) == ("poll", "ETAG OF east", "")
    assert abs(newest.time.ToDatetime(UTC) - datetime.now(UTC)).total_seconds() < 60
    assert not next(one for one in changes if one.cluster == "west").HasField("group_before")
    (of_west,) = (one for one in changes if one.cluster == "west" and one.version_after)
    assert (of_west.version_before, of_west.version_after) == ("", "v1.36.2")
    assert not (await listed(run))[0].HasField("group_after")


async def test_pages_of_any_size_have_every_change_once(run: Remembered) -> None:
    for size in (1, 2, 3, 100):
        assert await listed(run, page_size=size) == await listed(run), size


async def test_selections(run: Remembered) -> None:
    select = history_pb2.HistorySelection
    assert told(await listed(run, select(clusters=["west"]))) == [("west", "b.test")]
    assert {one.cluster for one in await listed(run, select(groups=["a.test"]))} == {"east"}
    assert {one.kind for one in await listed(run, select(kinds=[STATE]))} == {STATE}
    assert await listed(run, select(clusters=["north"])) == []
    assert {one.cluster for one in await listed(run, select(clusters=[""]))} == {""}
    newest = (await listed(run))[0]
    assert await listed(run, since=newest.time) == [newest]
    assert await listed(run, until=newest.time) == (await listed(run))[1:]


async def test_changes_of_state_are_listed(run: Remembered) -> None:
    count = len(await listed(run))
    run.history.clusters_changed([cluster("west", state=SourceState.STALE, error="refused")], ())
    await run.until_written(count + 1)
    changes = await listed(run, history_pb2.HistorySelection(kinds=[STATE], clusters=["west"]))
    assert (changes[0].state_before, changes[0].state_after, changes[0].cause) == (
        discovery_pb2.SOURCE_STATE_CURRENT,
        discovery_pb2.SOURCE_STATE_STALE,
        "refused",
    )
    request = history_pb2.GetAtRequest(cluster="west", time=at(datetime.now(UTC)))
    assert (await run.stub.GetAt(request)).state == discovery_pb2.SOURCE_STATE_STALE


async def test_an_earlier_state_is_returned_whole(run: Remembered) -> None:
    newest = (await listed(run))[0]
    now = await run.stub.GetAt(history_pb2.GetAtRequest(cluster="east", time=newest.time))
    before = newest.time.ToDatetime(UTC).timestamp() - 0.001
    then = await run.stub.GetAt(
        history_pb2.GetAtRequest(cluster="east", time=at(datetime.fromtimestamp(before, UTC)))
    )
    for answer, wanted in ((now, ["Widget", "Gadget"]), (then, ["Widget"])):
        (item,) = answer.groups.items
        found = [r.response_kind.kind for v in item.versions for r in v.resources]
        assert (item.metadata.name, found) == ("a.test", wanted)
        assert (answer.version, len(answer.core.items)) == (VERSION, 0)
        assert answer.state == discovery_pb2.SOURCE_STATE_CURRENT
    assert now.groups_etag != then.groups_etag
    assert now.core_etag == then.core_etag != ""


async def test_a_time_outside_the_history_is_refused_with_the_reason(run: Remembered) -> None:
    long_ago = at(datetime(2020, 1, 1, tzinfo=UTC))
    code, text = await refused(
        run.stub.GetAt(history_pb2.GetAtRequest(cluster="east", time=long_ago))
    )
    assert (code, "begins at" in text) == (grpc.StatusCode.OUT_OF_RANGE, True)
    code, text = await refused(
        run.stub.GetAt(history_pb2.GetAtRequest(cluster="north", time=long_ago))
    )
    assert (code, text) == (
        grpc.StatusCode.NOT_FOUND,
        "the history has nothing of cluster north",
    )


async def test_bad_requests_name_the_field(run: Remembered) -> None:
    requests = (
        (history_pb2.ListChangesRequest(page_size=-1), "page_size"),
        (history_pb2.ListChangesRequest(page_token="x"), "page_token"),  # noqa: S106 - no secret
        (history_pb2.ListChangesRequest(since=Timestamp(nanos=-1)), "since"),
        (history_pb2.ListChangesRequest(until=Timestamp(seconds=2**60)), "until"),
        (
            history_pb2.ListChangesRequest(
                selection=history_pb2.HistorySelection(kinds=[STATE, 99])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]
            ),
            "selection.kinds[1]",
        ),
        (
            history_pb2.ListChangesRequest(
                selection=history_pb2.HistorySelection(groups=["a"] * 1001)
            ),
            "selection.groups",
        ),
    )
    for request, field in requests:
        code, text = await refused(run.stub.ListChanges(request))
        assert (code, text.partition(":")[0]) == (grpc.StatusCode.INVALID_ARGUMENT, field)
    code, text = await refused(run.stub.GetAt(history_pb2.GetAtRequest(cluster="east")))
    assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, "time: want a time, got none")


async def test_without_a_history_the_error_names_the_flag() -> None:
    async with stub_of(None) as stub:
        code, text = await refused(stub.ListChanges(history_pb2.ListChangesRequest()))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "--history" in text


async def test_a_damaged_group_is_reported_with_its_change_and_hides_no_other(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.sqlite"
    async with remembered(path) as run:
        run.history.clusters_changed([cluster("east", group("a.test", "A"), group("b.test"))], ())
        await run.until_written(5)
        digest = next(one.hash_after for one in await listed(run) if one.name == "a.test")
        with sqlite3.connect(path) as file:
            file.execute("UPDATE contents SET packed = x'00' WHERE hash = ?", (digest,))
        changes = {one.name: one for one in await listed(run, with_groups=True)}
        assert digest in changes["a.test"].damage
        assert not changes["a.test"].HasField("group_after")
        assert changes["b.test"].group_after.group.metadata.name == "b.test"
        request = history_pb2.GetAtRequest(cluster="east", time=at(datetime.now(UTC)))
        code, text = await refused(run.stub.GetAt(request))
        assert (code, digest in text) == (grpc.StatusCode.DATA_LOSS, True)


async def test_a_watch_gets_recorded_and_later_changes(run: Remembered) -> None:
    every = (await listed(run))[::-1]
    request = history_pb2.WatchChangesRequest(after_id=every[1].id)
    call = run.stub.WatchChanges(request)
    got: list[history_pb2.HistoryChange] = []
    while len(got) < len(every) - 2:
        got += (await next_message(call)).changes.changes
    assert got == every[2:]
    run.history.clusters_changed([cluster("east", group("a.test", "Other"))], ())
    (change,) = (await next_message(call)).changes.changes
    assert change == (await listed(run))[0]
    call.cancel()


async def test_a_watch_without_an_id_begins_now_and_its_heartbeats_tell_where_to_go_on(
    run: Remembered,
) -> None:
    last = (await listed(run))[0].id
    request = history_pb2.WatchChangesRequest(
        selection=history_pb2.HistorySelection(clusters=["west"]),
        heartbeat_interval=Duration(seconds=1),
    )
    call = run.stub.WatchChanges(request)
    assert (await next_message(call)).heartbeat.after_id == last
    run.history.clusters_changed([cluster("east", group("a.test", "Other"))], ())
    await run.until_written(last + 1)
    message = await next_message(call)
    while message.heartbeat.after_id == last:
        message = await next_message(call)
    assert message.heartbeat.after_id > last  # it was not selected, and is not looked at again
    call.cancel()


async def test_a_watch_from_an_id_of_another_history_is_refused(run: Remembered) -> None:
    call = run.stub.WatchChanges(history_pb2.WatchChangesRequest(after_id=10**6))
    assert (await refusal(call.read())).code() is grpc.StatusCode.OUT_OF_RANGE


async def test_the_documents_of_an_openapi_change_are_given_back() -> None:
    texts = [b'{"openapi": "3.0.0"}', b'{"paths": "%s"}' % (b"x" * 3_000_000)]

    def recipe(text: bytes) -> Recipe:
        async def made() -> bytes:
            return text

        return Recipe(text, made, hashlib.sha512(text).hexdigest().upper())

    async def document(
        run: Remembered, change: int, side: history_pb2.HistorySide.ValueType
    ) -> bytes:
        request = history_pb2.GetOpenAPIChangeRequest(change_id=change, side=side)
        return b"".join([one.part async for one in run.stub.GetOpenAPIChange(request)])

    async with remembered() as run:
        for number, text in enumerate(texts):
            run.documents["east"] = {"apis/a.test/v1": recipe(text)}
            run.history.clusters_changed([cluster("east", group("a.test", f"K{number}"))], ())
            await run.until_written(5 + 2 * number)
        selection = history_pb2.HistorySelection(kinds=[OPENAPI], groups=["a.test"])
        newest, first = await listed(run, selection)
        assert await document(run, newest.id, history_pb2.HISTORY_SIDE_BEFORE) == texts[0]
        assert await document(run, newest.id, history_pb2.HISTORY_SIDE_AFTER) == texts[1]
        assert await document(run, first.id, history_pb2.HISTORY_SIDE_BEFORE) == b""
        error = await refusal(document(run, first.id - 1, history_pb2.HISTORY_SIDE_AFTER))
        assert error.code() is grpc.StatusCode.NOT_FOUND
