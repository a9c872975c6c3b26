"""One StorageVersion changes, and a thousand watch."""

import contextlib
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

from api_servers import RESOURCES, SERVICE, ApiServers
from apidiscovery.service.v1 import storage_version_pb2
from holding_streams import Holding, Wanted, holding
from load import Sample, compare, interleaved
from processes import Failed, Served, ask, child_command, cpu_s, memory_mb, read_line, running
from report import Clock, Row

SECTION = "storage-versions"
WATCHERS = 1000
CHANGES = 20

WATCH = f"{SERVICE}/WatchStorageVersions"
_PATH = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions?watch=1&resourceVersion={}"
_NEWCOMERS = 100
_SETTLE_S = 0.02


@dataclass(slots=True)
class _Arrivals:
    """When messages came, in milliseconds after what caused them.

    Attributes:
        all_ms: Every one of them.
        answered_ms: When the report was answered, of each change.
    """

    all_ms: list[float] = field(default_factory=list[float])
    answered_ms: list[float] = field(default_factory=list[float])

    def text(self) -> str:
        ordered = sorted(self.all_ms)
        p99 = ordered[int(len(ordered) * 0.99)]
        return f"p50 {statistics.median(ordered):.1f}, p99 {p99:.1f}, max {ordered[-1]:.1f} ms"


def measure(
    folder: Path, served: Served, servers: ApiServers, rounds: int, clock: Clock
) -> Iterator[Row]:
    """Yield the rows of gRPC, of HTTP, and of those that come anew."""
    # One after the other, so that each report changes something.
    versions = cycle(("v1alpha1", "v1beta1"))
    for kind, address in (("gRPC", served.grpc), ("HTTP", served.http)):
        if clock.out():
            yield Row(SECTION, f"{WATCHERS} watchers, {kind}", "", skipped="out of time")
            continue
        before = memory_mb(served.pid)["Rss"]
        with holding(folder, address, _wanted(kind, servers.revision())) as held:
            changing = _Changing(served, servers, held, versions)
            changing.once()
            yield _memory_row(kind, memory_mb(served.pid)["Rss"] - before)
            if kind == "gRPC":
                yield from _compared_rows(folder, changing, rounds, clock)
            else:
                changing.many()
                yield _times_row(kind, changing)
    yield _newcomers_row(folder, served)


def _wanted(kind: str, after: int) -> Wanted:
    if kind == "gRPC":
        return Wanted("grpc", WATCH, [watch_request(str(after))])
    return Wanted("http", _PATH.format(after), connections=WATCHERS, per_connection=1)


def watch_request(after: str) -> bytes:
    """Return the request for what changes after a revision; empty for what is there as well."""
    asked = storage_version_pb2.WatchStorageVersionsRequest(resource_version=after)
    return asked.SerializeToString()


class _Changing:
    """Changes one object again and again, each time when all have seen the last change."""

    def __init__(
        self, served: Served, servers: ApiServers, held: Holding, versions: Iterator[str]
    ) -> None:
        self._servers = servers
        self._held = held
        self._versions = versions
        self.pid = served.pid
        self.arrivals = _Arrivals()

    def once(self) -> float:
        """Make one change; return the seconds until the last has heard of it."""
        time.sleep(_SETTLE_S)
        self._held.want()
        told = self._servers.report(0, next(self._versions), [RESOURCES // 2])
        at = self._held.arrived()
        if told.outcomes["updated"] != 1 or len(self._held.last) != 1:
            raise Failed(f"{dict(told.outcomes)}, {len(self._held.last)} different messages")
        self.arrivals.all_ms += [(each - told.began) * 1000 for each in at]
        self.arrivals.answered_ms.append(told.seconds * 1000)
        return max(at) - told.began

    def many(self) -> Sample:
        """Make changes one by one, and return the rate at which messages come."""
        return _sample(self.once, self.pid)

    def message(self) -> bytes:
        """Return what all have got last."""
        return self._held.last[0]


def _sample(change: Callable[[], float], pid: int) -> Sample:
    before = cpu_s(pid)
    took = sum(change() for _ in range(CHANGES))
    messages = CHANGES * WATCHERS
    return Sample(messages / took, (cpu_s(pid) - before) / messages * 1e6)


def _compared_rows(folder: Path, changing: _Changing, rounds: int, clock: Clock) -> Iterator[Row]:
    """Measure side by side with handlers that send the same message from a constant."""
    changing.arrivals = _Arrivals()
    with contextlib.ExitStack() as stack:
        empty = {key: _Empty(stack, folder, changing.message()) for key in ("empty", "control")}
        runs = {"ours": changing.many} | {
            key: partial(_sample, each.once, each.pid) for key, each in empty.items()
        }
        samples = interleaved(runs, rounds, clock.out)
    yield _times_row("gRPC", changing)
    yield _ratio_row(samples, len(changing.message()), empty["empty"].arrivals)


class _Empty:
    """A server that does nothing but send, and those that hold streams to it."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path, message: bytes) -> None:
        file = folder / "message"
        file.write_bytes(message)
        command = child_command("grpc-stream-empty", WATCH, file)
        self._process: subprocess.Popen[bytes] = stack.enter_context(running(command, piped=True))
        address = str(read_line(self._process)["grpc"])
        wanted = Wanted("grpc", WATCH, [watch_request("1")])
        self._held = stack.enter_context(holding(folder, address, wanted))
        self.pid = self._process.pid
        self.arrivals = _Arrivals()
        self._held.want()
        self._held.arrived()

    def once(self) -> float:
        """Let it send once; return the seconds until the last message has come."""
        time.sleep(_SETTLE_S)
        self._held.want()
        began = time.perf_counter()
        ask(self._process, "send")
        at = self._held.arrived()
        self.arrivals.all_ms += [(each - began) * 1000 for each in at]
        return max(at) - began


def _memory_row(kind: str, more_mb: float) -> Row:
    each_kb = more_mb * 1000 / WATCHERS
    return Row(
        SECTION,
        f"{WATCHERS} watchers, {kind}: memory",
        "",
        f"{more_mb:.0f} MB, {each_kb:.0f} kB for each",
        numbers={"megabytes": more_mb},
    )


def _times_row(kind: str, changing: _Changing) -> Row:
    arrivals = changing.arrivals
    answered = statistics.median(arrivals.answered_ms)
    return Row(
        SECTION,
        f"{WATCHERS} watchers, {kind}: one object changes, until each has it",
        "",
        f"{arrivals.text()}; report answered after {answered:.1f} ms",
        numbers={"answered_ms": arrivals.answered_ms, "all_ms": arrivals.all_ms},
    )


def _ratio_row(samples: dict[str, list[Sample]], size: int, empty: _Arrivals) -> Row:
    ratio = compare(samples)
    best = {key: max(sample.rate for sample in found) for key, found in samples.items()}
    numbers = {key: [asdict(one) for one in found] for key, found in samples.items()}
    return Row(
        SECTION,
        f"{WATCHERS} watchers, gRPC: against an empty handler ({size:,} bytes)",
        "",
        f"{ratio.cpu:.2f} (paired {ratio.paired:.2f}, best {ratio.best:.2f}, "
        f"control {ratio.control:.2f}); {best['ours']:,.0f} messages/s, "
        f"empty {best['empty']:,.0f}/s: {empty.text()}",
        numbers={"ratio": asdict(ratio), "samples": numbers},
    )


def _newcomers_row(folder: Path, served: Served) -> Row:
    """Let watchers come that know nothing."""
    before = cpu_s(served.pid)
    began = time.perf_counter()
    wanted = Wanted("grpc", WATCH, [watch_request("")], per_connection=_NEWCOMERS // 10)
    with holding(folder, served.grpc, wanted) as held:
        held.want(RESOURCES + 1)  # and a bookmark
        took = max(held.arrived()) - began
    computed = cpu_s(served.pid) - before
    return Row(
        SECTION,
        f"{_NEWCOMERS} watchers, gRPC, begin at once and are told {RESOURCES} objects each",
        "",
        f"{took:.1f} s, {computed:.1f} CPU-s",
        numbers={"seconds": took, "cpu_s": computed},
    )
