"""What it takes until all that a cluster's API servers report is durable."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from api_servers import COUNT, RESOURCES, ApiServers, Told, api_servers
from processes import Failed, Served, cpu_s
from report import Row

SECTION = "storage-versions"

_OLD, _NEW = "v1beta1", "v1"
Start = Callable[[], AbstractContextManager[Served]]


@dataclass(frozen=True, slots=True)
class _Taken:
    """What reports took.

    Attributes:
        changes: How many entries changed, which is the least number of writes: each is
            acknowledged by itself.
        writes: How far the store's revision went on.
        cpu_s: Of the server.
    """

    seconds: float
    reports: int
    changes: int
    writes: int
    cpu_s: float


def measure(store: str, start: Start, rounds: int) -> Iterator[Row]:
    """Yield the rows for one kind of store.

    Args:
        store: What it is called.
        start: Starts a server whose store is empty.
        rounds: How often.
    """
    found: dict[str, list[_Taken]] = {}
    for _ in range(rounds):
        with start() as served, api_servers(served.grpc) as servers:
            for step, taken in _steps(served, servers):
                found.setdefault(step, []).append(taken)
    for step, all_taken in found.items():
        yield _row(f"{store}: {step}", all_taken)


def _steps(served: Served, servers: ApiServers) -> Iterator[tuple[str, _Taken]]:
    everybody = dict.fromkeys(range(COUNT), _OLD)
    each = f"{COUNT} servers x {RESOURCES} resources at once"
    yield f"{each}, for the first time", _take(served, servers, everybody, COUNT * RESOURCES)
    yield f"{each}, the same again", _take(served, servers, everybody, 0)
    upgraded = f"1 server of {COUNT} upgraded, {RESOURCES} resources"
    yield upgraded, _take(served, servers, {0: _NEW}, RESOURCES)


def _take(served: Served, servers: ApiServers, versions: Mapping[int, str], changes: int) -> _Taken:
    """Let servers report, and count the writes; as many entries have to change.

    Raises:
        Failed: The answers tell of other changes.
    """
    before, computed_before = servers.revision(), cpu_s(served.pid)
    told = servers.report_at_once(versions)
    computed, writes = cpu_s(served.pid) - computed_before, servers.revision() - before
    _check(told, changes)
    return _Taken(told.seconds, len(versions), changes, writes, computed)


def _check(told: Told, changes: int) -> None:
    changed = told.outcomes["created"] + told.outcomes["updated"]
    if changed != changes:
        raise Failed(f"want {changes} changes, the reports made {dict(told.outcomes)}")


def _row(name: str, taken: list[_Taken]) -> Row:
    seconds = [each.seconds for each in taken]
    median, first = statistics.median(seconds), taken[0]
    computed = statistics.median(each.cpu_s for each in taken)
    rate = first.reports * RESOURCES / median
    writes = sorted({each.writes for each in taken})
    return Row(
        SECTION,
        name,
        f"{first.changes} writes",
        f"{median:.2f} s, {rate:,.0f} resources/s, {computed:.2f} CPU-s; "
        f"{', '.join(map(str, writes))} writes",
        passed=writes == [first.changes],
        numbers={"seconds": seconds, "writes": [t.writes for t in taken], "cpu_s": computed},
    )
