"""Storage versions: reports, watches, a system at rest, and those that wait for agreement."""

import contextlib
import shutil
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import storage_version_reports
import storage_version_waits
import storage_version_watches
from api_servers import COUNT, api_servers
from etcd_process import etcd
from processes import Served, serving
from report import Clock, Row

SECTION = "storage-versions"
FLAGS = ("--feature-gates", "StorageVersionAPI=true", "--catalog", "none")


def measure(folder: Path, rounds: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows of each store, then those of what happens above it."""
    with contextlib.ExitStack() as stack:
        for store, start in _stores(folder, stack):
            if clock.out():
                yield Row(SECTION, store, "", skipped="out of time")
                continue
            yield from storage_version_reports.measure(store, start, rounds)
        if not shutil.which("etcd"):
            yield Row(SECTION, "etcd", "", skipped="no etcd (apt-get install etcd-server)")
    if clock.out():
        yield Row(SECTION, "watches", "", skipped="out of time")
        return
    store = f"sqlite:{folder / 'watched.sqlite'}"
    with _serve(folder, lambda: store) as served, api_servers(served.grpc) as servers:
        servers.report_at_once(dict.fromkeys(range(COUNT), "v1"))
        yield from storage_version_watches.measure(folder, served, servers, rounds, clock)
        yield from storage_version_waits.measure(folder, served, servers, clock)


_Start = Callable[[], contextlib.AbstractContextManager[Served]]


def _stores(folder: Path, stack: contextlib.ExitStack) -> Iterator[tuple[str, _Start]]:
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
