"""What becomes of connections that take nothing, with limits of the test's own."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import DiscoveryService, GrpcServer
from apidiscovery_service.serving.grpc.unread import UnreadInterceptor
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, HttpServer, Site
from apidiscovery_service.serving.http.messages import body_message
from apidiscovery_service.serving.http.sending import RESERVED_BYTES, Delivery
from apidiscovery_service.serving.unread import UnreadBudget, UnreadLimits
from apidiscovery_service.sources.catalog import kubernetes_catalog
from http_server import running
from media_types import JSON_V2
from raw_http2 import END_STREAM, RawHttp2, call, get
from waiting import WITHIN_S, until

_WATCH = "/apidiscovery.service.v1.DiscoveryService/WatchDiscovery"

FEW = UnreadLimits(
    caller_bytes=40 * RESERVED_BYTES, total_bytes=50 * RESERVED_BYTES, stalled_s=60.0
)
SHORT = UnreadLimits(stalled_s=0.5)


@pytest.fixture(autouse=True)
def _every_answer_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them do is drawn by lot otherwise."""
    monkeypatch.setattr("random.random", lambda: 0.0)


@asynccontextmanager
async def serving(unread: UnreadBudget) -> AsyncGenerator[tuple[int, int]]:
    """Serve the built-in catalogue over HTTP and gRPC; give both ports."""
    registry = Registry()
    registry.publish(kubernetes_catalog())
    encoding, metrics = CurrentEncoding(registry), Metrics()
    http = HttpServer(Gateway(encoding, Site(Checks(), metrics), unread=unread), "127.0.0.1", 0)
    discovery = DiscoveryService(registry, encoding, FeatureGates(), metrics)
    grpc = GrpcServer(discovery, interceptors=[UnreadInterceptor(unread)])
    grpc_port = await grpc.start("127.0.0.1:0")
    async with running(http, grace_s=0.1):
        try:
            yield http.port, grpc_port
        finally:
            await grpc.stop(0.1)


async def fetched(port: int, source: str) -> httpx2.Response:
    transport = httpx2.AsyncHTTPTransport(local_address=source)
    async with httpx2.AsyncClient(transport=transport, timeout=WITHIN_S) as asking:
        headers = {"accept": JSON_V2, "accept-encoding": "identity"}  # small ones are never refused
        return await asking.get(f"http://127.0.0.1:{port}/apis", headers=headers)


async def until_answered(port: int, source: str) -> None:
    async def is_answered() -> bool:
        return (await fetched(port, source)).status_code == 200

    await until(is_answered, f"{source} is answered")


async def until_taken(unread: UnreadBudget, size: int) -> None:
    await until(lambda: unread.total >= size, f"{size} bytes are taken")


async def test_an_http2_connection_that_takes_nothing_is_cut() -> None:
    async with serving(UnreadBudget(SHORT)) as (port, _):
        with RawHttp2(port) as stuck:
            stuck.ask(get("/apis", ("accept", JSON_V2)), 30)
            await asyncio.wait_for(asyncio.to_thread(stuck.until_closed), WITHIN_S)
        assert (await fetched(port, "127.0.0.1")).status_code == 200


async def test_a_grpc_connection_that_takes_nothing_is_cut() -> None:
    async with serving(UnreadBudget(SHORT)) as (_, port):
        with RawHttp2(port) as stuck:
            stuck.ask(call(_WATCH), 3, b"\0" * 5)
            await asyncio.wait_for(asyncio.to_thread(stuck.until_closed), WITHIN_S)
        await assert_a_call_is_answered(port)


async def assert_a_call_is_answered(grpc_port: int) -> None:
    with RawHttp2(grpc_port, window=2**20) as good:
        stream = good.ask(call(_WATCH), 1, b"\0" * 5)
        flags, _ = await asyncio.to_thread(good.headers_of, stream)
        assert not flags & END_STREAM  # so that more follows


async def test_who_leaves_too_much_unread_is_refused_and_others_are_not() -> None:
    """Over HTTP/2 the refusal ends its stream by itself: a body would be unread like the others."""
    unread = UnreadBudget(FEW)
    async with serving(unread) as (port, _):
        stack = ExitStack()
        connections = [stack.enter_context(RawHttp2(port, source="127.0.0.2")) for _ in range(2)]
        for each in connections:
            each.ask(get("/apis", ("accept", JSON_V2)), 32)
        await until_taken(unread, FEW.caller_bytes)
        assert unread.of("address 127.0.0.2") == FEW.caller_bytes
        with RawHttp2(port, source="127.0.0.2") as more:
            stream = more.ask(get("/apis", ("accept", JSON_V2)))
            flags, _ = await asyncio.to_thread(more.headers_of, stream)
            assert flags & END_STREAM
        refused = await fetched(port, "127.0.0.2")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["reason"] == "TooManyRequests"
        assert (await fetched(port, "127.0.0.3")).status_code == 200
        stack.close()
        await until_answered(port, "127.0.0.2")


async def test_when_all_room_is_taken_the_largest_hog_is_cut_for_others() -> None:
    """Who has nothing else unread may use as much again, so many take the rest, one answer each."""
    unread = UnreadBudget(FEW)
    async with serving(unread) as (port, _):
        with ExitStack() as stack:
            sources = [f"127.0.0.{number}" for number in range(2, 71)]
            first, *others = [
                stack.enter_context(RawHttp2(port, source=source)) for source in sources
            ]
            first.ask(get("/apis", ("accept", JSON_V2)), 32)
            await until_taken(unread, 32 * RESERVED_BYTES)
            for each in others:
                each.ask(get("/apis", ("accept", JSON_V2)))
            await until_taken(unread, 2 * FEW.total_bytes)
            await until_answered(port, "127.0.0.200")
            await asyncio.wait_for(asyncio.to_thread(first.until_closed), WITHIN_S)
            for each in others:
                await asyncio.to_thread(each.until_read)
            wanted = len(others) * RESERVED_BYTES
            await until(lambda: unread.total == wanted, "what others leave unread is counted")


async def test_calls_beyond_the_room_wait_and_are_answered_when_there_is_some() -> None:
    unread = UnreadBudget(UnreadLimits(caller_bytes=1, total_bytes=1))  # one at a time
    async with serving(unread) as (_, port):
        stuck = RawHttp2(port)
        stuck.ask(call(_WATCH), 1, b"\0" * 5)
        await until_taken(unread, 1)
        with RawHttp2(port, window=2**20, source="127.0.0.3") as waiting:
            stream = waiting.ask(call(_WATCH), 1, b"\0" * 5)
            answer = asyncio.create_task(asyncio.to_thread(waiting.headers_of, stream))
            done, _ = await asyncio.wait([answer], timeout=0.3)
            assert not done
            stuck.close()
            await asyncio.wait_for(answer, WITHIN_S)


async def test_thousands_of_calls_at_once_have_nobody_elses_call_cancelled() -> None:
    """They are all there before the first one is taken: nothing is awaited meanwhile.

    Beyond 3000 grpc would cancel every new one.
    """
    async with serving(UnreadBudget()) as (_, port):
        with ExitStack() as stack:
            for number in range(4):
                many = stack.enter_context(RawHttp2(port, source=f"127.0.0.{2 + number}"))
                many.ask(call(_WATCH), 800, b"\0" * 5)
                many.until_read()
            await assert_a_call_is_answered(port)


async def test_frames_of_watches_that_nobody_reads_are_counted_and_refused() -> None:
    """Over HTTP the server has taken a frame when `send` returns."""
    unread = UnreadBudget(FEW)
    delivery, read = Delivery(unread), asyncio.Event()
    frame = body_message(bytes(FEW.caller_bytes), more=True)

    async def send(_: object) -> None:
        await read.wait()

    def sending(caller: str) -> Coroutine[Any, Any, None]:
        return delivery.send_frame(f"{caller} 1", lambda: caller, send, frame)

    unread_one = asyncio.create_task(sending("127.0.0.2"))
    await until_taken(unread, FEW.caller_bytes)
    with pytest.raises(OSError, match="unread"):
        await sending("127.0.0.2")
    read.set()
    await unread_one
    assert not unread.total
