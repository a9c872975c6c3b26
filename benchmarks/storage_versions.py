"""Storage versions: what it takes until all that API servers report is durable."""

import contextlib
import http.client
import shutil
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import storage_version_watches
from api_servers import COUNT, RESOURCES, ApiServers, Reported, api_servers
from processes import Failed, Served, cpu_s, free_ports, running, serving
from report import Clock, Row

SECTION = "storage-versions"
FLAGS = ("--feature-gates", "StorageVersionAPI=true", "--catalog", "none")

_OLD, _NEW = "v1beta1", "v1"
Start = Callable[[], contextlib.AbstractContextManager[Served]]

_START_S = 20.0


def measure(folder: Path, rounds: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows of each store, then those of watches and upgrades."""
    with contextlib.ExitStack() as stack:
        for store, start in _stores(folder, stack):
            if clock.out():
                yield Row(SECTION, store, "", skipped="out of time")
                continue
            yield from measure_reports(store, start, rounds)
        if not shutil.which("etcd"):
            yield Row(SECTION, "etcd", "", skipped="no etcd (apt-get install etcd-server)")
    if clock.out():
        yield Row(SECTION, "watches", "", skipped="out of time")
        return
    store = f"sqlite:{folder / 'watched.sqlite'}"
    with _serve(folder, lambda: store) as served, api_servers(served.grpc) as servers:
        servers.report_at_once(dict.fromkeys(range(COUNT), "v1"))
        yield from storage_version_watches.measure(folder, served, servers, rounds, clock)
        yield from storage_version_watches.measure_waits(folder, served, servers, clock)


def _stores(folder: Path, stack: contextlib.ExitStack) -> Iterator[tuple[str, Start]]:
    numbers = count()
    yield "sqlite", partial(_serve, folder, lambda: f"sqlite:{folder / f'{next(numbers)}.sqlite'}")
    yield "memory", partial(_serve, folder, lambda: "memory")
    if shutil.which("etcd"):
        address = stack.enter_context(etcd(folder / "etcd"))
        yield "etcd", partial(_serve, folder, lambda: f"etcd://{address}/bench{next(numbers)}")


@contextlib.contextmanager
def _serve(folder: Path, store: Callable[[], str]) -> Generator[Served]:
    with serving(folder, *FLAGS, "--store", store()) as served:
        yield served


@dataclass(frozen=True, slots=True)
class _Taken:
    """What reports took.

    Attributes:
        changes: Changed entries, the minimum of writes: each is acknowledged by itself.
        writes: The increase of the store's revision.
        cpu_s: Of the server.
    """

    seconds: float
    reports: int
    changes: int
    writes: int
    cpu_s: float


def measure_reports(store: str, start: Start, rounds: int) -> Iterator[Row]:
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
        yield _report_row(f"{store}: {step}", all_taken)


def _steps(served: Served, servers: ApiServers) -> Iterator[tuple[str, _Taken]]:
    everybody = dict.fromkeys(range(COUNT), _OLD)
    each = f"{COUNT} servers x {RESOURCES} resources at once"
    yield f"{each}, for the first time", _take(served, servers, everybody, COUNT * RESOURCES)
    yield f"{each}, the same again", _take(served, servers, everybody, 0)
    upgraded = f"1 server of {COUNT} upgraded, {RESOURCES} resources"
    yield upgraded, _take(served, servers, {0: _NEW}, RESOURCES)


def _take(served: Served, servers: ApiServers, versions: Mapping[int, str], changes: int) -> _Taken:
    """Report, and count the writes; `changes` entries must change.

    Raises:
        Failed: The answers tell of other changes.
    """
    before, computed_before = servers.revision(), cpu_s(served.pid)
    told = servers.report_at_once(versions)
    computed, writes = cpu_s(served.pid) - computed_before, servers.revision() - before
    _check(told, changes)
    return _Taken(told.seconds, len(versions), changes, writes, computed)


def _check(told: Reported, changes: int) -> None:
    changed = told.outcomes["created"] + told.outcomes["updated"]
    if changed != changes:
        raise Failed(f"want {changes} changes, the reports made {dict(told.outcomes)}")


def _report_row(name: str, taken: list[_Taken]) -> Row:
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


@contextlib.contextmanager
def etcd(folder: Path) -> Generator[str]:
    """Run one until the block ends, and yield its HOST:PORT."""
    client, peer, health = free_ports(3)
    peer_url = f"http://127.0.0.1:{peer}"
    command = [
        shutil.which("etcd") or "etcd",
        "--name=only",
        f"--data-dir={folder / 'data'}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=only={peer_url}",
        f"--listen-metrics-urls=http://127.0.0.1:{health}",
        "--log-level=error",
    ]
    with running(command) as process:
        deadline = time.monotonic() + _START_S
        while not _is_healthy(health):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"etcd does not start within {_START_S:.0f} s")
            time.sleep(0.05)
        yield f"127.0.0.1:{client}"


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return b'"true"' in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
