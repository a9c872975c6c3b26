"""Listening over gRPC: changes, silence, outages, and how it ends."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import grpc
import pytest
from apidiscovery.service.v1 import discovery_pb2 as pb
from apidiscovery.v2beta1 import discovery_pb2 as v2beta1
from apidiscovery_client._errors import ServerUnreachable, UnexpectedDocument
from apidiscovery_client._grpc import calls
from apidiscovery_client._grpc.calls import CallRefused
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client.model import CURRENT, Stale
from grpc_fakes import End
from grpc_transports import Driven, Listener, opened
from programs import free_port
from scripted_discovery import Hang, Scripted, changed, changes, group, heartbeat, scripted, whole
from waiting import WITHIN_S, until

pytestmark = pytest.mark.usefixtures("short_pauses")
every_library = pytest.mark.parametrize("family", ["grpcio", "betterproto", "sync-grpcio"])

PODS, APPS, BATCH = group("", "pods"), group("apps", "deployments"), group("batch", "jobs")
ALL = changes(changed(PODS, 0), changed(APPS, 0), changed(BATCH, 1))
NOTHING = changes()
UNAVAILABLE = End(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
FINAL = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
)


def names(held: FetchedSnapshot) -> list[str]:
    return [found.name for found in held.snapshot.groups]


def known(script: Scripted) -> list[dict[str, str]]:
    """Return the hashes with which each watch began."""
    return [dict(request.known_groups.hashes) for request in script.requests("WatchDiscovery")]


async def test_the_first_message_has_everything_without_a_snapshot(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.append([ALL, Hang()])
        async with client.listening() as listener:
            held = await listener.next()
        [request] = script.requests("WatchDiscovery")
    assert names(held) == ["", "apps", "batch"]
    assert held.hashes == {"": "2", "apps": "2", "batch": "2"}
    assert (held.etags, held.snapshot.freshness) == ({"": "F"}, CURRENT)
    assert (list(request.accept_versions), request.scope) == ([1, 2], pb.DISCOVERY_SCOPE_ALL)
    assert request.heartbeat_interval.ToNanoseconds() == 30_000_000_000
    assert not request.known_groups.hashes


@every_library
async def test_each_message_is_told_and_heartbeats_leave_the_groups_as_they_are(
    family: str,
) -> None:
    more = changed(group("apps", "deployments", "replicasets"), 0, "3")
    script = Scripted()
    script.watches.append([ALL, heartbeat(), changes(more, removed=["batch"], etag="G"), Hang()])
    async with (
        scripted(script),
        opened(family, script.address) as client,
        client.listening() as listener,
    ):
        first, second, third = [await listener.next() for _ in range(3)]
    assert second.snapshot.groups is first.snapshot.groups
    assert second.snapshot.checked_at > first.snapshot.checked_at
    assert third.hashes == {"": "2", "apps": "3"}
    assert third.etags == {"": "G"}
    assert third.snapshot.groups[0] is first.snapshot.groups[0]
    assert [found.name for found in third.snapshot.groups[1].versions[0].resources] == [
        "deployments",
        "replicasets",
    ]
    assert client.traffic.requests == 1


async def test_a_watch_begins_with_the_hashes_of_the_snapshot(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(PODS, APPS))
        script.watches.append([NOTHING, Hang()])
        fetched = await client.fetch()
        async with client.listening(fetched) as listener:
            held = await listener.next()
        assert known(script) == [fetched.hashes]
    assert held.snapshot.groups is fetched.snapshot.groups


async def test_groups_in_v2beta1_are_read(family: str) -> None:
    beta = v2beta1.APIGroupDiscovery.FromString(APPS.SerializeToString())
    change = pb.ChangedGroup(name="apps", hash="2", v2beta1=beta)
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.append([changes(change), Hang()])
        async with client.listening() as listener:
            held = await listener.next()
    assert held.snapshot.groups[0].versions[0].resources[0].name == "deployments"


async def test_a_stale_version_is_explained_by_its_source(family: str) -> None:
    source = pb.DiscoverySource(name="upstream:east", error="refused")
    source.group_versions.add(group="apps", version="v1")
    stale = changes(changed(group("apps", "deployments", freshness="Stale"), 0))
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.append([stale, heartbeat(), Hang()])
        script.sources.append(pb.ListSourcesResponse(sources=[source]))
        async with client.listening() as listener:
            first, second = await listener.next(), await listener.next()
        assert len(script.requests("ListSources")) == 1
    freshness = first.snapshot.groups[0].versions[0].freshness
    assert isinstance(freshness, Stale)
    assert freshness.reason == "upstream:east: refused"
    assert second.snapshot.groups is first.snapshot.groups


@every_library
@pytest.mark.parametrize("end", [[UNAVAILABLE], [], [End(grpc.StatusCode.INTERNAL, "oh")]])
async def test_a_watch_that_ends_is_resumed_with_the_latest_hashes(
    family: str, end: list[End]
) -> None:
    gone = changes(removed=["batch"], etag="G")
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.extend([[ALL, *end], [gone, Hang()]])
        async with client.listening() as listener:
            first, second = await listener.next(), await listener.next()
        assert known(script) == [{}, {"": "2", "apps": "2", "batch": "2"}]
    assert names(second) == ["", "apps"]
    assert second.snapshot.groups[1] is first.snapshot.groups[1]


@pytest.mark.parametrize("code", FINAL)
async def test_a_refusal_that_waiting_does_not_resolve_is_raised(
    family: str, code: grpc.StatusCode
) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.append([ALL, End(code, "never")])
        async with client.listening() as listener:
            await listener.next()
            with pytest.raises(CallRefused, match="never") as caught:
                await listener.next()
        assert len(known(script)) == 1
    assert caught.value.code == code


@every_library
async def test_a_message_that_is_too_large_is_raised(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("_grpc.calls", "transports.async_betterproto"):
        monkeypatch.setattr(f"apidiscovery_client.{module}.MAX_ANSWER_BYTES", 1000)
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.append([ALL, changes(changed(group("x" * 2000), 0))])
        async with client.listening() as listener:
            await listener.next()
            with pytest.raises(CallRefused, match="larger than max"):
                await listener.next()


@pytest.mark.parametrize(
    "wrong",
    [changes(changed(APPS, 9)), changes(removed=["nobody"]), heartbeat("another")],
    ids=["position", "removed", "etag"],
)
async def test_after_an_inconsistent_message_the_watch_begins_anew(
    family: str, wrong: pb.WatchDiscoveryResponse
) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.extend([[ALL, wrong], [ALL, Hang()]])
        async with client.listening() as listener:
            first, second = await listener.next(), await listener.next()
        assert known(script) == [{}, {}]
    assert second.snapshot.groups is first.snapshot.groups


async def test_a_second_inconsistent_message_is_raised(family: str) -> None:
    wrong = changes(changed(APPS, 9))
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.extend([[ALL, wrong], [wrong]])
        async with client.listening() as listener:
            await listener.next()
            with pytest.raises(UnexpectedDocument, match="at position 9 of 0"):
                await listener.next()
        assert len(known(script)) == 2


@pytest.mark.parametrize(
    "empty",
    [
        b"",
        pb.WatchDiscoveryResponse(changes=pb.WatchDiscoveryResponse.Changes(etag="F")),
        b"\xa2\x06\x00",
    ],
)
async def test_a_message_without_an_event_is_an_error(
    family: str, empty: pb.WatchDiscoveryResponse | bytes
) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.append([empty])
        async with client.listening() as listener:
            with pytest.raises(UnexpectedDocument, match="has no event"):
                await listener.next()


@every_library
async def test_silence_of_two_heartbeats_is_taken_for_a_dead_connection(family: str) -> None:
    script = Scripted()
    script.watches.extend([[ALL, Hang()], [NOTHING, Hang()]])
    async with scripted(script), opened(family, script.address, heartbeat_s=1.0) as client:
        async with client.listening() as listener:
            first, second = await listener.next(), await listener.next()
        async with asyncio.timeout(WITHIN_S):
            await script.gone.wait()
        assert known(script)[1] == first.hashes
    assert second.snapshot.groups is first.snapshot.groups
    took = second.snapshot.checked_at - first.snapshot.checked_at
    assert took.total_seconds() > 1.9


@every_library
async def test_a_reader_that_takes_its_time_is_no_silence(family: str) -> None:
    script = Scripted()
    script.watches.append([ALL, heartbeat(), Hang()])
    async with scripted(script), opened(family, script.address, heartbeat_s=0.75) as client:
        async with client.listening() as listener:
            await listener.next()
            await asyncio.sleep(2.0)  # longer than a connection may be silent
            await listener.next()
        assert len(known(script)) == 1


@every_library
async def test_an_outage_is_told_once_and_so_is_its_end(family: str) -> None:
    script = Scripted()
    script.watches.extend([[ALL, Hang()], [NOTHING, Hang()]])
    port = free_port()
    async with (
        opened(family, f"127.0.0.1:{port}", unreachable_s=0.2) as client,
        client.listening() as listener,
    ):
        async with scripted(script, port):
            first = await listener.next()
        stale = await listener.next()
        again = asyncio.create_task(listener.next())
        async with scripted(script, port):
            current = await again
    assert stale.snapshot.groups is current.snapshot.groups is first.snapshot.groups
    assert isinstance(stale.snapshot.freshness, Stale)
    assert script.address in stale.snapshot.freshness.reason
    assert stale.snapshot.checked_at == first.snapshot.checked_at < stale.snapshot.freshness.since
    assert current.snapshot.freshness == CURRENT
    assert known(script)[1] == first.hashes


@every_library
async def test_a_server_that_was_silent_and_stays_away_is_told_at_once(family: str) -> None:
    script = Scripted()
    script.watches.append([ALL, Hang()])
    options = {"heartbeat_s": 1.0, "unreachable_s": 0.2}
    async with (
        scripted(script),
        opened(family, script.address, **options) as client,
        client.listening() as listener,
    ):
        first, stale = await listener.next(), await listener.next()
    assert isinstance(stale.snapshot.freshness, Stale)
    assert "no answer within 2 s" in stale.snapshot.freshness.reason
    assert stale.snapshot.groups is first.snapshot.groups


@every_library
async def test_an_unreachable_server_is_an_error_without_a_snapshot(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "RETRY_WAITS_S", (0.0, 0.01))
    address = f"127.0.0.1:{free_port()}"
    async with opened(family, address) as client, client.listening() as listener:
        with pytest.raises(ServerUnreachable, match=address):
            await listener.next()


@every_library
async def test_a_server_that_is_back_soon_is_waited_for_without_a_snapshot(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.extend([[UNAVAILABLE], [ALL, Hang()]])
        async with client.listening() as listener:
            assert names(await listener.next()) == ["", "apps", "batch"]


async def _closed_by_reader(_: Driven, listener: Listener) -> None:
    await listener.close()
    with pytest.raises(StopAsyncIteration):
        await listener.next()


async def _closed_while_reading(client: Driven, listener: Listener) -> None:
    reading = asyncio.create_task(listener.next())
    await asyncio.sleep(0.02)  # so that it mostly waits by now; it must end in any case
    await client.close()
    with pytest.raises(StopAsyncIteration):
        await reading


@every_library
@pytest.mark.parametrize("end", [_closed_by_reader, _closed_while_reading])
async def test_closing_cancels_the_call_and_leaves_nothing_running(
    family: str, end: Callable[[Driven, Listener], Awaitable[None]]
) -> None:
    async with scripted() as script:
        threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
        async with opened(family, script.address) as client:
            script.watches.append([ALL, Hang()])
            listener = Listener(client.transport, None)
            await listener.next()
            await end(client, listener)
            async with asyncio.timeout(WITHIN_S):
                await script.gone.wait()
        await until(lambda: not _ours(tasks))
        await until(lambda: not [t for t in threading.enumerate() if _is_left(t, threads)])


def _ours(before: set[asyncio.Task[None]]) -> list[asyncio.Task[None]]:
    """Return tasks that are new and not those of the server."""
    new = asyncio.all_tasks() - before
    return [task for task in new if "AioServer" not in repr(task)]


def _is_left(thread: threading.Thread, before: set[threading.Thread]) -> bool:
    """Whether a thread is new, and not one in which the test itself waits."""
    return thread not in before and not thread.name.startswith("asyncio_")


@every_library
async def test_cancelling_the_reader_ends_the_call(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.watches.append([ALL, Hang()])
        listener = Listener(client.transport, None)
        await listener.next()
        reading = asyncio.create_task(listener.next())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        if family.startswith("sync"):  # a thread that reads is not cancelled with who waits for it
            await client.close()
        async with asyncio.timeout(WITHIN_S):
            await script.gone.wait()
