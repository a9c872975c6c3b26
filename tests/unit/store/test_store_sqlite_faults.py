"""The store in a file: full disks, damaged files, and files without checksums."""

import asyncio
import contextlib
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_service.store import Fenced, StoreDamaged, StoreFull, StoreRefused
from apidiscovery_service.store.sqlite import SqliteStore
from small_disk import SmallDisk, small_disk

# The tables of format 1, as the releases before checksums made them.
FORMAT_1 = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE changes (revision INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL);
    CREATE TABLE entries (
        key TEXT NOT NULL UNIQUE,
        value BLOB NOT NULL,
        revision INTEGER NOT NULL,
        created INTEGER NOT NULL,
        lease INTEGER
    );
    CREATE INDEX entries_under_lease ON entries (lease) WHERE lease IS NOT NULL;
    CREATE TABLE leases (
        id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_s REAL NOT NULL, ends REAL NOT NULL
    );
    INSERT INTO changes (key) VALUES ('a'), ('b'), ('a');
    INSERT INTO entries VALUES ('b', x'62', 2, 2, NULL), ('a', x'6161', 3, 1, NULL);
    PRAGMA application_id = 0x41504944;
    PRAGMA user_version = 1;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def make_file(path: Path, content: bytes | bytearray) -> None:
    path.write_bytes(content)


async def filled(path: Path, count: int = 20) -> dict[str, bytes]:
    """Make a file and return what is in it."""
    content = {f"registrations/{n:02}": f"value {n} ".encode() * 30 for n in range(count)}
    store = await SqliteStore.open(path)
    for key, value in content.items():
        await store.put(key, value)
    await store.close()
    return content


async def refusal(store: SqliteStore) -> str:
    """Write until the disk is full, and return the error."""
    while True:
        try:
            await store.put("more", bytes(500_000))
        except StoreFull as error:
            return str(error)


async def content_of(store: SqliteStore) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in (await store.list("")).entries}


async def test_only_writes_fail_on_a_full_disk_until_there_is_room(
    disk: SmallDisk,
) -> None:
    now = 2_000_000.0
    path = disk.folder / "store.sqlite"
    store = await SqliteStore.open(path, clock=lambda: now)
    kept = await store.put("kept", b"1")
    await store.put("leased", b"2", lease=await store.lease(5))
    disk.fill()
    assert re.match(rf"no space left on device: {path}: .*; make room", await refusal(store))
    assert await store.get("kept") == kept
    # A lease that has run out cannot be removed; what is under it is gone all the same.
    now += 5
    assert await store.get("leased") is None
    assert {entry.key for entry in (await store.list("")).entries} <= {"kept", "more"}
    disk.free()
    after = (await store.list("")).revision
    await store.put("more", b"3")
    async with contextlib.aclosing(store.watch("", after - 1)) as batches:
        assert "more" in {change.key for change in (await anext(batches)).changes}
    await store.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_store_on_a_full_disk_opens_and_reads(disk: SmallDisk, how: str) -> None:
    path = disk.folder / "store.sqlite"
    content = await filled(path)
    before = await SqliteStore.open(path)
    lease = await before.lease(60)
    await before.put("leased", b"", lease=lease)
    if how == "killed":  # its log and the index of that are left beside the file
        copy = disk.folder / "killed.sqlite"
        for suffix in ("", "-wal", "-shm"):
            await asyncio.to_thread(shutil.copy, f"{path}{suffix}", f"{copy}{suffix}")
        path = copy
    await before.close()
    disk.fill()
    store = await SqliteStore.open(path, clock=lambda: 4_000_000_000.0)
    assert await content_of(store) == content
    assert "no space left on device" in await refusal(store)
    disk.free()
    await store.put("more", b"")
    other = await SqliteStore.open(path)
    assert await content_of(other) == content | {"more": b""}
    await other.close()
    await store.close()


async def test_a_new_file_on_a_full_disk_says_why_there_is_none(disk: SmallDisk) -> None:
    disk.fill()
    with pytest.raises(StoreFull, match="no space left on device"):
        await SqliteStore.open(disk.folder / "store.sqlite")


async def test_each_damaged_value_is_noticed(path: Path) -> None:
    """For each byte of a value: the file is refused, and the error names the key."""
    content = await filled(path)
    original = bytes_of(path)
    for key, value in content.items():
        place = original.index(value)
        for offset in (0, len(value) // 2, len(value) - 1):
            damaged = bytearray(original)
            damaged[place + offset] ^= 1
            make_file(path, damaged)
            with pytest.raises(StoreDamaged, match=f"'{key}' is not as it was written; restore"):
                await SqliteStore.open(path)
    make_file(path, original)
    store = await SqliteStore.open(path)
    assert await content_of(store) == content
    await store.close()


async def test_a_file_with_any_byte_damaged_is_refused_or_as_it_was(path: Path) -> None:
    content = await filled(path)
    original = bytes_of(path)
    refused = 0
    for place in range(0, len(original), 331):
        damaged = bytearray(original)
        damaged[place] ^= 0xFF
        make_file(path, damaged)
        try:
            store = await SqliteStore.open(path)
        except StoreRefused:
            refused += 1
            continue
        assert await content_of(store) == content, place
        await store.close()
    assert refused


async def test_an_entry_damaged_while_the_file_is_open_is_not_returned(path: Path) -> None:
    await filled(path, 3)
    store = await SqliteStore.open(path)
    after = (await store.list("")).revision
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE entries SET value = x'00' WHERE key = 'registrations/01'")
        connection.execute("INSERT INTO changes (key) VALUES ('registrations/01')")
    with pytest.raises(StoreDamaged):
        await store.get("registrations/01")
    with pytest.raises(StoreDamaged):
        await store.list("registrations/")
    async with contextlib.aclosing(store.watch("registrations/", after)) as batches:
        with pytest.raises(StoreDamaged):
            await anext(batches)
    assert await store.get("registrations/02") is not None
    await store.close()


def make_format_1(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORMAT_1)


async def test_a_file_without_checksums_gets_them_whoever_opens_it(path: Path) -> None:
    make_format_1(path)
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(4)))
    for store in stores:
        listing = await store.list("")
        assert [(e.key, e.value, e.revision, e.created) for e in listing.entries] == [
            ("a", b"aa", 3, 1),
            ("b", b"b", 2, 2),
        ]
        assert listing.revision == 3
        await store.close()
    damaged = bytes_of(path).replace(b"aa", b"ab")
    make_file(path, damaged)
    with pytest.raises(StoreDamaged):
        await SqliteStore.open(path)


async def test_a_file_that_an_older_server_has_open_is_not_upgraded(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apidiscovery_service.store.sqlite_opening._BUSY_TIMEOUT_S", 0.1)
    make_format_1(path)
    with contextlib.closing(sqlite3.connect(path)) as older:
        older.execute("SELECT count(*) FROM entries").fetchone()
        with pytest.raises(StoreRefused, match="in use by a server of an older release; stop that"):
            await SqliteStore.open(path)
        assert older.execute("PRAGMA user_version").fetchone() == (1,)
    await (await SqliteStore.open(path)).close()


async def test_a_lease_that_another_clock_ended_says_so(path: Path) -> None:
    now = 2_000_000.0
    store = await SqliteStore.open(path, clock=lambda: now)
    ahead = await SqliteStore.open(path, clock=lambda: now + 3600)
    lease = await store.lease(5)
    await ahead.put("a", b"")
    with pytest.raises(Fenced, match=r"the lease has ended 5\.0 s before its time.*clocks"):
        await store.put("b", b"", lease=lease)
    await store.close()
    await ahead.close()
