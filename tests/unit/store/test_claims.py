"""Claims: one holder, takeover, and no work after a claim is lost."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest
from apidiscovery_service.store import (
    Batch,
    Entry,
    Fenced,
    Guard,
    Guards,
    Lease,
    Store,
    StoreUnavailable,
)
from apidiscovery_service.store import claims as claims_module
from apidiscovery_service.store.claims import Claims, has_ended, own_holder
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.waiting import Wakeup
from store_wrapper import StoreWrapper
from structlog.testing import capture_logs
from waiting import WITHIN_S, until

Open = Callable[[], Awaitable[Store]]

# A time to live that no pause of this process exceeds.
LONG_S = 30.0


@pytest.fixture(params=["memory", "etcd"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


class Diary:
    """Records who works; at most one may at a time."""

    def __init__(self) -> None:
        self.at_work: set[str] = set()
        self.guards: dict[str, Guard] = {}
        self.begun: list[str] = []
        self.overlapped = False
        self._news = Wakeup()

    def work_of(self, who: str) -> Callable[[Guard], Awaitable[None]]:
        async def work(guard: Guard) -> None:
            self.overlapped |= bool(self.at_work)
            self.at_work.add(who)
            self.guards[who] = guard
            self.begun.append(who)
            self._news.ring()
            try:
                await asyncio.Event().wait()
            finally:
                self.at_work.discard(who)
                self._news.ring()

        return work

    async def until(self, holds: Callable[[], bool], within_s: float = 30.0) -> float:
        """Wait for something, and return how long that took."""
        started = time.monotonic()
        async with asyncio.timeout(within_s):
            await self._news.until(holds)
        return time.monotonic() - started

    async def until_begun(self, count: int) -> float:
        """Wait until work has begun for the nth time and goes on."""
        return await self.until(lambda: len(self.begun) == count and bool(self.at_work))


class Process:
    """One of several processes that share a store."""

    def __init__(self, name: str, store: Store, ttl_s: float, diary: Diary | None = None) -> None:
        self.name = name
        self.claims = Claims(store, name, ttl_s, pause_s=0.1)
        if diary is not None:
            self.claims.register("polling", diary.work_of(name))
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self.claims.run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running


@contextlib.asynccontextmanager
async def running(*processes: Process) -> AsyncGenerator[None]:
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            await process.stop()


class Cable(StoreWrapper):
    """A store that is reached over a cable, which can be pulled: calls then hang or fail."""

    def __init__(self, store: Store, *, hangs: bool) -> None:
        super().__init__(store)
        self._hangs = hangs
        self.pulled = False

    async def disturb(self, operation: str = "", key: str = "") -> None:
        del operation, key
        if self.pulled and self._hangs:
            await asyncio.Event().wait()
        if self.pulled:
            raise StoreUnavailable("the cable is pulled")

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        own = lease.lease if isinstance(lease, CabledLease) else lease
        return await super().put(key, value, expected=expected, guard=guard, lease=own)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        async with contextlib.aclosing(self.store.watch(prefix, after)) as batches:
            async for batch in batches:
                while self.pulled:  # noqa: ASYNC110 - what is pulled is a plain flag
                    await asyncio.sleep(0.01)
                yield batch

    async def lease(self, ttl_s: float) -> Lease:
        return CabledLease(await super().lease(ttl_s), self)


class CabledLease:
    """A lease at the other end of the cable."""

    def __init__(self, lease: Lease, cable: Cable) -> None:
        self.lease = lease
        self._cable = cable

    @property
    def ttl_s(self) -> float:
        return self.lease.ttl_s

    async def keep_alive(self) -> bool:
        await self._cable.disturb()
        return await self.lease.keep_alive()

    async def revoke(self) -> None:
        await self._cable.disturb()
        await self.lease.revoke()


async def three(open_another: Open, ttl_s: float, diary: Diary) -> list[Process]:
    return [Process(name, await open_another(), ttl_s, diary) for name in ("a", "b", "c")]


async def test_one_of_three_processes_holds_a_claim(open_another: Open) -> None:
    ttl_s = 4.0
    diary = Diary()
    processes = await three(open_another, ttl_s, diary)
    async with running(*processes):
        await diary.until(lambda: bool(diary.at_work))
        await asyncio.sleep(ttl_s * 1.3)
        assert len(diary.begun) == 1
        (holder,) = diary.at_work
        entry = await (await open_another()).get("claims/polling")
        assert entry is not None
        assert json.loads(entry.value)["holder"] == holder
        assert diary.guards[holder] == Guard("claims/polling", entry.created)


async def test_another_process_takes_over_at_once_after_a_clean_end(open_another: Open) -> None:
    diary = Diary()
    processes = await three(open_another, LONG_S, diary)
    async with running(*processes):
        for count in (1, 2):
            await diary.until_begun(count)
            (holder,) = [process for process in processes if process.name in diary.at_work]
            await holder.stop()
        took = await diary.until_begun(3)
        assert took < LONG_S / 2
    assert sorted(diary.begun) == ["a", "b", "c"]
    assert not diary.overlapped
    assert not diary.at_work


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_holder_without_the_store_stops_before_another_takes_over(
    open_another: Open, *, hangs: bool
) -> None:
    """As when a holder crashes: no call reaches the store."""
    ttl_s = 3.0
    diary = Diary()
    cable = Cable(await open_another(), hangs=hangs)
    first, second = (
        Process("a", cable, ttl_s, diary),
        Process("b", await open_another(), ttl_s, diary),
    )
    async with running(first):
        await diary.until(lambda: diary.at_work == {"a"})
        async with running(second):
            await asyncio.sleep(ttl_s * 0.4)  # it has renewed its lease
            cable.pulled = True
            pulled = time.monotonic()
            await diary.until(lambda: not diary.at_work)
            assert time.monotonic() - pulled < ttl_s
            await diary.until(lambda: diary.at_work == {"b"})
            assert time.monotonic() - pulled < ttl_s + 10
            store = await open_another()
            with pytest.raises(Fenced):
                await store.put("result", b"of a former holder", guard=diary.guards["a"])
            await store.put("result", b"of the holder", guard=diary.guards["b"])
            cable.pulled = False
    assert not diary.overlapped
    assert diary.begun[:2] == ["a", "b"]


async def test_a_process_competes_again_when_the_store_is_back(
    open_another: Open, ttl_s: float
) -> None:
    diary = Diary()
    cable = Cable(await open_another(), hangs=False)
    async with running(Process("a", cable, ttl_s, diary)):
        await diary.until(lambda: diary.at_work == {"a"})
        cable.pulled = True
        await diary.until(lambda: not diary.at_work)
        cable.pulled = False
        await diary.until(lambda: diary.at_work == {"a"})
    assert diary.begun[:2] == ["a", "a"]


async def test_a_claim_that_is_taken_away_ends_the_work(open_another: Open, ttl_s: float) -> None:
    diary = Diary()
    store = await open_another()
    async with running(Process("a", await open_another(), ttl_s, diary)):
        await diary.until(lambda: diary.at_work == {"a"})
        stale = diary.guards["a"]
        await store.delete("claims/polling")
        await diary.until(lambda: len(diary.begun) >= 2)
        assert diary.guards["a"] != stale
    assert not diary.overlapped


async def test_work_that_fails_begins_again_after_a_pause(open_another: Open) -> None:
    moments: list[float] = []
    again = asyncio.Event()

    async def work(guard: Guard) -> None:
        moments.append(time.monotonic())
        assert guard.key == "claims/polling"
        if len(moments) == 3:
            again.set()
            await asyncio.Event().wait()
        raise RuntimeError("the upstream said nonsense")

    process = Process("a", await open_another(), LONG_S)
    process.claims.register("polling", work)
    async with running(process), asyncio.timeout(WITHIN_S):
        await again.wait()
    assert moments[1] - moments[0] >= 0.1
    assert moments[2] - moments[1] >= 0.1


async def test_work_that_returns_is_done(open_another: Open) -> None:
    begun: list[Guard] = []

    async def work(guard: Guard) -> None:
        begun.append(guard)

    processes = [Process(name, await open_another(), LONG_S) for name in "ab"]
    for process in processes:
        process.claims.register("once", work)
    async with running(*processes):
        await until(lambda: begun)
        await asyncio.sleep(0.3)
        assert len(begun) == 1
    # The other one takes over when the first stops, but not before.
    assert len(begun) in (1, 2)
    assert len({guard.created for guard in begun}) == len(begun)


async def test_claims_come_and_go_at_run_time(open_another: Open) -> None:
    diaries = {name: Diary() for name in ("one", "two")}
    first, second = [Process(name, await open_another(), LONG_S) for name in "ab"]
    async with running(first, second):
        await asyncio.sleep(0.05)
        for name, diary in diaries.items():
            first.claims.register(name, diary.work_of("a"))
            await diary.until_begun(1)
            second.claims.register(name, diary.work_of("b"))
        with pytest.raises(ValueError, match="'one' is registered already"):
            first.claims.register("one", diaries["one"].work_of("a"))
        first.claims.unregister("one")
        assert await diaries["one"].until(lambda: diaries["one"].at_work == {"b"}) < LONG_S / 2
        assert diaries["two"].at_work == {"a"}
        first.claims.register("one", diaries["one"].work_of("a"))
        second.claims.unregister("one")
        await diaries["one"].until(lambda: diaries["one"].at_work == {"a"})
    assert not any(diary.overlapped for diary in diaries.values())


async def test_a_claim_is_held_though_the_answer_to_its_write_was_lost(
    open_another: Open, ttl_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = Diary()
    store = await open_another()
    put = store.put
    lost: list[str] = []

    async def put_and_lose(key: str, *args: bytes, **fields: object) -> object:
        entry = await put(key, *args, **fields)  # type: ignore[arg-type]  # handed on as they came
        if not lost:
            lost.append(key)
            raise StoreUnavailable("the connection broke")
        return entry

    monkeypatch.setattr(store, "put", put_and_lose)
    async with running(Process("a", store, ttl_s, diary)):
        await diary.until(lambda: diary.at_work == {"a"})
    assert lost == ["claims/polling"]


async def test_a_claim_unregistered_while_it_is_put_is_given_up(
    open_another: Open, ttl_s: float
) -> None:
    store = await open_another()
    process = Process("a", store, ttl_s)
    async with running(process):
        await asyncio.sleep(0.1)
        for _ in range(10):
            process.claims.register("polling", Diary().work_of("a"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            process.claims.unregister("polling")
        for _ in range(50):  # writes to etcd may take a while, and the lease lives on
            await asyncio.sleep(0.2)
            if await store.get("claims/polling") is None:
                return
        pytest.fail("the claim is not given up")


# Processes of this machine.

PRINT = "from apidiscovery_service.store.claims import own_holder; print(own_holder())"

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


@pytest.fixture(scope="module")
def ended_process() -> str:
    """Return the holder name of a process that has ended."""
    done = subprocess.run([sys.executable, "-c", PRINT], check=True, capture_output=True)  # noqa: S603
    return done.stdout.decode().strip()


async def put_claim(store: Store, holder: str) -> None:
    value = json.dumps({"holder": holder, "session": "1"}).encode()
    await store.put("claims/polling", value, lease=await store.lease(60))


async def test_the_claim_of_a_killed_local_process_is_taken_at_once(ended_process: str) -> None:
    store = MemoryStore()
    await put_claim(store, ended_process)
    diary = Diary()
    async with running(Process("second", store, LONG_S, diary)):
        await diary.until_begun(1)  # the lease of that claim lasts longer


@pytest.mark.parametrize("holder", [own_holder(), "somebody elsewhere"], ids=["here", "elsewhere"])
async def test_the_claim_of_a_process_that_may_be_alive_is_kept(holder: str) -> None:
    store = MemoryStore()
    await put_claim(store, holder)
    diary = Diary()
    async with running(Process("second", store, 2.0, diary)):
        with pytest.raises(TimeoutError):
            await diary.until(lambda: bool(diary.begun), within_s=0.5)


async def test_a_timeout_of_the_store_is_logged_with_a_reason() -> None:
    cable = Cable(MemoryStore(), hangs=True)
    cable.pulled = True
    with capture_logs() as logs:
        running = asyncio.create_task(Claims(cable, "one", 0.05, pause_s=0.01).run())
        await until(lambda: logs, "an entry in the log")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert logs[0]["error"] == "no answer within 0.05 s"


# The claims of all processes.


async def test_listeners_hear_of_claims_that_come_and_of_those_that_a_listing_lacks() -> None:
    store, heard = MemoryStore(), list[tuple[list[str], bool]]()
    claims = Claims(store, "one")
    claims.on_change(lambda names: heard.append(([*names], bool(claims.held_since("polling")))))
    await claims.load()
    await store.put("claims/polling", b"{}")
    await claims.load()
    await store.delete("claims/polling")
    await claims.load()
    assert heard == [([], False), (["polling"], True), (["polling"], False)]


@only_linux
async def test_a_process_that_has_ended_holds_no_claim(ended_process: str) -> None:
    store = MemoryStore()
    claims = Claims(store, "one")
    await store.put("claims/polling", json.dumps({"holder": ended_process}).encode())
    await claims.load()
    assert claims.held_since("polling") is None


async def test_the_process_of_many_claims_is_looked_up_once_after_each_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[str] = []

    def ended_after_one_look(holder: str) -> bool:
        looked_up.append(holder)
        return len(looked_up) > 1

    monkeypatch.setattr(claims_module, "has_ended", ended_after_one_look)
    store = MemoryStore()
    claims = Claims(store, "one")
    names = [f"polling/{number}" for number in range(3)]
    for name in names:
        await store.put(f"claims/{name}", json.dumps({"holder": "two"}).encode())
    await claims.load()
    assert all(claims.held_since(name) for name in names)
    await claims.load()
    assert not any(claims.held_since(name) for name in names)
    assert looked_up == ["two", "two"]


async def test_listeners_hear_of_changes_while_claims_run() -> None:
    process, heard = Process("one", MemoryStore(), 1.0, Diary()), asyncio.Queue[Sequence[str]]()
    process.claims.on_change(heard.put_nowait)
    async with running(process), asyncio.timeout(30.0):
        while "polling" not in await heard.get():
            pass


async def test_a_listener_that_fails_ends_the_run() -> None:
    def fail(_: Sequence[str]) -> None:
        raise ZeroDivisionError

    claims = Claims(MemoryStore(), "one")
    claims.on_change(fail)
    async with asyncio.timeout(30.0):
        with pytest.raises(ExceptionGroup):
            await claims.run()


# Names of processes: unique, and whether their process has ended.


def test_names_of_holders_are_unique() -> None:
    assert own_holder() != own_holder()
    assert str(os.getpid()) in own_holder().split()


@only_linux
def test_a_process_that_ended_is_gone_and_this_one_is_not(ended_process: str) -> None:
    assert has_ended(ended_process)
    assert not has_ended(own_holder())


@only_linux
def test_a_reused_process_number_is_another_process(ended_process: str) -> None:
    host, scope, _, started, token = ended_process.split()
    assert has_ended(" ".join((host, scope, str(os.getpid()), started, token)))


@only_linux
@pytest.mark.parametrize(
    "scope", ["", "another-boot/pid:[4026531836]"], ids=["unknown", "another-machine"]
)
def test_processes_of_other_machines_count_as_alive(
    scope: str, ended_process: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "_scope", lambda: scope)
    assert not has_ended(ended_process)


@pytest.mark.parametrize("text", ["", "somebody", "a b c d e", "a b 1", "a b ² d e"])
def test_other_names_count_as_alive(text: str) -> None:
    assert not has_ended(text)
