"""A system at rest, and the upgrade of one that many wait for."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import api_servers
from api_servers import COUNT, RESOURCES, SERVICE, ApiServers
from apidiscovery.service.v1 import storage_version_pb2
from holding_streams import Holding, Wanted, holding
from processes import Failed, Served, cpu_s
from report import Clock, Row
from storage_version_watches import WATCH, watch_request

SECTION = "storage-versions"

_QUIET_S, _BEAT_EVERY_S, _WATCHERS = 30, 10, 100
_OLD, _NEW = "v1alpha1", "v1"
_WAIT = f"{SERVICE}/WaitForAgreement"


def measure(folder: Path, served: Served, servers: ApiServers, clock: Clock) -> Iterator[Row]:
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
    """Let nothing happen but heartbeats, while some watch."""
    request = watch_request(str(servers.revision()))
    wanted = Wanted("grpc", WATCH, [request], per_connection=_WATCHERS // 10)
    with holding(folder, served.grpc, wanted):
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
        f"{name}: {COUNT} members, {RESOURCES} objects, {_WATCHERS} watchers",
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
        told_s: From then until the last has been told of it.
        cpu_s: Of the server, until then.
        messages: That those who waited got.
    """

    seconds: float
    told_s: float
    cpu_s: float
    messages: int


def _waiters() -> Iterator[tuple[str, int, Wanted]]:
    """Yield who waits, for how many targets, and by which requests."""
    one = [_wait_request([number]) for number in range(RESOURCES)]
    yield "1,000 wait for one object each", 1, Wanted("grpc", _WAIT, one)
    # Each on a connection of its own: together the requests would not fit into its window.
    everything = [_wait_request(list(range(RESOURCES)))]
    wanted = Wanted("grpc", _WAIT, everything, connections=5, per_connection=1)
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
    folder: Path, served: Served, servers: ApiServers, wanted: Wanted, targets: int
) -> tuple[_Upgrade, float]:
    """Upgrade while some wait; return what it took, and the seconds until all had begun."""
    servers.report_at_once(dict.fromkeys(range(COUNT), _OLD))
    began = time.perf_counter()
    with holding(folder, served.grpc, wanted) as held:
        held.want()
        begun_s = max(held.arrived()) - began
        upgrade = _upgrade(served, servers, held)
        for message in held.last:
            _check(message, targets)
    return upgrade, begun_s


def _upgrade(served: Served, servers: ApiServers, held: Holding | None) -> _Upgrade:
    if held is None:
        servers.report_at_once(dict.fromkeys(range(COUNT), _OLD))
    before = cpu_s(served.pid)
    began = time.perf_counter()
    for server in range(COUNT):
        told = servers.report(server, _NEW)
        if told.outcomes["updated"] != RESOURCES:
            raise Failed(f"server {server} was upgraded: {dict(told.outcomes)}")
    answered = time.perf_counter()
    messages = held.ended() if held else 0
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
