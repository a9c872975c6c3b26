"""Storage versions: watches, a system at rest, and upgrades that clients wait for."""

import contextlib
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

import api_servers
from api_servers import COUNT, RESOURCES, SERVICE, ApiServers
from apidiscovery.service.v1 import storage_version_pb2
from load import Sample, compare, interleaved
from processes import Failed, Served, ask, child_command, cpu_s, memory_mb, read_line, running
from report import Clock, Row
from stream_client import OpenStreams, StreamPlan, open_streams

SECTION = "storage-versions"
WATCHERS = 1000
CHANGES = 20

WATCH = f"{SERVICE}/WatchStorageVersions"
_PATH = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions?watch=1&resourceVersion={}"
_NEWCOMERS = 100
_SETTLE_S = 0.02

_QUIET_S, _BEAT_EVERY_S, _QUIET_WATCHERS = 30, 10, 100
_OLD, _NEW = "v1alpha1", "v1"
_WAIT = f"{SERVICE}/WaitForAgreement"


@dataclass(slots=True)
class _Arrivals:
    """When messages came, in milliseconds after what caused them.

    Attributes:
        all_ms: Every one of them.
        answered_ms: When the report of each change was answered.
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
    """Yield the rows of gRPC, of HTTP, and of new watchers."""
    # Alternating, so that each report changes something.
    versions = cycle(("v1alpha1", "v1beta1"))
    for kind, address in (("gRPC", served.grpc), ("HTTP", served.http)):
        if clock.out():
            yield Row(SECTION, f"{WATCHERS} watchers, {kind}", "", skipped="out of time")
            continue
        before = memory_mb(served.pid)["Rss"]
        with open_streams(folder, address, _wanted(kind, servers.revision())) as streams:
            changing = _Changing(served, servers, streams, versions)
            changing.once()
            yield _memory_row(kind, memory_mb(served.pid)["Rss"] - before)
            if kind == "gRPC":
                yield from _compared_rows(folder, changing, rounds, clock)
            else:
                changing.many()
                yield _times_row(kind, changing)
    yield _newcomers_row(folder, served)


def _wanted(kind: str, after: int) -> StreamPlan:
    if kind == "gRPC":
        return StreamPlan("grpc", WATCH, [watch_request(str(after))])
    return StreamPlan("http", _PATH.format(after), connections=WATCHERS, per_connection=1)


def watch_request(after: str) -> bytes:
    """Return the request for changes after a revision; empty to include existing objects."""
    asked = storage_version_pb2.WatchStorageVersionsRequest(resource_version=after)
    return asked.SerializeToString()


class _Changing:
    """Changes one object repeatedly, each time after all watchers have the last change."""

    def __init__(
        self, served: Served, servers: ApiServers, streams: OpenStreams, versions: Iterator[str]
    ) -> None:
        self._servers = servers
        self._streams = streams
        self._versions = versions
        self.pid = served.pid
        self.arrivals = _Arrivals()

    def once(self) -> float:
        """Make one change; return the seconds until the last watcher has it."""
        time.sleep(_SETTLE_S)
        self._streams.want()
        told = self._servers.report(0, next(self._versions), [RESOURCES // 2])
        at = self._streams.arrived()
        if told.outcomes["updated"] != 1 or len(self._streams.last) != 1:
            raise Failed(f"{dict(told.outcomes)}, {len(self._streams.last)} different messages")
        self.arrivals.all_ms += [(each - told.began) * 1000 for each in at]
        self.arrivals.answered_ms.append(told.seconds * 1000)
        return max(at) - told.began

    def many(self) -> Sample:
        """Make changes one by one; return the rate of messages."""
        return _sample(self.once, self.pid)

    def message(self) -> bytes:
        """Return the last message of all watchers."""
        return self._streams.last[0]


def _sample(change: Callable[[], float], pid: int) -> Sample:
    before = cpu_s(pid)
    took = sum(change() for _ in range(CHANGES))
    messages = CHANGES * WATCHERS
    return Sample(messages / took, (cpu_s(pid) - before) / messages * 1e6)


def _compared_rows(folder: Path, changing: _Changing, rounds: int, clock: Clock) -> Iterator[Row]:
    """Compare with handlers that send the same message from a constant."""
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
    """A server that only sends, and its watchers."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path, message: bytes) -> None:
        file = folder / "message"
        file.write_bytes(message)
        command = child_command("grpc-stream-empty", WATCH, file)
        self._process: subprocess.Popen[bytes] = stack.enter_context(running(command, piped=True))
        address = str(read_line(self._process)["grpc"])
        wanted = StreamPlan("grpc", WATCH, [watch_request("1")])
        self._streams = stack.enter_context(open_streams(folder, address, wanted))
        self.pid = self._process.pid
        self.arrivals = _Arrivals()
        self._streams.want()
        self._streams.arrived()

    def once(self) -> float:
        """Send once; return the seconds until the last message has come."""
        time.sleep(_SETTLE_S)
        self._streams.want()
        began = time.perf_counter()
        ask(self._process, "send")
        at = self._streams.arrived()
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
    """Open watches without a revision."""
    before = cpu_s(served.pid)
    began = time.perf_counter()
    wanted = StreamPlan("grpc", WATCH, [watch_request("")], per_connection=_NEWCOMERS // 10)
    with open_streams(folder, served.grpc, wanted) as streams:
        streams.want(RESOURCES + 1)  # and a bookmark
        took = max(streams.arrived()) - began
    computed = cpu_s(served.pid) - before
    return Row(
        SECTION,
        f"{_NEWCOMERS} watchers, gRPC, begin at once and are told {RESOURCES} objects each",
        "",
        f"{took:.1f} s, {computed:.1f} CPU-s",
        numbers={"seconds": took, "cpu_s": computed},
    )


def measure_waits(folder: Path, served: Served, servers: ApiServers, clock: Clock) -> Iterator[Row]:
    """Yield the row of a system at rest, then those of upgrades."""
    quiet = f"{_QUIET_S} s without a change"
    if clock.out(_QUIET_S):
        yield Row(SECTION, quiet, "", skipped="out of time")
    else:
        yield _quiet_row(quiet, folder, served, servers)
    upgrade = f"{COUNT} servers upgraded one by one"
    alone = _upgrade(served, servers, None)
    yield _upgrade_row(f"{upgrade}, nobody waits", alone, None)
    for waiting, targets, wanted in _waiters():
        name = f"{upgrade}, {waiting}"
        if clock.out():
            yield Row(SECTION, name, "", skipped="out of time")
            continue
        yield _upgrade_row(name, *_awaited(folder, served, servers, wanted, targets))


def _quiet_row(name: str, folder: Path, served: Served, servers: ApiServers) -> Row:
    """Send only heartbeats, with some watchers."""
    request = watch_request(str(servers.revision()))
    wanted = StreamPlan("grpc", WATCH, [request], per_connection=_QUIET_WATCHERS // 10)
    with open_streams(folder, served.grpc, wanted):
        before, computed_before = servers.revision(), cpu_s(served.pid)
        end = time.monotonic() + _QUIET_S
        beats = 0
        for _ in range(_QUIET_S // _BEAT_EVERY_S):
            servers.beat()
            beats += COUNT
            time.sleep(min(_BEAT_EVERY_S, max(0.0, end - time.monotonic())))
        computed, writes = cpu_s(served.pid) - computed_before, servers.revision() - before
    return Row(
        SECTION,
        f"{name}: {COUNT} members, {RESOURCES} objects, {_QUIET_WATCHERS} watchers",
        f"{beats} writes, the heartbeats",
        f"{writes} writes, {computed:.2f} CPU-s ({computed / _QUIET_S * 100:.1f} %)",
        passed=writes == beats,
        numbers={"writes": writes, "cpu_s": computed},
    )


@dataclass(frozen=True, slots=True)
class _Upgrade:
    """What an upgrade took.

    Attributes:
        seconds: From the first report until the last is answered.
        told_s: From then until the last waiting client has it.
        cpu_s: Of the server, until then.
        messages: To waiting clients.
    """

    seconds: float
    told_s: float
    cpu_s: float
    messages: int


def _waiters() -> Iterator[tuple[str, int, StreamPlan]]:
    """Yield a title, the number of targets, and the requests of waiting clients."""
    one = [_wait_request([number]) for number in range(RESOURCES)]
    yield "1,000 wait for one object each", 1, StreamPlan("grpc", _WAIT, one)
    # Each on a connection of its own: together the requests would not fit into its window.
    everything = [_wait_request(list(range(RESOURCES)))]
    wanted = StreamPlan("grpc", _WAIT, everything, connections=5, per_connection=1)
    yield f"5 wait for all {RESOURCES} objects", RESOURCES, wanted


def _wait_request(numbers: list[int]) -> bytes:
    targets = [
        storage_version_pb2.AgreementTarget(
            name=api_servers.name(number),
            encoding_version=api_servers.resource(number, _NEW).encoding_version,
        )
        for number in numbers
    ]
    return storage_version_pb2.WaitForAgreementRequest(targets=targets).SerializeToString()


def _awaited(
    folder: Path, served: Served, servers: ApiServers, wanted: StreamPlan, targets: int
) -> tuple[_Upgrade, float]:
    """Upgrade with waiting clients; return its cost, and the seconds until all waited."""
    servers.report_at_once(dict.fromkeys(range(COUNT), _OLD))
    began = time.perf_counter()
    with open_streams(folder, served.grpc, wanted) as streams:
        streams.want()
        begun_s = max(streams.arrived()) - began
        upgrade = _upgrade(served, servers, streams)
        for message in streams.last:
            _check(message, targets)
    return upgrade, begun_s


def _upgrade(served: Served, servers: ApiServers, streams: OpenStreams | None) -> _Upgrade:
    if streams is None:
        servers.report_at_once(dict.fromkeys(range(COUNT), _OLD))
    before = cpu_s(served.pid)
    began = time.perf_counter()
    for server in range(COUNT):
        told = servers.report(server, _NEW)
        if told.outcomes["updated"] != RESOURCES:
            raise Failed(f"server {server} was upgraded: {dict(told.outcomes)}")
    answered = time.perf_counter()
    messages = streams.ended() if streams else 0
    told_s = time.perf_counter() - answered
    return _Upgrade(answered - began, told_s, cpu_s(served.pid) - before, messages)


def _check(message: bytes, targets: int) -> None:
    told = storage_version_pb2.WaitForAgreementResponse.FromString(message)
    if not told.done or len(told.progress) != targets:
        raise Failed(f"the last message: {told.done=}, {len(told.progress)} targets")


def _upgrade_row(name: str, upgrade: _Upgrade, begun_s: float | None) -> Row:
    waited = (
        f"; all waited after {begun_s:.2f} s, were told {upgrade.told_s:.2f} s after the last "
        f"answer, {upgrade.messages:,} messages"
        if begun_s is not None
        else ""
    )
    return Row(
        SECTION,
        name,
        "",
        f"{upgrade.seconds:.2f} s, {upgrade.cpu_s:.2f} CPU-s{waited}",
        numbers={
            "seconds": upgrade.seconds,
            "told_s": upgrade.told_s,
            "cpu_s": upgrade.cpu_s,
            "messages": upgrade.messages,
        },
    )
