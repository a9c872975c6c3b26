"""Several processes and threads use one cache, and some are killed while they write."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import cache_writer
import pytest
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client.cache import DiskCache, key
from cache_writer import held_with
from snapshot_samples import SERVER, WHEN, crds_held
from waiting import WITHIN_S

KEY = key(SERVER, "somebody")
ENDLESS = 10**9


@contextmanager
def writer(folder: Path, name: str, times: int, *more: object) -> Generator[subprocess.Popen[str]]:
    """Run a process that puts snapshots; it is about to begin, and ends with the context."""
    arguments = [folder, KEY, name, times, *(more or [50])]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, cache_writer.__file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            yield process
        finally:
            process.kill()


def without_time_and_documents(held: FetchedSnapshot) -> FetchedSnapshot:
    return replace(held, snapshot=replace(held.snapshot, checked_at=WHEN), documents={})


def test_reader_sees_one_of_the_snapshots_that_several_processes_put(tmp_path: Path) -> None:
    names = ("one", "two")
    wanted = {name: without_time_and_documents(held_with(name, 50)) for name in names}
    seen: set[str] = set()
    cache = DiskCache(tmp_path / "cache")
    with writer(cache.folder, "one", ENDLESS), writer(cache.folder, "two", ENDLESS):
        end = time.monotonic() + WITHIN_S
        while seen != set(names):
            assert time.monotonic() < end
            for _ in range(20):
                held = cache.get(KEY)
                if held is None:
                    assert not seen
                    continue
                name = held.snapshot.groups[0].name
                assert without_time_and_documents(held) == wanted[name]
                seen.add(name)


def test_process_killed_in_the_middle_of_a_file_leaves_the_old_snapshot(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put(KEY, crds_held())
    with writer(cache.folder, "one", ENDLESS, 5000, 100_000, "killed") as process:
        assert process.wait(WITHIN_S) == -signal.SIGXFSZ
    (half,) = cache.folder.glob("*.tmp")
    assert half.stat().st_size == 100_000
    assert cache.get(KEY) == crds_held()


def test_full_disk_is_no_error_and_leaves_the_old_snapshot(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put(KEY, crds_held())
    with writer(cache.folder, "one", 1, 5000, 100_000) as process:
        assert process.wait(WITHIN_S) == 0
    assert cache.get(KEY) == crds_held()
    assert [file.suffix for file in cache.folder.iterdir()] == [".discovery"]


@pytest.mark.parametrize("keys", [1, 3])
def test_threads_may_share_one_cache(tmp_path: Path, keys: int) -> None:
    cache = DiskCache(tmp_path / "cache", max_files=2)
    held = {name: held_with(name, 20) for name in ("one", "two", "three")}
    wanted = [without_time_and_documents(found) for found in held.values()]

    def use(number: int) -> int:
        name = key(SERVER, str(number % keys))
        cache.put(name, list(held.values())[number % 3])
        found = cache.get(name)
        if number % 7 == 0:
            cache.remove(name)
        assert found is None or without_time_and_documents(found) in wanted
        return found is not None

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(use, range(200))) > 0
    assert len(list(cache.folder.iterdir())) <= 2
