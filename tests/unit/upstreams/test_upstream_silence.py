"""A process without news from its store serves upstreams as stale."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from apidiscovery_service.store import Batch, Entry, Listing, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from fake_api_server import FakeApiServer, aggregated
from upstream_setup import Running, item, running, spec_of
from waiting import until

_GOOD = {"/apis": aggregated(item("a.test"))}


class _Link(MemoryStore):
    """A connection to a store that can be cut: then reads fail and watches are silent."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store
        self.whole = asyncio.Event()
        self.whole.set()

    async def get(self, key: str) -> Entry | None:
        self._refuse_if_cut()
        return await self._store.get(key)

    async def list(self, prefix: str) -> Listing:
        self._refuse_if_cut()
        return await self._store.list(prefix)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        async for batch in self._store.watch(prefix, after):
            await self.whole.wait()
            yield batch

    def _refuse_if_cut(self) -> None:
        if not self.whole.is_set():
            raise StoreUnavailable("the store cannot be reached")


async def _is_current(run: Running) -> None:
    await until(lambda: (run.state(), run.freshness("a.test")) == ("Current", "Current"), "current")


@pytest.fixture(autouse=True)
def _frequent_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apidiscovery_service.store.memory.NEWS_EVERY_S", 0.05)


async def test_upstreams_are_stale_in_a_process_without_the_store() -> None:
    store = MemoryStore()
    link = _Link(store)
    async with FakeApiServer(_GOOD) as server:
        spec = spec_of(server.url)
        async with (
            running(store, spec),
            running(link, spec_of(server.url), polls=False, silence_s=0.5) as cut_off,
        ):
            await _is_current(cut_off)
            link.whole.clear()
            server.answers = {}
            await until(lambda: cut_off.state() == "Stale", "it says so")
            assert cut_off.freshness("a.test") == "Stale"
            assert cut_off.error() == "last known; the store has sent nothing since"
            assert cut_off.error() in cut_off.upstreams.warnings()[0]
            server.answers = _GOOD
            link.whole.set()
            await _is_current(cut_off)


async def test_a_short_silence_of_the_store_changes_nothing() -> None:
    store = MemoryStore()
    link = _Link(store)
    async with (
        FakeApiServer(_GOOD) as server,
        running(store, spec_of(server.url)),
        running(link, spec_of(server.url), polls=False, silence_s=30) as cut_off,
    ):
        await _is_current(cut_off)
        link.whole.clear()
        asked = server.paths.count("/apis") + 5
        await until(lambda: server.paths.count("/apis") >= asked, "some polls")
        assert (cut_off.state(), cut_off.error()) == ("Current", "")
