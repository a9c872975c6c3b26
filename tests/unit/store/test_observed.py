"""Failures and news of a store: warnings, metrics, readiness."""

from contextlib import aclosing

import pytest
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.store import (
    Conflict,
    Store,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.observed import LATE_S, ObservedStore
from store_wrapper import DisturbedStore, InterruptedStore
from store_wrapper import failing as fails
from structlog.testing import capture_logs


def samples(metrics: Metrics, name: str) -> set[str]:
    return {line for line in metrics.text().decode().splitlines() if line.startswith(name)}


async def fail(store: Store, times: int) -> None:
    for _ in range(times):
        with pytest.raises(StoreUnavailable):
            await store.put("a", b"")


async def test_failed_writes_are_a_warning_until_a_write_succeeds() -> None:
    failing, metrics = DisturbedStore(MemoryStore()), Metrics()
    store = ObservedStore(failing, metrics.store, clock=lambda: 1_800_000_000.0)
    failing.before = fails("put", "", StoreFull("no space left on device: f"))
    labels = '{operation="writing",reason="full"}'
    with capture_logs() as logs:
        for _ in range(2):
            await fail(store, 19)
            await store.get("a")
        told = (
            "store: writing fails, 38 times since 2027-01-15T08:00:00Z: no space left on device: f"
        )
        assert store.warnings() == [told]
        assert samples(metrics, "apidiscovery_store_failing{") == {
            f"apidiscovery_store_failing{labels} 1.0"
        }
        failing.before = None
        await store.put("a", b"")
        with pytest.raises(Conflict):  # an answer like any other
            await store.put("a", b"", expected=0)
    assert store.warnings() == []
    assert samples(metrics, "apidiscovery_store_failing{") == set()
    assert samples(metrics, "apidiscovery_store_failures_total{") == {
        f"apidiscovery_store_failures_total{labels} 38.0"
    }
    assert [(log["event"], log.get("error"), log.get("failures")) for log in logs] == [
        ("store: writing fails", "no space left on device: f", None),
        ("store: writing works again", None, 38),
    ]


async def test_damage_is_reported_until_a_restart() -> None:
    failing = DisturbedStore(MemoryStore())
    store = ObservedStore(failing)
    assert store.damage() is None
    failing.before = fails("get", "", StoreDamaged("f: is damaged: 'a'"))
    with pytest.raises(StoreDamaged):
        await store.get("a")
    failing.before = None
    await store.get("b")
    assert store.damage() == "f: is damaged: 'a'"
    assert store.warnings() == ["store: damaged: f: is damaged: 'a'"]


async def test_the_age_of_the_news_grows_while_the_store_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("apidiscovery_service.store.observed.time.monotonic", lambda: now)
    failing, metrics = InterruptedStore(MemoryStore()), Metrics()
    store = ObservedStore(failing, metrics.store)
    await store.put("a/1", b"")
    async with aclosing(store.watch("a/", 0)) as batches:
        await anext(batches)
        now += 3
        assert store.news_age_s() == 3
        await store.put("a/2", b"")
        await anext(batches)
        assert store.news_age_s() == 0
    # Its follower cannot begin anew.
    failing.away = True
    now += LATE_S + 1
    with pytest.raises(StoreUnavailable):
        await anext(store.watch("a/", 0))
    assert samples(metrics, "apidiscovery_store_news_age") == {
        "apidiscovery_store_news_age_seconds 6.0"
    }
    assert [line.partition(":")[2] for line in store.warnings()][1:] == [
        " no news for 6 s: what was written since then may not be served"
    ]
    failing.away = False
    await store.list("a/")
    assert store.news_age_s() == 0
