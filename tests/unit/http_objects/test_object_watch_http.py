"""Watches over HTTP: their events, their forms, and their end."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator

from apidiscovery_service.access.authenticator import OpenAccess
from apidiscovery_service.kube.objects.selectors import Selection
from apidiscovery_service.serving.http.messages import Message
from apidiscovery_service.serving.http.objects.parameters import ListParameters
from apidiscovery_service.serving.http.objects.watch import stream, timeout_s
from object_server import (
    JSON,
    LEASES,
    NAMESPACED_LEASES,
    PATH,
    PROTOBUF,
    TABLE,
    WATCH_PATH,
    ObjectServer,
    lease,
    object_server,
    storage_version,
)
from waiting import until

BOOKMARK = "BOOKMARK"


async def until_no_watcher() -> None:
    """Wait until a stream that was ended is no longer being served."""
    await until(
        lambda: not any("_pump" in repr(task) for task in asyncio.all_tasks()), "the stream ends"
    )


async def test_header_fields_come_at_once(served: ObjectServer) -> None:
    """They come before the first event."""
    async with served.watch(f"{PATH}?watch=true") as watch:
        assert watch.status == 200
        assert watch.headers["content-type"] == JSON
        assert watch.headers["transfer-encoding"] == "chunked"
        assert watch.headers["cache-control"] == "no-cache, private"


async def test_current_objects_come_first(served: ObjectServer) -> None:
    for target in (
        f"{PATH}?watch=1",
        f"{PATH}?watch",
        f"{PATH}?watch=1&resourceVersion=0",
        WATCH_PATH,
        f"{WATCH_PATH}/core.pods",
        f"{PATH}?watch=1&fieldSelector=metadata.name%3Dcore.pods",
    ):
        created = (await served.create("core.pods")).json()
        async with served.watch(target) as watch:
            assert await watch.event() == {"type": "ADDED", "object": created}, target
            await served.request("DELETE", f"{PATH}/core.pods")
            assert await watch.summary() == ("DELETED", "core.pods")


async def test_events_after_a_revision_come_in_order(served: ObjectServer) -> None:
    created = (await served.create("core.pods")).json()
    revision = created["metadata"]["resourceVersion"]  # type: ignore[index]
    await served.create("core.nodes")
    async with served.watch(f"{PATH}?watch=1&resourceVersion={revision}") as watch:
        assert await watch.summary() == ("ADDED", "core.nodes")
        patch = {"metadata": {"labels": {"a": "b"}}}
        await served.send("PATCH", f"{PATH}/core.pods", patch, "application/merge-patch+json")
        event = await watch.event()
        assert event is not None
        assert event["type"] == "MODIFIED"
        assert event["object"]["metadata"]["labels"] == {"a": "b"}


async def test_selected_objects_come_and_go(served: ObjectServer) -> None:
    """An object that begins to match is ADDED, one that matches no more is DELETED."""
    await served.create("core.pods")
    merge = "application/merge-patch+json"
    async with served.watch(f"{PATH}?watch=1&labelSelector=a%3Db") as watch:
        await served.create("core.nodes")
        for labels, told in (({"a": "b"}, "ADDED"), ({"a": "b", "c": "d"}, "MODIFIED")):
            await served.send("PATCH", f"{PATH}/core.pods", {"metadata": {"labels": labels}}, merge)
            assert await watch.summary() == (told, "core.pods")
        gone = {"metadata": {"labels": {"a": None}}}
        await served.send("PATCH", f"{PATH}/core.pods", gone, merge)
        assert await watch.summary() == ("DELETED", "core.pods")


async def test_initial_events_end_with_a_bookmark(served: ObjectServer) -> None:
    await served.create("core.pods")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with served.watch(f"{PATH}?{query}&allowWatchBookmarks=true") as watch:
        assert await watch.summary() == ("ADDED", "core.pods")
        event = await watch.event()
        assert event is not None
        assert event["type"] == BOOKMARK
        assert event["object"]["metadata"] == {
            "resourceVersion": "1",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
    none = query.replace("sendInitialEvents=true", "sendInitialEvents=false")
    async with served.watch(f"{PATH}?{none}") as watch:
        await served.create("core.nodes")
        assert await watch.summary() == ("ADDED", "core.nodes")


async def test_a_watch_ends_after_its_timeout_with_a_bookmark_if_it_allows_them(
    served: ObjectServer,
) -> None:
    await served.create("core.pods")
    started = time.monotonic()
    query = "watch=1&resourceVersion=1&timeoutSeconds=3"
    async with (
        served.watch(f"{PATH}?{query}&allowWatchBookmarks=true") as told,
        served.watch(f"{PATH}?{query}") as untold,
    ):
        event = await told.event()
        assert event is not None
        assert event["type"] == BOOKMARK
        assert event["object"]["metadata"] == {"resourceVersion": "1"}
        assert await untold.event() is None
    assert 2.9 < time.monotonic() - started < 30


def test_without_a_timeout_a_watch_ends_between_half_an_hour_and_an_hour() -> None:
    options = ListParameters(Selection())
    lasts = {timeout_s(options) for _ in range(20)}
    assert len(lasts) > 1
    assert all(1800 <= seconds <= 3600 for seconds in lasts)


async def test_a_watch_ends_when_the_server_stops(served: ObjectServer) -> None:
    """Draining does not wait for it."""
    async with served.watch(f"{PATH}?watch=1") as watch:
        await served.create("core.pods")
        assert await watch.summary() == ("ADDED", "core.pods")
        started = time.monotonic()
        served.answers.stop()
        assert await watch.event() is None
        await served.http.stop(30.0)
        assert time.monotonic() - started < 15


async def test_a_watch_ends_when_its_client_leaves(served: ObjectServer) -> None:
    async with served.watch(f"{PATH}?watch=1") as watch:
        assert watch.status == 200
    await until_no_watcher()


async def test_a_watch_from_a_forgotten_revision_ends_with_an_error() -> None:
    """The only event is an error, after which clients list again."""
    async with object_server(history=1) as served:
        for name in ("a.a", "b.b", "c.c"):
            await served.create(name)
        await served.objects.seen(3)
        async with served.watch(f"{PATH}?watch=1&resourceVersion=1") as watch:
            assert watch.status == 200
            event = await watch.event()
            assert event is not None
            assert event["type"] == "ERROR"
            assert event["object"] == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "too old resource version: 1 (2)",
                "reason": "Expired",
                "code": 410,
            }
            assert await watch.event() is None


async def test_no_events_are_queued_for_a_client_that_does_not_read() -> None:
    """When it reads again, it gets the error after which clients list again."""
    async with object_server(history=10) as served:
        stored = await served.objects.create(storage_version("core.pods"))
        async with served.watch(f"{PATH}?watch=1&resourceVersion=1") as watch:
            for number in range(1500):  # 30 MB, more than two sockets hold
                note = {"note": f"{number}{'x' * 20_000}"}
                changed = storage_version("core.pods", annotations=note)
                stored = await served.objects.replace(stored, changed)
                await asyncio.sleep(0)
            types = [str((await watch.event() or {}).get("type")) for _ in range(1000)]
            assert "ERROR" in types
            assert set(types[: types.index("ERROR")]) <= {"MODIFIED"}


async def test_a_watch_of_tables_has_column_definitions_once(served: ObjectServer) -> None:
    await served.create("core.nodes")
    await served.create("core.pods")
    async with served.watch(f"{PATH}?watch=1", ("Accept", TABLE)) as watch:
        first, second = await watch.event(), await watch.event()
        assert first is not None
        assert second is not None
        assert first["object"]["kind"] == second["object"]["kind"] == "Table"
        assert len(first["object"]["columnDefinitions"]) == 4
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][0] == "core.pods"


async def test_a_frame_of_protobuf_begins_with_its_length(served: ObjectServer) -> None:
    await served.create("core.pods")
    accept = ("Accept", f"{PROTOBUF};stream=watch")
    async with served.watch(f"{PATH}?watch=1", accept) as watch:
        assert watch.headers["content-type"] == f"{PROTOBUF};stream=watch"
        length = int.from_bytes(await watch.read(4), "big")
        event = await watch.read(length)
        assert event.startswith(b"\n\x05ADDED")
        assert b"k8s\x00" in event
        assert b"core.pods" in event


async def test_leases_are_watched(served: ObjectServer) -> None:
    await served.leases.create(lease("apiserver-a"))
    for target in (LEASES, NAMESPACED_LEASES):
        async with served.watch(f"{target}?watch=1") as watch:
            assert await watch.summary() == ("ADDED", "apiserver-a")
    elsewhere = NAMESPACED_LEASES.replace("kube-system", "default")
    async with served.watch(f"{elsewhere}?watch=1&timeoutSeconds=1") as watch:
        assert await watch.event() is None


async def test_a_watch_is_counted_when_it_begins(served: ObjectServer) -> None:
    """Its duration is no latency."""
    async with served.watch(f"{PATH}?watch=1"):
        text = served.metrics.text().decode()
    lines = [line for line in text.splitlines() if f'endpoint="{PATH}"' in line]
    assert any('code="200"' in line and line.endswith(" 1.0") for line in lines), json.dumps(lines)


async def test_the_watches_of_an_address_are_limited() -> None:
    """Callers are not identified here; a watch that has ended makes room."""
    async with object_server(OpenAccess(watches=1)) as served:
        async with served.watch(f"{PATH}?watch=1") as first:
            assert first.status == 200
            async with served.watch(f"{PATH}?watch=1") as second:
                assert second.status == 429
        await until_no_watcher()
        async with served.watch(f"{PATH}?watch=1") as third:
            assert third.status == 200


async def test_a_stream_that_is_cancelled_by_the_stop_of_the_server_ends_without_an_error() -> None:
    sent: asyncio.Queue[Message] = asyncio.Queue()

    is_closed = asyncio.Event()

    async def frames() -> AsyncGenerator[bytes]:
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            is_closed.set()

    start: Message = {"type": "http.response.start", "status": 200, "headers": []}
    serving = asyncio.create_task(stream(start, frames(), sent.put, ends=(), timeout_s=10.0))
    while (await sent.get()).get("body") != b"one":
        pass
    serving.cancel()
    await serving
    assert is_closed.is_set()
    assert sent.empty()
