"""The guarantees of `Store`, tested with all three stores."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
from apidiscovery_service.store import (
    ABSENT,
    MAX_VALUE_BYTES,
    Batch,
    Change,
    Compacted,
    Conflict,
    Entry,
    Fenced,
    Guard,
    Store,
    StoreUnavailable,
)
from apidiscovery_service.store.memory import MemoryStore

Open = Callable[[], Awaitable[Store]]

SOON_S = 30.0


async def next_batch(batches: AsyncGenerator[Batch]) -> Batch:
    async with asyncio.timeout(SOON_S):
        return await anext(batches)


async def next_news(batches: AsyncGenerator[Batch]) -> Batch:
    """Return the next batch with changes; those without come every two seconds."""
    while not (batch := await next_batch(batches)).changes:
        pass
    return batch


async def collect(batches: AsyncGenerator[Batch], until: Callable[[Change], bool]) -> list[Change]:
    """Return all changes up to the first wanted one."""
    seen: list[Change] = []
    while not any(map(until, seen)):
        seen += (await next_batch(batches)).changes
    return seen


async def test_put_returns_the_entry_that_get_returns(store: Store) -> None:
    assert await store.get("a") is None
    assert (await store.list("")).entries == ()
    for key, value in (("a/é/\U0001f600", b"\x00\xff"), ("empty", b"")):
        entry = await store.put(key, value)
        assert entry == Entry(key, value, entry.revision, entry.revision)
        assert await store.get(key) == entry


async def test_created_stays_until_the_key_is_removed(store: Store) -> None:
    first = await store.put("a", b"1")
    second = await store.put("a", b"2")
    await store.delete("a")
    third = await store.put("a", b"3")
    assert first.created == second.created == first.revision
    assert first.revision < second.revision < third.revision == third.created


async def test_list_returns_what_begins_with_the_prefix_sorted_at_one_revision(
    store: Store,
) -> None:
    for key in ("b/2", "b/10", "b", "b0", "a/1", "b/é", "b/z"):
        last = await store.put(key, key.encode())
    listing = await store.list("b/")
    assert [entry.key for entry in listing.entries] == ["b/10", "b/2", "b/z", "b/é"]
    assert [entry.value for entry in listing.entries] == [b"b/10", b"b/2", b"b/z", "b/é".encode()]
    assert listing.revision == last.revision
    assert len((await store.list("")).entries) == 7


async def test_put_conflicts_with_an_entry_if_none_is_expected(store: Store) -> None:
    entry = await store.put("a", b"1", expected=0)
    with pytest.raises(Conflict) as caught:
        await store.put("a", b"2", expected=0)
    assert (caught.value.key, caught.value.revision) == ("a", entry.revision)
    assert await store.get("a") == entry


async def test_put_conflicts_at_another_revision_than_expected(store: Store) -> None:
    first = await store.put("a", b"1")
    second = await store.put("a", b"2", expected=first.revision)
    with pytest.raises(Conflict) as caught:
        await store.put("a", b"3", expected=first.revision)
    assert caught.value.revision == second.revision
    with pytest.raises(Conflict) as caught:
        await store.put("b", b"3", expected=first.revision)
    assert caught.value.revision == 0
    assert await store.get("b") is None


async def test_delete_returns_whether_there_was_an_entry(store: Store) -> None:
    await store.put("a", b"1")
    assert await store.delete("a") is True
    assert await store.get("a") is None
    assert await store.delete("a") is False
    assert await store.delete("a", expected=0) is False


async def test_delete_conflicts_at_another_revision_than_expected(store: Store) -> None:
    first = await store.put("a", b"1")
    second = await store.put("a", b"2")
    for expected in (0, first.revision):
        with pytest.raises(Conflict) as caught:
            await store.delete("a", expected=expected)
        assert caught.value.revision == second.revision
    with pytest.raises(Conflict) as caught:
        await store.delete("b", expected=first.revision)
    assert caught.value.revision == 0
    assert await store.delete("a", expected=second.revision) is True


async def test_compare_and_swap_loses_no_increment(open_another: Open) -> None:
    stores = [await open_another() for _ in range(4)]
    await stores[0].put("counter", b"0")

    async def increment(store: Store) -> None:
        done = 0
        while done < 10:
            entry = await store.get("counter")
            assert entry is not None
            with contextlib.suppress(Conflict):
                value = str(int(entry.value) + 1).encode()
                await store.put("counter", value, expected=entry.revision)
                done += 1

    await asyncio.gather(*map(increment, stores))
    counter = await stores[0].get("counter")
    assert counter is not None
    assert counter.value == b"40"


async def test_one_of_several_creates_of_a_key_succeeds(open_another: Open) -> None:
    stores = [await open_another() for _ in range(4)]
    outcomes = await asyncio.gather(
        *(store.put("a", b"", expected=0) for store in stores), return_exceptions=True
    )
    assert sum(isinstance(outcome, Entry) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 3


async def test_a_guard_holds_until_its_key_is_removed(store: Store) -> None:
    claim = await store.put("claim", b"me")
    guard = Guard("claim", claim.created)
    await store.put("claim", b"me again")
    entry = await store.put("a", b"1", guard=guard)
    await store.delete("claim")
    await store.put("claim", b"another")
    with pytest.raises(Fenced):
        await store.put("a", b"2", guard=guard)
    with pytest.raises(Fenced):
        await store.delete("a", guard=guard)
    assert await store.get("a") == entry


async def test_a_guard_can_require_that_a_key_is_absent(store: Store) -> None:
    gone = Guard("claim", ABSENT)
    entry = await store.put("a", b"1", guard=gone)
    await store.put("claim", b"me")
    with pytest.raises(Fenced, match="claim is there since") as fenced:
        await store.put("a", b"2", guard=gone)
    assert fenced.value.guard == gone
    with pytest.raises(Fenced):
        await store.delete("a", guard=gone)
    assert await store.get("a") == entry
    await store.delete("claim")
    assert await store.delete("a", guard=gone)


async def test_all_of_several_guards_must_hold(store: Store) -> None:
    claim = await store.put("claim", b"me")
    held, gone = Guard("claim", claim.created), Guard("other", ABSENT)
    entry = await store.put("a", b"1", guard=(held, gone))
    for broken in (
        (held, Guard("claim", ABSENT)),
        (Guard("other", 1), gone),
        (gone, Guard("x", 7)),
    ):
        with pytest.raises(Fenced):
            await store.put("a", b"2", guard=broken)
        with pytest.raises(Fenced):
            await store.delete("a", guard=broken)
    assert await store.get("a") == entry
    with pytest.raises(Conflict):
        await store.delete("a", expected=entry.revision + 1, guard=(held, gone))
    assert await store.delete("a", expected=entry.revision, guard=(held, gone))


async def test_guards_are_checked_before_the_revision(store: Store) -> None:
    await store.put("a", b"1")
    with pytest.raises(Fenced):
        await store.put("a", b"2", guard=Guard("claim", 1), expected=0)


async def test_the_largest_value_fits_and_a_larger_one_is_refused(store: Store) -> None:
    await store.put("a", bytes(MAX_VALUE_BYTES))
    with pytest.raises(ValueError, match="1048577 bytes"):
        await store.put("a", bytes(MAX_VALUE_BYTES + 1))
    assert await store.get("a") is not None


async def test_a_watch_begins_after_its_revision(store: Store) -> None:
    await store.put("a/1", b"")
    after = (await store.list("a/")).revision
    second = await store.put("a/2", b"2")
    async with contextlib.aclosing(store.watch("a/", after)) as batches:
        batch = await next_news(batches)
        assert batch == Batch((Change("a/2", second),), batch.revision)
        assert batch.revision >= second.revision


async def test_a_watch_sees_puts_and_removals_below_its_prefix_in_order(
    open_another: Open,
) -> None:
    watcher, writer = await open_another(), await open_another()
    after = (await watcher.list("")).revision
    async with contextlib.aclosing(watcher.watch("a/", after)) as batches:
        first = await writer.put("a/1", b"")
        await writer.put("b/1", b"")
        assert (await next_news(batches)).changes == (Change("a/1", first),)
        await writer.delete("a/1")
        assert (await next_news(batches)).changes == (Change("a/1", None),)


async def test_a_batch_has_a_key_once_with_its_last_change(
    store: Store,
) -> None:
    for number in range(20):
        await store.put("a/x", str(number).encode())
        await store.put(f"a/{number}", b"")
    await store.delete("a/3")
    listing = await store.list("a/")
    seen: list[Change] = []
    async with contextlib.aclosing(store.watch("a/", listing.entries[0].created - 2)) as batches:
        while not seen or seen[-1] != Change("a/3", None):
            batch = await next_batch(batches)
            keys = [change.key for change in batch.changes]
            assert len(keys) == len(set(keys))
            seen += batch.changes
    standing = {change.key: change.entry for change in seen}
    assert {key: entry for key, entry in standing.items() if entry} == {
        entry.key: entry for entry in listing.entries
    }


async def test_a_watch_loses_nothing_while_others_write(open_another: Open) -> None:
    watcher, *writers = [await open_another() for _ in range(3)]
    after = (await watcher.list("")).revision

    async def write(store: Store, name: str) -> None:
        for number in range(40):
            await store.put(f"{name}/{number}", b"")

    async with contextlib.aclosing(watcher.watch("w", after)) as batches:
        writing = asyncio.gather(write(writers[0], "w0"), write(writers[1], "w1"))
        seen: list[Change] = []
        revisions = [after]
        while len(seen) < 80:
            batch = await next_batch(batches)
            seen += batch.changes
            revisions.append(batch.revision)
        await writing
    written = [change.entry.revision for change in seen if change.entry]
    assert written == sorted(set(written))
    assert len({change.key for change in seen}) == 80
    assert revisions == sorted(set(revisions))


async def test_a_watch_yields_empty_batches_while_only_other_keys_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("memory", "sqlite", "etcd"):
        monkeypatch.setattr(f"apidiscovery_service.store.{module}.NEWS_EVERY_S", 0.3)

    async def write() -> None:
        for number in itertools.count():
            await store.put("b", str(number).encode())
            await asyncio.sleep(0.02)

    after = (await store.list("")).revision
    async with contextlib.aclosing(store.watch("a/", after)) as batches:
        writing = asyncio.create_task(write())
        assert (await next_batch(batches)).changes == ()
        writing.cancel()


async def test_a_watch_can_continue_after_the_revision_of_a_batch(store: Store) -> None:
    start = (await store.list("")).revision
    await store.put("a", b"1")
    async with contextlib.aclosing(store.watch("", start)) as batches:
        batch = await next_news(batches)
    second = await store.put("b", b"2")
    async with contextlib.aclosing(store.watch("", batch.revision)) as batches:
        assert (await next_news(batches)).changes == (Change("b", second),)


async def test_a_change_is_seen_within_100_ms_by_another_process(open_another: Open) -> None:
    watcher, writer = await open_another(), await open_another()
    after = (await watcher.list("")).revision
    took: list[float] = []
    async with contextlib.aclosing(watcher.watch("", after)) as batches:
        for number in range(20):
            reading = asyncio.create_task(next_news(batches))
            await asyncio.sleep(0.013)  # not in step with whoever looks now and then
            await writer.put(str(number), b"")
            begun = time.monotonic()
            await reading
            took.append(time.monotonic() - begun)
    assert sorted(took)[5] < 0.1  # the others may have waited for other processes


async def test_a_cancelled_watch_ends_and_others_go_on(store: Store) -> None:
    after = (await store.list("")).revision
    watches = [store.watch("", after) for _ in range(2)]
    waiting = [asyncio.create_task(next_news(watch)) for watch in watches]
    await asyncio.sleep(0.05)
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    await store.put("a", b"")
    assert (await waiting[1]).changes
    with pytest.raises(StopAsyncIteration):
        await next_batch(watches[0])
    await watches[1].aclose()


async def test_a_watch_ends_with_its_store(store: Store) -> None:
    watch = store.watch("", (await store.list("")).revision)
    waiting = asyncio.create_task(next_news(watch))
    await asyncio.sleep(0.05)
    await store.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_a_watch_after_an_unknown_revision_must_list_again(store: Store) -> None:
    revision = (await store.list("")).revision
    async with contextlib.aclosing(store.watch("", revision + 1000)) as batches:
        with pytest.raises(Compacted):
            await next_batch(batches)


async def test_a_closed_store_is_unavailable(store: Store) -> None:
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get("a")
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.put("a", b"")


async def test_an_expired_lease_removes_its_keys(open_another: Open, ttl_s: float) -> None:
    store, other = await open_another(), await open_another()
    begun = time.monotonic()
    lease = await store.lease(ttl_s)
    assert ttl_s <= lease.ttl_s <= ttl_s + 1
    await store.put("leased", b"", lease=lease)
    kept = await store.put("kept", b"")
    async with contextlib.aclosing(other.watch("", kept.revision)) as batches:
        assert (await next_news(batches)).changes == (Change("leased", None),)
        assert lease.ttl_s - 0.2 < time.monotonic() - begun < lease.ttl_s + 20
    assert await store.get("leased") is None
    assert [entry.key for entry in (await other.list("")).entries] == ["kept"]
    assert await lease.keep_alive() is False
    with pytest.raises(Fenced):
        await store.put("leased", b"", lease=lease)
    await lease.revoke()


async def test_a_renewed_lease_keeps_its_keys(store: Store, ttl_s: float) -> None:
    lease = await store.lease(ttl_s)
    await store.put("leased", b"", lease=lease)
    for _ in range(3):
        await asyncio.sleep(lease.ttl_s * 0.45)
        assert await lease.keep_alive() is True
    assert await store.get("leased") is not None


async def test_revoking_a_lease_removes_its_keys_at_once(store: Store) -> None:
    lease = await store.lease(60)
    entry = await store.put("a/1", b"", lease=lease)
    await store.put("a/2", b"", lease=lease)
    await lease.revoke()
    assert (await store.list("")).entries == ()
    await lease.revoke()
    assert await lease.keep_alive() is False
    async with contextlib.aclosing(store.watch("a/", entry.revision)) as batches:
        seen = await collect(batches, lambda change: change == Change("a/2", None))
    assert Change("a/1", None) in seen


async def test_a_key_is_under_the_lease_of_its_last_write(store: Store) -> None:
    first, second = await store.lease(60), await store.lease(60)
    await store.put("moved", b"", lease=first)
    await store.put("moved", b"", lease=second)
    await store.put("freed", b"", lease=first)
    await store.put("freed", b"")
    await first.revoke()
    assert [entry.key for entry in (await store.list("")).entries] == ["freed", "moved"]
    await second.revoke()
    assert [entry.key for entry in (await store.list("")).entries] == ["freed"]


async def test_a_recreated_key_has_no_lease(store: Store) -> None:
    lease = await store.lease(60)
    await store.put("a", b"", lease=lease)
    await store.delete("a")
    await store.put("a", b"")
    await lease.revoke()
    assert await store.get("a") is not None


async def test_a_guard_ends_with_the_lease_of_its_key(store: Store) -> None:
    lease = await store.lease(60)
    claim = await store.put("claim", b"", lease=lease)
    await lease.revoke()
    with pytest.raises(Fenced):
        await store.put("a", b"", guard=Guard("claim", claim.created))


async def test_a_lease_of_another_store_is_refused(store: Store) -> None:
    other = MemoryStore()
    lease = await other.lease(60)
    with pytest.raises(ValueError, match="another store"):
        await store.put("a", b"", lease=lease)
    await lease.revoke()


async def test_a_cancelled_call_leaves_the_store_usable(store: Store) -> None:
    calls = [asyncio.create_task(store.put(str(number), b"")) for number in range(20)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    entry = await store.put("after", b"")
    assert await store.get("after") == entry
