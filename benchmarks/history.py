"""The history with 100 000 changes: what writing, reading and forgetting cost."""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from apidiscovery_service.core.model import Group, GroupVersionKind, Resource, Version
from apidiscovery_service.history.contents import group_or_damage
from apidiscovery_service.history.file import HistoryFile, hash_of
from apidiscovery_service.history.model import ChangeFilter, ChangeKind, NewChange, Retention
from apidiscovery_service.sources.upstreams.state import written_group
from report import Clock, Row

SECTION = "history"

_CHANGES = 100_000
# Half of the changes are of one cluster, the others of a hundred; each has fifty groups.
_CLUSTERS, _GROUPS = 100, 50
_KINDS = 5
_ETAG_BYTES = 64
_STARTED_S = 1_700_000_000.0
_READS = 20

# Between two looks at the clock, while a thread compacts.
_TICK_S = 0.001

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class _OwnClock:
    """A clock that is moved on by a second with each change."""

    def __init__(self) -> None:
        self.now_s = _STARTED_S

    def __call__(self) -> float:
        return self.now_s


def measure(folder: Path, _clock: Clock) -> Iterator[Row]:
    """Yield the cost of a change, of what is asked for, and of forgetting half of it."""
    path, clock = folder / "history.sqlite", _OwnClock()
    file = HistoryFile(path, clock)
    try:
        appends_ms = _written(file, clock)
        mean_ms = statistics.fmean(appends_ms)
        yield _row("a change is appended, mean beside the write", mean_ms, 1.0)
        yield Row(
            SECTION,
            f"of {_CHANGES} changes: on disk",
            "",
            f"{file.size_bytes() / _CHANGES:.0f} bytes a change",
        )
        when = datetime.fromtimestamp(clock.now_s - _CHANGES // 2, UTC)
        yield _row("a cluster of 50 groups at a time", _median_ms(lambda: _state(file, when)), 50.0)
        yield _row("500 changes", _median_ms(lambda: file.changes(limit=500)), 50.0)
        of_one = ChangeFilter(clusters=("c7",))
        page_ms = _median_ms(lambda: file.changes(of_one, limit=500))
        yield _row("500 changes of one cluster of 101", page_ms, 50.0)
    finally:
        file.close()
    pause_ms, steps = asyncio.run(_forgetting(path, clock))
    yield _row(f"longest pause of the loop, half is forgotten in {steps} steps", pause_ms, 20.0)


def _row(name: str, took_ms: float, budget_ms: float) -> Row:
    return Row(
        SECTION,
        f"of {_CHANGES} changes: {name}",
        f"<= {budget_ms:g} ms",
        f"{took_ms:.2f} ms",
        passed=took_ms <= budget_ms,
        numbers={"ms": took_ms},
    )


def _written(file: HistoryFile, clock: _OwnClock) -> list[float]:
    """Write all changes, each alone; return how long each took, in milliseconds."""
    known: dict[tuple[str, str], str] = {}
    took_ms: list[float] = []
    for number in range(_CHANGES):
        cluster = f"c{number // 2 % _CLUSTERS}" if number % 2 else "c"
        name = f"g{number // 2 % _GROUPS}.test"
        content = written_group(_group(name, number))
        digest = hash_of(content)
        before = known.get((cluster, name), "")
        etags = [os.urandom(_ETAG_BYTES).hex().upper() for _ in range(2)]
        change = NewChange(
            cluster, ChangeKind.GROUP, name, "poll", before, digest, etags[0], etags[1]
        )
        clock.now_s += 1
        began = time.perf_counter()
        file.append([change], {digest: partial(bytes, content)})
        took_ms.append((time.perf_counter() - began) * 1000)
        known[cluster, name] = digest
    return took_ms


def _group(name: str, number: int) -> Group:
    """Return a group that no other number has."""
    resources = tuple(
        Resource(
            f"things{kind}",
            GroupVersionKind("", "", f"Thing{kind}"),
            "Namespaced",
            f"thing{kind}",
            _VERBS,
            categories=(f"change-{number}",),
        )
        for kind in range(_KINDS)
    )
    return Group(name, (Version("v1", resources),))


def _state(file: HistoryFile, when: datetime) -> list[object]:
    found = file.state_at("c", when)
    return [group_or_damage(digest, file.content) for digest in found.values()]


def _median_ms(read: Callable[[], object]) -> float:
    """Return the median time of some reads, in milliseconds."""
    took_ms: list[float] = []
    for _ in range(_READS):
        began = time.perf_counter()
        read()
        took_ms.append((time.perf_counter() - began) * 1000)
    return statistics.median(took_ms)


async def _forgetting(path: Path, clock: _OwnClock) -> tuple[float, int]:
    """Forget half of it in a thread; return the longest pause in milliseconds, and the steps."""
    keep = Retention(timedelta(seconds=_CHANGES // 2), 2**40)
    steps = 0

    def compact() -> None:
        nonlocal steps
        file = HistoryFile(path, clock)
        while file.compact(keep):
            steps += 1
        file.close()

    longest_s = 0.0
    with ThreadPoolExecutor(1) as thread:
        compacting = asyncio.get_running_loop().run_in_executor(thread, compact)
        while not compacting.done():
            began = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            longest_s = max(longest_s, time.perf_counter() - began - _TICK_S)
        await compacting
    return longest_s * 1000, steps
