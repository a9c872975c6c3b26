"""No order of events makes a client prefer an older answer, or hang."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace

import pytest
from apidiscovery_client._errors import NotYetServed, RequestRefused, ServerUnreachable
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client._sans_io import operations
from apidiscovery_client._sans_io.client_state import ClientState
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.model import GroupVersion, Snapshot, Stale, Subresource, Version
from either_client import waited
from scripted_client import MemoryCache, Scene
from scripted_transport import (
    NAME,
    ScriptedServer,
    ScriptedTransport,
    group,
)

WIDGETS = group("example.com", "v1")
GADGETS = group("gadgets.example.com", "v1", kinds=("Gadget",))
GIZMOS = group("gizmos.example.com", "v1", kinds=("Gizmo",))
STEPS = 40  # at most; a watch does not end


def state_of(script: ScriptedServer) -> ClientState:
    return ClientState("server", DEFAULT_OPTIONS, script.clock, has_cache=False)


def sent(steps: operations.Steps, fetched: FetchedSnapshot) -> operations.IO | None:
    """Send an answer; return the next step that does not save to the cache, or None."""
    try:
        step = steps.send(fetched)
        while isinstance(step, operations.Save):
            step = steps.send(None)
    except StopIteration:
        return None
    return step


def names(snapshot: Snapshot) -> list[str]:
    return [found.name.partition(".")[0] for found in snapshot.groups]


# --------------------------------------------------------------------------------------------------
# Pushed messages and requests.


class Buffered(ScriptedTransport):
    """Has messages that nobody has read yet."""

    def __init__(self, script: ScriptedServer) -> None:
        super().__init__(script, can_listen=True)
        self.told: asyncio.Queue[FetchedSnapshot] = asyncio.Queue()

    def tell(self) -> None:
        self.script.clock.seconds += 1
        self.told.put_nowait(self.script.answer(None, Traffic()))

    async def listen(self, fetched: FetchedSnapshot | None) -> AsyncGenerator[FetchedSnapshot]:
        del fetched
        while True:
            yield await self.told.get()


async def test_buffered_messages_do_not_replace_a_later_answer(
    script: ScriptedServer,
) -> None:
    transport = Buffered(script)
    async with AsyncDiscoveryClient(transport, clock=script.clock) as client:
        await client.snapshot()
        transport.tell()
        async with aclosing(client.watch(initial=True)) as changes:
            assert "example.com added" in str(await anext(changes))
            script.groups = (WIDGETS, GADGETS)
            transport.tell()
            script.groups = (WIDGETS, GADGETS, GIZMOS)
            transport.tell()
            assert names(await client.refresh()) == ["example", "gadgets", "gizmos"]
            told = [str(await anext(changes)) for _ in range(2)]
            assert names(await client.snapshot()) == ["example", "gadgets", "gizmos"]
            assert [line.split(".")[0] for line in told] == ["group gadgets", "group gizmos"]
            script.groups = (GIZMOS,)
            transport.tell()
            assert "removed" in str(await anext(changes))


async def test_an_answer_that_is_overtaken_by_an_older_message_is_asked_for_again(
    script: ScriptedServer,
) -> None:
    transport = Buffered(script)
    async with AsyncDiscoveryClient(transport, clock=script.clock) as client:
        await client.snapshot()
        transport.tell()
        async with aclosing(client.watch(initial=True)) as changes:
            await anext(changes)
            script.groups = (WIDGETS, GADGETS)
            transport.tell()
            script.groups = (WIDGETS, GADGETS, GIZMOS)
            script.hold()
            asked = asyncio.create_task(client.refresh())
            await script.until(lambda: script.asked == 2)
            script.clock.seconds += 1
            assert "gadgets" in str(await anext(changes))
            script.release()
            assert names(await asked) == ["example", "gadgets", "gizmos"]
            assert script.asked == 3


def test_requests_are_bounded_while_changes_come_faster_than_answers(
    script: ScriptedServer,
) -> None:
    state = state_of(script)
    steps = operations.attempt(state)
    asked = 0
    step: operations.IO | None = next(steps)
    while step is not None:
        assert isinstance(step, operations.Fetch)
        asked += 1
        answer = script.answer(step.fetched, Traffic())
        script.clock.seconds += 1
        script.groups = (group(f"n{asked}.example.com"),)
        assert state.heard(script.answer(None, Traffic()), state.fetched or answer)
        step = sent(steps, answer)
    assert asked == 3
    assert names(state.answer()) == ["n3"]


# --------------------------------------------------------------------------------------------------
# The cache.


def test_one_snapshot_at_a_time_is_written_to_the_cache(script: ScriptedServer) -> None:
    """The one with the older snapshot might be the last."""
    state = state_of(script)
    first = script.answer(None, Traffic())
    assert state.arrived(first, script.clock.monotonic())
    assert state.unsaved() is first
    script.groups = (GADGETS,)
    second = script.answer(None, Traffic())
    assert state.arrived(second, script.clock.monotonic())
    assert state.unsaved() is None
    state.saved()
    assert state.unsaved() is second


# --------------------------------------------------------------------------------------------------
# Cancelling and closing.


def test_an_interrupted_request_is_no_answer_for_others(script: ScriptedServer) -> None:
    """As by Ctrl-C in one thread, while others wait for its answer."""
    state = state_of(script)
    interrupted = operations.attempt(state)
    next(interrupted)
    number = state.attempt_for_age(60)
    assert number is not None
    assert number == state.begun
    interrupted.close()
    assert state.ended < number
    again = operations.attempt(state)
    assert isinstance(next(again), operations.Fetch)
    assert sent(again, script.answer(None, Traffic())) is None
    assert state.ended == number
    assert names(state.answer()) == ["example"]


async def _watch_some(client: AsyncDiscoveryClient) -> None:
    async with aclosing(client.watch(initial=True, interval_s=1)) as changes:
        async for _ in changes:
            pass


async def _wait(client: AsyncDiscoveryClient) -> None:
    with suppress(NotYetServed):
        await client.wait_for("nothing", timeout_s=3)


async def fail_at_once(client: AsyncDiscoveryClient) -> None:
    async for _ in client.watch(initial=True):
        raise ZeroDivisionError


async def see_that_nobody_watches(client: AsyncDiscoveryClient, script: ScriptedServer) -> None:
    """Beside a watch, a snapshot of this age would be used."""
    asked = script.asked
    script.clock.seconds += DEFAULT_OPTIONS.max_age_s + 1
    await client.snapshot()
    assert script.asked == asked + 1


Use = Callable[[AsyncDiscoveryClient], Coroutine[None, None, object]]
USES: dict[str, Use] = {
    "snapshot": lambda client: client.snapshot(max_age_s=0),
    "resolve": lambda client: client.resolve("widgets"),
    "watch": _watch_some,
    "wait_for": _wait,
}


@pytest.mark.parametrize("can_listen", [False, True], ids=["polled", "pushed"])
@pytest.mark.parametrize("use", USES)
async def test_being_cancelled_at_any_point_leaves_nothing_and_breaks_nothing(
    script: ScriptedServer, use: str, *, can_listen: bool
) -> None:
    asyncio.get_running_loop().slow_callback_duration = 60
    asyncio.get_running_loop().set_debug(enabled=True)
    for steps in range(STEPS):
        transport = ScriptedTransport(script, can_listen=can_listen)
        client = AsyncDiscoveryClient(transport, cache=MemoryCache(), clock=script.clock)
        task = asyncio.create_task(USES[use](client))
        for _ in range(steps):
            await asyncio.sleep(0)
        has_ended = not task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        script.groups = (GADGETS,) if steps % 2 else (WIDGETS,)
        assert (await client.refresh()).groups == script.groups
        await see_that_nobody_watches(client, script)
        await client.close()
        assert script.listeners == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if has_ended:
            break


class SlowToClose(ScriptedTransport):
    """Needs some steps to close."""

    is_shut = False

    async def close(self) -> None:
        await super().close()
        for _ in range(3):
            await asyncio.sleep(0)
        self.is_shut = True


async def test_closing_may_be_cancelled_and_done_again(script: ScriptedServer) -> None:
    for steps in range(STEPS):
        transport = SlowToClose(script)
        client = AsyncDiscoveryClient(transport, clock=script.clock)
        script.hold()
        asking = asyncio.create_task(client.snapshot())
        await asyncio.sleep(0)
        closing = asyncio.create_task(client.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        has_ended = not closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await client.close()
        await asyncio.gather(asking, return_exceptions=True)
        assert transport.is_shut
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if has_ended:
            break


@pytest.mark.parametrize("can_listen", [False, True], ids=["polled", "pushed"])
async def test_a_watch_that_is_forgotten_or_whose_reader_fails_ends(
    script: ScriptedServer, *, can_listen: bool
) -> None:
    transport = ScriptedTransport(script, can_listen=can_listen)
    async with AsyncDiscoveryClient(transport, clock=script.clock) as client:
        with pytest.raises(ZeroDivisionError):
            await fail_at_once(client)
        gc.collect()
        for _ in range(STEPS):
            await asyncio.sleep(0)
        assert script.listeners == 0
        await see_that_nobody_watches(client, script)


async def test_the_reason_of_an_outage_is_the_latest_failure(at: Scene) -> None:
    async with at.client() as client:
        first = await client.snapshot()
        at.script.fail(RequestRefused("who are you?", url=NAME, status=401))
        at.clock.seconds += 100
        since = at.clock.now()
        with pytest.raises(RequestRefused):
            await client.snapshot()
        at.script.fail(ServerUnreachable("away", url=NAME))
        at.clock.seconds += 100
        found = await client.snapshot()
        assert found.groups == first.groups
        assert found.freshness == Stale(since, "away", retained=True)


# --------------------------------------------------------------------------------------------------
# Waiting.


async def test_a_subresource_is_waited_for_though_it_looks_like_a_version(
    at: Scene,
) -> None:
    found = group("example.com", "v1")
    version = found.versions[0]
    scale = Subresource("scale", None, ("get",))
    with_scale = replace(version.resources[0], subresources=(scale,))
    async with at.client() as client:
        with pytest.raises(NotYetServed):
            await client.wait_for("widgets/scale", timeout_s=0.1)
        at.script.serve(replace(found, versions=(replace(version, resources=(with_scale,)),)))
        await client.wait_for("widgets/scale", timeout_s=1)


async def test_a_version_of_an_unusual_name_is_waited_for(at: Scene) -> None:
    at.script.serve(group("example.com", "2026-01"))
    async with at.client() as client:
        gv = GroupVersion("example.com", "2026-01")
        found = await waited(client, gv, timeout_s=1)
        assert isinstance(found, Version)
        assert found.gv == gv
