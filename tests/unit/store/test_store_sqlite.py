"""The store in a file: the file, other processes, kill -9, full disks."""

import asyncio
import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path

import pytest
from apidiscovery_service.store import (
    Change,
    Compacted,
    Store,
    StoreRefused,
    StoreUnavailable,
)
from apidiscovery_service.store.sqlite import SqliteStore
from apidiscovery_service.store.sqlite_opening import SCHEMA_VERSION
from repository import ROOT
from waiting import WITHIN_S, until

# Writes for ever, and says what was acknowledged.
WRITER = """
import asyncio, sys
from pathlib import Path
from apidiscovery_service.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    number = 0
    while True:
        entry = await store.put(f"{sys.argv[2]}/{number}", b"x" * 3000)
        print(entry.revision, entry.key, flush=True)
        number += 1

asyncio.run(main())
"""

# Says what opening a file comes to for a user who owns nothing. Root may do everything.
OPENER = """
import asyncio, os, sys
from pathlib import Path
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store.sqlite import SqliteStore

if os.geteuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(SqliteStore.open(Path(sys.argv[1])))
except DiscoveryError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.sqlite"


def make_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


async def fill(path: Path, count: int = 3) -> None:
    store = await SqliteStore.open(path)
    for number in range(count):
        await store.put(str(number), bytes(4000))
    await store.close()


async def test_file_and_folder_are_for_their_user_alone(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.put("a", b"")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("store.sqlite", "store.sqlite-wal", "store.sqlite-shm"), 0o600)
    await store.close()


async def test_content_and_revisions_survive_a_restart(path: Path) -> None:
    store = await SqliteStore.open(path)
    kept = await store.put("a", b"1")
    gone = await store.put("b", b"2")
    await store.delete("b")
    await store.close()
    again = await SqliteStore.open(path)
    assert (await again.list("")).entries == (kept,)
    assert (await again.put("c", b"")).revision > gone.revision + 1
    await again.close()


def start_writer(path: Path, name: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(path), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own arguments


def read_acknowledged(process: "subprocess.Popen[str]", count: int) -> list[str]:
    """Kill a writer while it writes, and return its acknowledged writes."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(count)]
    process.kill()
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return [line for line in lines if line.endswith("\n")]


async def test_writes_that_were_acknowledged_before_kill_9_are_there(path: Path) -> None:
    counts = {"a": 120, "b": 150}
    writers = [(start_writer(path, name), count) for name, count in counts.items()]
    told = [line for writer, count in writers for line in read_acknowledged(writer, count)]
    assert len(told) >= sum(counts.values())
    store = await SqliteStore.open(path)
    standing = {f"{entry.revision} {entry.key}\n" for entry in (await store.list("")).entries}
    assert standing.issuperset(told)
    await store.close()


async def test_servers_that_start_at_once_make_one_file(path: Path) -> None:
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
    for number, store in enumerate(stores):
        await store.put(str(number), b"")
    assert len((await stores[0].list("")).entries) == 8
    for store in stores:
        await store.close()
    assert [file.name for file in path.parent.iterdir()] == ["store.sqlite"]


async def test_200_writes_take_seconds(path: Path) -> None:
    store = await SqliteStore.open(path)
    begun = time.monotonic()
    for number in range(200):
        await store.put(f"registrations/crds/{number}", bytes(3000))
    # 0.1 s on a disk that syncs in 0.2 ms; a disk that takes 5 ms needs 1 s.
    assert time.monotonic() - begun < 15
    await store.close()


async def is_no_database(path: Path) -> None:
    make_file(path, b"registrations:\n" * 1000)


async def is_empty(path: Path) -> None:
    make_file(path, b"")


async def is_damaged(path: Path) -> None:
    await fill(path, 50)
    content = bytearray(content_of(path))
    content[8192 : len(content) // 2] = os.urandom(len(content) // 2 - 8192)
    make_file(path, bytes(content))


async def is_truncated(path: Path) -> None:
    await fill(path, 50)
    os.truncate(path, len(content_of(path)) // 2)


async def is_of_a_newer_release(path: Path) -> None:
    await fill(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


async def is_of_another_program(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (is_no_database, "no SQLite database: .*; .* move the file away"),
        (is_empty, "is empty"),
        (is_damaged, "damaged.*; restore a backup"),
        (is_truncated, "damaged"),
        (is_of_a_newer_release, "has format 3, this release reads 2; run the release that wrote"),
        (is_of_another_program, r"of another program \(application_id 0x0, wanted 0x41504944\)"),
    ],
)
async def test_a_file_that_is_not_a_sound_store_is_refused_and_left_as_it_was(
    path: Path, make: Callable[[Path], Awaitable[None]], message: str
) -> None:
    await make(path)
    before = content_of(path)
    with pytest.raises(StoreRefused, match=rf"(?s){path}.*{message}"):
        await SqliteStore.open(path)
    assert content_of(path) == before


async def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="is not a file"):
        await SqliteStore.open(tmp_path)


async def test_a_folder_that_takes_no_files_is_refused() -> None:
    with pytest.raises(StoreRefused, match=r"/proc/.*cannot be made: .*; let the user of this"):
        await SqliteStore.open(Path("/proc/apidiscovery/store.sqlite"))


@pytest.fixture
def foreign_folder() -> Iterator[Path]:
    """Return a folder that every user may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def open_without_rights(path: Path, mode: int) -> str:
    """Open a file as a user without rights, and return the error."""
    path.chmod(mode)
    path.parent.chmod(0o555)
    opener = [sys.executable, "-c", OPENER, str(path)]
    return subprocess.run(  # noqa: S603 - our own arguments
        opener, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("mode", [0o444, 0o000])
async def test_a_file_that_may_not_be_written_or_read_is_refused(
    foreign_folder: Path, mode: int
) -> None:
    path = foreign_folder / "store.sqlite"
    await fill(path)
    told = open_without_rights(path, mode)
    assert told.startswith(f"StoreRefused {path}: ")
    assert "let the user of this process write the file and its folder" in told


async def test_a_file_that_was_removed_while_open_takes_no_writes(path: Path) -> None:
    store = await SqliteStore.open(path)
    await asyncio.to_thread(path.unlink)
    with pytest.raises(StoreRefused, match="removed or replaced while in use"):
        await store.put("a", b"")
    await store.close()


@contextlib.contextmanager
def files_limited_to(size: int) -> Generator[None]:
    """Let no file of this process grow above a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_write_that_the_disk_does_not_take_is_not_acknowledged_and_harms_nothing(
    path: Path,
) -> None:
    store = await SqliteStore.open(path)
    entry = await store.put("a", b"1")
    with files_limited_to(200_000):
        with pytest.raises(StoreUnavailable, match=r"store\.sqlite: disk I/O error"):
            await store.put("b", bytes(500_000))
        assert await store.get("b") is None
        assert await store.get("a") == entry
    await store.put("b", b"2")
    await store.close()
    again = await SqliteStore.open(path)
    assert [entry.value for entry in (await again.list("")).entries] == [b"1", b"2"]
    await again.close()


async def test_a_long_lock_of_another_program_makes_the_store_unavailable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apidiscovery_service.store.sqlite_opening._BUSY_TIMEOUT_S", 0.1)
    store = await SqliteStore.open(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.put("a", b"")
        connection.execute("ROLLBACK")
    await store.put("a", b"")
    await store.close()


async def first(store: Store, after: int) -> tuple[Change, ...]:
    async with contextlib.aclosing(store.watch("", after)) as batches, asyncio.timeout(WITHIN_S):
        return (await anext(batches)).changes


async def test_changes_beyond_the_history_are_forgotten(path: Path) -> None:
    store = await SqliteStore.open(path, history=10)
    start = (await store.list("")).revision
    for number in range(12):
        await store.put(str(number), b"")
    with pytest.raises(Compacted, match="revision 0 is not within 2 and 12"):
        await first(store, start)
    assert len(await first(store, start + 2)) == 10
    await store.close()


async def test_a_clock_set_back_does_not_prolong_leases(path: Path) -> None:
    now = 2_000_000.0
    store = await SqliteStore.open(path, clock=lambda: now)
    lease = await store.lease(5)
    await store.put("a", b"", lease=lease)
    now -= 86_400
    await store.put("b", b"")
    now += 5
    assert await store.get("a") is None
    await store.close()


async def test_a_lease_ends_though_its_process_is_gone(path: Path) -> None:
    now = 2_000_000.0
    store = await SqliteStore.open(path, clock=lambda: now)
    await store.put("a", b"", lease=await store.lease(5))
    await store.close()
    again = await SqliteStore.open(path, clock=lambda: now + 5)
    assert await again.get("a") is None
    await again.close()


def backup(command: str, path: Path, copy: Path) -> None:
    """Run a line of docs/store.md."""
    line = command.replace("STORE", str(path)).replace("BACKUP", str(copy))
    line = line.replace("python3", sys.executable, 1)
    subprocess.run(["/bin/sh", "-ec", line], check=True)  # noqa: S603 - a line of our own


def documented_commands() -> list[str]:
    text = ROOT.joinpath("docs", "store.md").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("python3 ") and "STORE" in line]


async def test_a_documented_backup_of_a_store_in_use_restores(path: Path, tmp_path: Path) -> None:
    (command,) = documented_commands()
    copy, restored = tmp_path / "backup.sqlite", tmp_path / "restored" / "store.sqlite"
    store = await SqliteStore.open(path)
    for number in range(100):
        await store.put(str(number), bytes(2000))
    await store.delete("7")
    listing = await store.list("")
    await asyncio.to_thread(backup, command, path, copy)
    await store.put("later", b"")
    await store.close()

    restored.parent.mkdir()
    shutil.copy(copy, restored)
    again = await SqliteStore.open(restored)
    assert await again.list("") == listing
    assert (await again.put("new", b"")).revision > listing.revision
    with pytest.raises(Compacted):
        await first(again, listing.revision + 10)
    await again.close()


async def test_servers_that_start_at_once_on_a_backup_all_start(path: Path, tmp_path: Path) -> None:
    (command,) = documented_commands()
    await fill(path)
    copy = tmp_path / "backup.sqlite"
    await asyncio.to_thread(backup, command, path, copy)
    stores = await asyncio.gather(*(SqliteStore.open(copy) for _ in range(8)))
    for number, store in enumerate(stores):
        await store.put(str(number), b"")
    written = dict.fromkeys(map(str, range(len(stores))), b"")
    for store in stores:
        listing = await store.list("")
        assert {entry.key: entry.value for entry in listing.entries} == written
    for store in stores:
        await store.close()


async def test_own_writes_and_those_of_others_arrive_in_order_and_once(path: Path) -> None:
    store, other = await SqliteStore.open(path), await SqliteStore.open(path)
    seen: list[tuple[str, int]] = []

    async def watch() -> None:
        async with contextlib.aclosing(store.watch("a/", 0)) as batches:
            async for batch in batches:
                seen.extend((c.key, c.entry.revision) for c in batch.changes if c.entry)

    watching = asyncio.create_task(watch())
    latest: dict[str, int] = {}
    for place in range(60):
        writer = other if place % 7 == 3 else store
        await writer.put("b", b"beside")
        entry = await writer.put(f"a/{place % 5}", str(place).encode())
        latest[entry.key] = entry.revision
    await until(lambda: dict(seen) == latest, "the watch has told of every entry")
    watching.cancel()
    revisions = [revision for _, revision in seen]
    assert revisions == sorted(set(revisions))
    await store.close()
    await other.close()
