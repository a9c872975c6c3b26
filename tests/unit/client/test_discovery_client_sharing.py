"""Concurrent callers share one request, and closing ends all of them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing

import pytest
from apidiscovery_client._errors import ClientClosed, NotServed, ServerUnreachable
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.changes import Change
from apidiscovery_client.client import DiscoveryClient
from scripted_transport import (
    NAME,
    ScriptedServer,
    ScriptedTransport,
    SetClock,
    SyncScriptedTransport,
    group,
)

WIDGETS = group("example.com", "v1")
GADGETS = group("gadgets.example.com", "v1", kinds=("Gadget",))
MANY = 50


def async_client(script: ScriptedServer) -> AsyncDiscoveryClient:
    return AsyncDiscoveryClient(ScriptedTransport(script), clock=script.clock)


def sync_client(script: ScriptedServer) -> DiscoveryClient:
    return DiscoveryClient(SyncScriptedTransport(script), clock=script.clock)


# --------------------------------------------------------------------------------------------------
# Tasks.


async def test_many_tasks_share_one_request(script: ScriptedServer) -> None:
    async with async_client(script) as client:
        for asked, max_age_s in ((1, None), (2, 0.0), (3, 0.0)):
            found = await asyncio.gather(
                *(client.snapshot(max_age_s=max_age_s) for _ in range(MANY))
            )
            assert script.asked == asked
            assert len(set(map(id, found))) == 1


async def test_many_tasks_share_one_request_for_missing_names(script: ScriptedServer) -> None:
    async with async_client(script) as client:
        await client.snapshot()
        script.clock.seconds += 1
        names = [f"nothing{number % 5}" for number in range(MANY)]
        results = await asyncio.gather(*map(client.resolve, names), return_exceptions=True)
        assert all(isinstance(result, NotServed) for result in results)
        assert script.asked == 2


async def test_a_request_that_began_earlier_is_not_shared(script: ScriptedServer) -> None:
    """It may lack what was created since."""
    async with async_client(script) as client:
        script.hold()
        early = asyncio.create_task(client.snapshot())
        await script.until(lambda: script.asked == 1)
        script.clock.seconds += 1
        late = [asyncio.create_task(client.refresh()) for _ in range(MANY)]
        await asyncio.sleep(0)
        script.release()
        await early
        await asyncio.gather(*late)
        assert script.asked == 2


async def test_cancelling_one_does_not_take_the_answer_from_others(script: ScriptedServer) -> None:
    async with async_client(script) as client:
        script.hold()
        first, second = (asyncio.create_task(client.snapshot()) for _ in range(2))
        await script.until(lambda: script.asked == 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        script.release()
        assert (await second).groups == (WIDGETS,)
        assert script.asked == 1


async def test_an_error_is_raised_for_all_callers(script: ScriptedServer) -> None:
    script.fail(ServerUnreachable("away", url=NAME))
    async with async_client(script) as client:
        calls = (client.snapshot() for _ in range(MANY))
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, ServerUnreachable) for result in results)
        assert script.asked == 1


async def test_closing_ends_those_who_wait(script: ScriptedServer) -> None:
    client = async_client(script)
    script.hold()
    waiting = [asyncio.create_task(client.snapshot()) for _ in range(3)]
    await script.until(lambda: script.asked == 1)
    await client.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, ClientClosed) for result in results)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("can_listen", [False, True])
async def test_closing_ends_watches_and_those_who_wait_for_something(
    script: ScriptedServer, *, can_listen: bool
) -> None:
    client = AsyncDiscoveryClient(ScriptedTransport(script, can_listen=can_listen))
    await client.snapshot()

    async def read() -> int:
        async with aclosing(client.watch(interval_s=3600)) as changes:
            return len([change async for change in changes])

    reading = asyncio.create_task(read())
    waiting = asyncio.create_task(client.wait_for("nothing"))
    await script.until(lambda: script.asked >= 3)
    await asyncio.sleep(0)
    await client.close()
    assert await reading == 0
    with pytest.raises(ClientClosed):
        await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cancelled_wait_leaves_no_task(script: ScriptedServer) -> None:
    other = ScriptedServer(script.clock, WIDGETS)
    script.hold()
    other.hold()
    async with async_client(script) as client:
        waiting = asyncio.create_task(
            client.wait_for("widgets", replicas=[ScriptedTransport(other)])
        )
        await other.until(lambda: other.asked == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_waiting_ends_in_time_when_the_server_is_silent(script: ScriptedServer) -> None:
    script.hold()
    async with async_client(script) as client:
        with pytest.raises(Exception, match="no answer in time"):
            await client.wait_for("widgets", timeout_s=0.05)


# --------------------------------------------------------------------------------------------------
# Threads.


def all_at_once(calls: int, call: Callable[[], object]) -> list[Future[object]]:
    """Call it in that many threads at the same time."""
    barrier = threading.Barrier(calls)

    def start() -> object:
        barrier.wait(20)
        return call()

    with ThreadPoolExecutor(calls) as pool:
        return [pool.submit(start) for _ in range(calls)]


def test_many_threads_share_one_request(script: ScriptedServer) -> None:
    with sync_client(script) as client:
        found = all_at_once(MANY, client.snapshot)
        assert script.asked == 1
        assert len({id(one.result()) for one in found}) == 1


class NoticingClock(SetClock):
    """A clock that counts how often it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = threading.Semaphore(0)

    def monotonic(self) -> float:
        self.looks.release()
        return super().monotonic()


def test_threads_that_come_meanwhile_share_the_next_answer() -> None:
    clock = NoticingClock()
    script = ScriptedServer(clock, WIDGETS)
    with sync_client(script) as client, ThreadPoolExecutor(MANY) as pool:
        script.hold()
        early = pool.submit(client.snapshot)
        script.wait_until(lambda: script.asked == 1)
        clock.looks = threading.Semaphore(0)
        late = [pool.submit(client.refresh) for _ in range(MANY - 1)]
        for _ in late:  # each of them looks once, and knows then which answer is good enough
            assert clock.looks.acquire(timeout=20)
        script.release()
        for one in (early, *late):
            one.result(20)
        assert script.asked == 2


def test_a_miss_in_many_threads_is_asked_for_once(script: ScriptedServer) -> None:
    with sync_client(script) as client:
        client.snapshot()
        script.clock.seconds += 1
        results = all_at_once(MANY, lambda: client.resolve("nothing"))
        assert all(isinstance(result.exception(), NotServed) for result in results)
        assert script.asked == 2


def test_closing_in_another_thread_ends_those_who_wait(script: ScriptedServer) -> None:
    client = sync_client(script)
    script.hold()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(client.snapshot) for _ in range(3)]
        script.wait_until(lambda: script.asked == 1)
        client.close()
        assert all(isinstance(one.exception(20), ClientClosed) for one in waiting)


@pytest.mark.parametrize("can_listen", [False, True])
def test_closing_in_another_thread_ends_watches(
    script: ScriptedServer, *, can_listen: bool
) -> None:
    client = DiscoveryClient(SyncScriptedTransport(script, can_listen=can_listen))
    has_begun = threading.Event()

    def read() -> list[Change]:
        changes = client.watch(interval_s=3600, initial=True)
        next(changes)
        has_begun.set()
        return list(changes)

    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(read)
        assert has_begun.wait(20)
        asked = script.asked
        waiting = pool.submit(client.wait_for, "nothing")
        script.wait_until(lambda: script.asked > asked)
        client.close()
        assert reading.result(20) == []
        assert isinstance(waiting.exception(20), ClientClosed)


async def test_the_client_for_threads_works_inside_a_running_loop(script: ScriptedServer) -> None:
    with sync_client(script) as client:
        assert client.resolve("widgets").resource.kind == "Widget"
        script.serve(WIDGETS, GADGETS)
        assert client.wait_for("gadgets").resource.kind == "Gadget"
