"""Storage versions: what it takes until all that API servers report is durable."""

import contextlib
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import grpc
from apidiscovery.service.v1 import storage_version_pb2, storage_version_pb2_grpc
from children import UNLIMITED
from processes import Failed, Served, cpu_s, serving
from report import Clock, Row

SECTION = "storage-versions"
FLAGS = ("--feature-gates", "StorageVersionAPI=true", "--catalog", "none")

_OLD, _NEW = "v1beta1", "v1"
Start = Callable[[], contextlib.AbstractContextManager[Served]]

COUNT, RESOURCES = 5, 500

_PER_GROUP = 5
_TIMEOUT_S = 120.0

Outcomes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reported:
    """The responses to reports.

    Attributes:
        seconds: From the first report to the last response.
        outcomes: The number of objects that were CREATED, UPDATED and UNCHANGED.
    """

    seconds: float
    outcomes: Outcomes


def resource(number: int, version: str) -> storage_version_pb2.ReportedResource:
    """Return the report of a resource with three versions."""
    versions = [f"{_group(number)}/{each}" for each in ("v1", "v1beta1", "v1alpha1")]
    return storage_version_pb2.ReportedResource(
        group=_group(number),
        resource=_plural(number),
        encoding_version=f"{_group(number)}/{version}",
        decodable_versions=versions,
        served_versions=versions[:2],
    )


def _group(number: int) -> str:
    return f"team{number // _PER_GROUP}.apps.example.com"


def _plural(number: int) -> str:
    return f"widgets{number}"


class ApiServers:
    """API servers, each a member with its own connection."""

    def __init__(self, channels: Sequence[grpc.Channel]) -> None:
        self._stubs = [storage_version_pb2_grpc.StorageVersionServiceStub(c) for c in channels]
        self._ids = [
            stub.Heartbeat(
                storage_version_pb2.HeartbeatRequest(hostname=f"node-{number}", instance="bench"),
                timeout=_TIMEOUT_S,
            ).api_server_id
            for number, stub in enumerate(self._stubs)
        ]

    def report_at_once(self, versions: Mapping[int, str]) -> Reported:
        """Report the versions in which some servers write all resources, concurrently."""
        requests = [
            (self._stubs[server], self._request(server, version))
            for server, version in versions.items()
        ]
        with ThreadPoolExecutor(len(requests)) as callers:
            began = time.perf_counter()
            waiting = [
                callers.submit(stub.Report, request, timeout=_TIMEOUT_S)
                for stub, request in requests
            ]
            answers = [each.result() for each in waiting]
            seconds = time.perf_counter() - began
        return Reported(seconds, _outcomes(answers))

    def revision(self) -> int:
        """Return the store's revision, which every write increases by one."""
        request = storage_version_pb2.ListStorageVersionsRequest()
        answer = self._stubs[0].ListStorageVersions(request, timeout=_TIMEOUT_S)
        return int(answer.list.metadata.resource_version)

    def _request(self, server: int, version: str) -> storage_version_pb2.ReportRequest:
        return storage_version_pb2.ReportRequest(
            api_server_id=self._ids[server],
            resources=[resource(number, version) for number in range(RESOURCES)],
        )


@contextlib.contextmanager
def api_servers(address: str) -> Generator[ApiServers]:
    """Connect API servers until the block ends."""
    with contextlib.ExitStack() as stack:
        # Without a pool of its own a channel to the same address shares its connection.
        options = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))
        channels = [
            stack.enter_context(grpc.insecure_channel(address, options=options))
            for _ in range(COUNT)
        ]
        yield ApiServers(channels)


def _outcomes(answers: Iterable[storage_version_pb2.ReportResponse]) -> Outcomes:
    names = {
        storage_version_pb2.ReportedStorageVersion.OUTCOME_CREATED: "created",
        storage_version_pb2.ReportedStorageVersion.OUTCOME_UPDATED: "updated",
        storage_version_pb2.ReportedStorageVersion.OUTCOME_UNCHANGED: "unchanged",
    }
    counted = dict.fromkeys(names.values(), 0)
    for answer in answers:
        for one in answer.reported:
            counted[names[one.outcome]] += 1
    return counted


def measure(folder: Path, rounds: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows of each store."""
    numbers = count()
    stores: dict[str, Start] = {
        "sqlite": lambda: _serve(folder, f"sqlite:{folder / f'{next(numbers)}.sqlite'}"),
        "memory": lambda: _serve(folder, "memory"),
    }
    for store, start in stores.items():
        if clock.out():
            yield Row(SECTION, store, "", skipped="out of time")
            continue
        yield from measure_reports(store, start, rounds)


@contextlib.contextmanager
def _serve(folder: Path, store: str) -> Generator[Served]:
    with serving(folder, *FLAGS, "--store", store) as served:
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
        Failed: The responses report other changes.
    """
    before, computed_before = servers.revision(), cpu_s(served.pid)
    reported = servers.report_at_once(versions)
    computed, writes = cpu_s(served.pid) - computed_before, servers.revision() - before
    _check(reported, changes)
    return _Taken(reported.seconds, len(versions), changes, writes, computed)


def _check(reported: Reported, changes: int) -> None:
    changed = reported.outcomes["created"] + reported.outcomes["updated"]
    if changed != changes:
        raise Failed(f"want {changes} changes, the reports made {dict(reported.outcomes)}")


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
