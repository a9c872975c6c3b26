"""WatchStorageVersions and WaitForAgreement: their messages, and that they leave nothing behind."""

import asyncio
import time
from collections.abc import AsyncGenerator
from functools import partial

import grpc
import grpc.aio
import pytest
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.serving.grpc import storage_version_messages, storage_versions
from apidiscovery_service.storage_versions import state
from apidiscovery_service.storage_versions.collection import Collection, Event
from grpc_server import next_message
from storage_version_server import (
    Served,
    Stub,
    WatchCall,
    ended,
    join,
    report,
    resource,
    serving,
    waiting,
    watching,
)
from waiting import WITHIN_S, until

ADDED, MODIFIED, DELETED, BOOKMARK = (
    pb.WatchStorageVersionsResponse.EVENT_TYPE_ADDED,
    pb.WatchStorageVersionsResponse.EVENT_TYPE_MODIFIED,
    pb.WatchStorageVersionsResponse.EVENT_TYPE_DELETED,
    pb.WatchStorageVersionsResponse.EVENT_TYPE_BOOKMARK,
)
DEPLOYMENTS, DAEMON_SETS = "apps.deployments", "apps.daemonsets"
STOPPED = (grpc.StatusCode.UNAVAILABLE, "the server is stopping")

# Streams must end within this time when the server stops, which gives calls twice as long.
PROMPTLY_S = WITHIN_S / 2


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture(name="stub")
async def fixture_stub(served: Served) -> AsyncGenerator[Stub]:
    async with served.stub() as stub:
        yield stub


def large_events(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Make each event so many bytes, which are no message."""

    def made(event: Event) -> bytes:
        assert event.type in EventType
        return b"x" * size

    monkeypatch.setattr(storage_version_messages, "event_bytes", made)


def summary(event: pb.WatchStorageVersionsResponse) -> tuple[int, str]:
    return event.type, event.storage_version.metadata.name


async def _messages(call: "grpc.aio.UnaryStreamCall[bytes, bytes] | WatchCall") -> int:
    """Return how many messages come before a stream ends with an error."""
    count = 0
    try:
        async for _ in call:
            count += 1
    except grpc.aio.AioRpcError:
        return count
    raise AssertionError("it ended without an error")


async def remove(served: Served, name: str) -> None:
    found = await served.state.collection.read(name)
    assert found is not None
    await served.state.collection.remove(found)


async def test_a_watch_begins_with_the_current_objects(stub: Stub) -> None:
    server = await join(stub, "a")
    await report(stub, server, deployments="v1", daemonsets="v1")
    call = watching(stub)
    begun = [await next_message(call) for _ in range(3)]
    assert [summary(event) for event in begun] == [
        (ADDED, DAEMON_SETS),
        (ADDED, DEPLOYMENTS),
        (BOOKMARK, ""),
    ]
    assert not begun[2].HasField("storage_version")
    for event in begun[:2]:
        assert event.resource_version == event.storage_version.metadata.resource_version
        assert int(event.resource_version) <= int(begun[2].resource_version)
    call.cancel()


async def test_a_watch_reports_changes_and_resumes(served: Served, stub: Stub) -> None:
    first, second = await join(stub, "a"), await join(stub, "b")
    call = watching(stub)
    bookmark = await next_message(call)
    assert bookmark.type == BOOKMARK
    await report(stub, first, deployments="v1")
    await report(stub, second, deployments="v2")
    await remove(served, DEPLOYMENTS)
    told = [await next_message(call) for _ in range(3)]
    assert [summary(event) for event in told] == [
        (ADDED, DEPLOYMENTS),
        (MODIFIED, DEPLOYMENTS),
        (DELETED, DEPLOYMENTS),
    ]
    assert len(told[2].storage_version.status.storage_versions) == 2
    call.cancel()
    revisions = [int(event.resource_version) for event in (bookmark, *told)]
    assert revisions == sorted(set(revisions))
    for after in range(3):
        again = watching(stub, after=str(revisions[after]))
        assert [await next_message(again) for _ in told[after:]] == told[after:]
        again.cancel()


async def test_a_watch_of_some_names_gets_only_their_events(served: Served, stub: Stub) -> None:
    server = await join(stub, "a")
    call = watching(stub, DEPLOYMENTS, "apps.nothing")
    assert (await next_message(call)).type == BOOKMARK
    await report(stub, server, daemonsets="v1", deployments="v1")
    await remove(served, DAEMON_SETS)
    await remove(served, DEPLOYMENTS)
    told = [summary(await next_message(call)) for _ in range(2)]
    assert told == [(ADDED, DEPLOYMENTS), (DELETED, DEPLOYMENTS)]
    call.cancel()


async def test_bookmarks_tell_a_quiet_watch_how_far_it_is(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them it could not resume after changes of what it does not watch."""
    monkeypatch.setattr(storage_versions, "_BOOKMARK_EVERY_S", 0.1)
    call = watching(stub, "apps.nothing")
    revision = int((await next_message(call)).resource_version)
    (told,) = (await report(stub, await join(stub, "a"), deployments="v1")).reported
    while revision < int(told.resource_version):
        event = await next_message(call)
        assert event.type == BOOKMARK
        revision = int(event.resource_version)
    call.cancel()


async def test_a_watch_after_a_forgotten_change_must_begin_anew(served: Served, stub: Stub) -> None:
    server = await join(stub, "a")
    start = (await report(stub, server, deployments="v1")).reported[0].resource_version
    await report(stub, server, deployments="v2")
    # A replica that starts later has no events of before.
    async with serving(store=served.store) as replica, replica.stub() as other:
        code, details = await ended(watching(other, after=start))
    assert code is grpc.StatusCode.OUT_OF_RANGE
    assert details.startswith(f"too old resource version: {start} (")


async def test_a_reader_that_is_too_slow_gets_what_was_under_way_and_must_list_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large_events(monkeypatch, 2_000_000)
    monkeypatch.setattr(state, "Collection", partial(Collection, history=16))
    path = f"/{storage_versions.SERVICE.full_name}/WatchStorageVersions"
    async with (
        serving() as served,
        served.stub() as stub,
        grpc.aio.insecure_channel(served.target) as channel,
    ):
        server = await join(stub, "a")
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        call = method(b"")
        await call.initial_metadata()
        for version in range(1, 100):
            await report(stub, server, deployments=f"v{version}")
        assert await _messages(call) < 90
        assert await call.code() is grpc.StatusCode.OUT_OF_RANGE
        await served.no_streams()


async def test_progress_of_several_objects_is_told_until_all_agree(
    served: Served, stub: Stub
) -> None:
    first, second = await join(stub, "a"), await join(stub, "b")
    call = waiting(stub, DEPLOYMENTS, DAEMON_SETS, version="apps/v2")
    told = await next_message(call)
    assert [one.name for one in told.progress] == [DEPLOYMENTS, DAEMON_SETS]
    for one in told.progress:
        assert not one.HasField("storage_version")
        assert list(one.unreported) == sorted([first, second])
    # The one that lags comes first: once the other alone has reported, all that did agree.
    await report(stub, second, deployments="v1", daemonsets="v2")
    await report(stub, first, deployments="v2", daemonsets="v2")
    deployments, daemon_sets = told.progress
    while not (deployments.agreeing and daemon_sets.agreed and len(daemon_sets.agreeing) > 1):
        told = await next_message(call)
        assert not told.done
        deployments, daemon_sets = told.progress
    assert (list(deployments.agreeing), list(deployments.lagging)) == ([first], [second])
    assert not deployments.agreed
    assert list(daemon_sets.agreeing) == sorted([first, second])
    assert not daemon_sets.unreported
    await report(stub, second, deployments="v2")
    while not told.done:
        told = await next_message(call)
    assert all(one.agreed for one in told.progress)
    assert told.progress[0].storage_version.status.common_encoding_version == "apps/v2"
    assert (await ended(call))[0] is grpc.StatusCode.OK
    assert await call.read() is grpc.aio.EOF
    await served.no_streams()


async def test_agreement_on_another_version_is_not_the_one_waited_for(stub: Stub) -> None:
    server = await join(stub, "a")
    await report(stub, server, deployments="v1")
    call = waiting(stub, DEPLOYMENTS, version="apps/v2")
    (progress,) = (await next_message(call)).progress
    assert (progress.agreed, list(progress.lagging), list(progress.agreeing)) == (
        False,
        [server],
        [],
    )
    other = waiting(stub, DEPLOYMENTS)
    assert (await next_message(other)).done
    call.cancel()


async def test_an_object_that_is_removed_meanwhile_is_waited_for_anew(
    served: Served, stub: Stub
) -> None:
    first, second = await join(stub, "a"), await join(stub, "b")
    await report(stub, first, deployments="v1")
    await report(stub, second, deployments="v2")
    call = waiting(stub, DEPLOYMENTS)
    assert not (await next_message(call)).done
    await remove(served, DEPLOYMENTS)
    (progress,) = (await next_message(call)).progress
    assert not progress.HasField("storage_version")
    assert list(progress.unreported) == sorted([first, second])
    await report(stub, second, deployments="v1")
    while not (told := await next_message(call)).done:
        pass
    assert list(told.progress[0].agreeing) == [second]


async def test_a_departure_is_progress(stub: Stub) -> None:
    """Of a server that has reported nothing, so no object changes."""
    first, second = await join(stub, "a"), await join(stub, "b")
    await report(stub, first, deployments="v1")
    call = waiting(stub, DEPLOYMENTS, version="apps/v2")
    assert list((await next_message(call)).progress[0].unreported) == [second]
    await stub.Depart(pb.DepartRequest(api_server_id=second))
    assert not (await next_message(call)).progress[0].unreported
    call.cancel()


async def test_a_caller_that_waits_and_does_not_read_gets_the_latest(
    served: Served, stub: Stub
) -> None:
    server = await join(stub, "a")
    call = waiting(stub, DEPLOYMENTS, version="apps/v9")
    await call.initial_metadata()
    for version in range(1, 10):
        await report(stub, server, deployments=f"v{version}")
    messages = [message async for message in call]
    assert messages[-1].done
    assert [message.done for message in messages[:-1]] == [False] * (len(messages) - 1)
    await served.no_streams()


async def test_200_watches_and_200_waits_are_told_soon(served: Served, stub: Stub) -> None:
    """All get the same event, and they do not delay the writer."""
    server = await join(stub, "a")
    await report(stub, server, deployments="v1")
    watches = [watching(stub) for _ in range(200)]
    waits = [waiting(stub, DEPLOYMENTS, version="apps/v2") for _ in range(200)]
    for call in watches:
        assert (await next_message(call)).type == ADDED
        assert (await next_message(call)).type == BOOKMARK
    for wait in waits:
        assert not (await next_message(wait)).done
    assert served.streams == 400
    # In processor time of all of them: the machine may be busy with others.
    begun = time.process_time()
    await report(stub, server, deployments="v2")
    wrote_s = time.process_time() - begun
    events = await asyncio.gather(*(next_message(call) for call in watches))
    assert len({event.SerializeToString(deterministic=True) for event in events}) == 1
    progresses = await asyncio.gather(*(next_message(call) for call in waits))
    assert all(progress.done for progress in progresses)
    assert wrote_s < 1.0
    assert time.process_time() - begun < 5.0
    for call in watches:
        call.cancel()
    await served.no_streams()


@pytest.mark.parametrize("pause_s", [0.0, 0.001, 0.01, 0.05])
async def test_cancelled_streams_leave_nothing_behind(
    served: Served, stub: Stub, pause_s: float
) -> None:
    """Also those that are cancelled in the middle of a message."""
    server = await join(stub, "a")
    names = {f"r{number}": "v1" for number in range(50)}
    await report(stub, server, **names)
    for _ in range(4):
        calls = [watching(stub) for _ in range(5)]
        waits = [waiting(stub, DEPLOYMENTS) for _ in range(5)]
        await asyncio.gather(*(next_message(call) for call in calls))
        await asyncio.sleep(pause_s)
        for call in calls:
            call.cancel()
        for wait in waits:
            wait.cancel()
    await served.no_streams()
    await served.counted("WatchStorageVersions", "CANCELLED", 20)
    assert (
        served.calls("WatchStorageVersions", "UNKNOWN")
        == served.calls("WatchStorageVersions", "OK")
        == 0
    )


async def test_a_deadline_ends_a_wait(served: Served, stub: Stub) -> None:
    request = pb.WaitForAgreementRequest(targets=[pb.AgreementTarget(name=DEPLOYMENTS)])
    call = stub.WaitForAgreement(request, timeout=0.3)
    assert (await ended(call))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    await served.no_streams()


async def test_streams_end_at_once_when_the_server_stops(served: Served, stub: Stub) -> None:
    calls = [watching(stub) for _ in range(20)]
    waits = [waiting(stub, DEPLOYMENTS) for _ in range(20)]
    for call in calls:
        await next_message(call)
    for wait in waits:
        await next_message(wait)
    begun = time.monotonic()
    await served.server.stop(WITHIN_S)
    assert time.monotonic() - begun < PROMPTLY_S
    assert {await ended(call) for call in calls} == {STOPPED}
    assert {await ended(wait) for wait in waits} == {STOPPED}
    await served.counted("WatchStorageVersions", "UNAVAILABLE", 20)
    await served.counted("WaitForAgreement", "UNAVAILABLE", 20)


async def test_streams_in_full_flow_end_at_once_too(served: Served, stub: Stub) -> None:
    """An interrupted message would keep the call, and with it the server, until its grace ends."""
    server = await join(stub, "a")
    resources = [
        resource(f"r{number}", "v1", *(f"v{n}" for n in range(2, 90))) for number in range(200)
    ]
    await stub.Report(pb.ReportRequest(api_server_id=server, resources=resources))

    async def read() -> tuple[grpc.StatusCode, str]:
        call = watching(stub)
        await _messages(call)
        return await ended(call)

    readers = [asyncio.create_task(read()) for _ in range(30)]
    await until(lambda: served.streams >= 30, "all streams")
    begun = time.monotonic()
    await served.server.stop(WITHIN_S)
    assert time.monotonic() - begun < PROMPTLY_S
    assert set(await asyncio.gather(*readers)) == {STOPPED}


async def test_a_caller_that_does_not_read_delays_a_stop_by_the_grace_at_most(
    served: Served, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    large_events(monkeypatch, 2_000_000)
    await report(stub, await join(stub, "a"), deployments="v1", daemonsets="v1")
    path = f"/{storage_versions.SERVICE.full_name}/WatchStorageVersions"
    async with grpc.aio.insecure_channel(served.target) as channel:
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        call = method(b"")
        await call.initial_metadata()
        begun = time.monotonic()
        await served.server.stop(0.5)
        assert time.monotonic() - begun < 0.5 + PROMPTLY_S
        await served.no_streams()
        call.cancel()


async def test_writes_of_another_replica_are_reported(served: Served, stub: Stub) -> None:
    other = Collection(served.store.store, served.state.collection.kind, "storageversions/")
    call = watching(stub)
    await next_message(call)
    await report(stub, await join(stub, "a"), deployments="v1")
    assert summary(await next_message(call)) == (ADDED, DEPLOYMENTS)
    found = await other.read(DEPLOYMENTS)
    assert found is not None
    await other.remove(found)
    assert summary(await next_message(call)) == (DELETED, DEPLOYMENTS)
    call.cancel()
