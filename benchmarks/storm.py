"""A restart with many clients: cold clients and reconnecting watches at the same time."""

import asyncio
import base64
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import grpc
import orjson
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from children import UNLIMITED
from crds import change, crd, fill
from plain_http import V2_JSON, get
from processes import (
    Failed,
    Served,
    child_command,
    cpu_s,
    free_ports,
    read_line,
    running,
    serving,
)
from report import Clock, Row

_SECTION = "storm"
_WATCH = "/apidiscovery.service.v1.DiscoveryService/WatchDiscovery"
_CRDS = 200
_COLD = 1000
# Each request has the known groups, and all must fit into the initial window of a connection.
_CONNECTIONS, _PER_CONNECTION = 500, 10
# Doubled each time, as by real clients, unless the server sends Retry-After.
_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 4.0
_GIVE_UP_S = 480.0
_OK = 200

# Requests of a cold client with their Accept: as kubectl, then one document.
_ASKED = (("/api", V2_JSON), ("/apis", V2_JSON), ("/openapi/v3", "*/*"))


@dataclass
class _Tally:
    """Results of the cold clients.

    Attributes:
        wanted: The right ETag by path.
        url: The document that each requests.
        errors: The number of wrong responses by kind, of clients and watches.
        refused: The number of refused connections.
        done_at: When each client had everything (`time.perf_counter`).
    """

    wanted: dict[str, str]
    url: str
    errors: Counter[str] = field(default_factory=Counter[str])
    refused: int = 0
    done_at: list[float] = field(default_factory=list[float])


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield times, errors and memory of a restart with waiting clients."""
    if clock.out():
        yield Row(_SECTION, "a restart", "", skipped="out of time")
        return
    http, rpc = free_ports(2)
    flags = [
        *("--catalog", "none", "--store", f"sqlite:{folder / 'storm.sqlite'}"),
        *("--http", f"127.0.0.1:{http}", "--grpc", f"127.0.0.1:{rpc}"),
    ]
    with serving(folder, *flags) as served:
        fill(served.grpc, map(crd, range(_CRDS)))
        known = _known(served.grpc)
        fill(served.grpc, [change(1, _CRDS)])
        tally = _expected(served)
    began = time.perf_counter()
    with ThreadPoolExecutor(1) as apart:
        cold = apart.submit(asyncio.run, _all_cold(served.http, tally))
        with serving(folder, *flags) as again:
            up = time.perf_counter()
            reconnected = _reconnect(folder, again, known, tally)
            cold.result(_GIVE_UP_S)
            peak, computed = _peak_mb(again.pid), cpu_s(again.pid)
    yield _row("the server is ready again", [up - began])
    yield _row(f"{_COLD:,} cold clients have all of it", [at - began for at in tally.done_at])
    watches = _CONNECTIONS * _PER_CONNECTION
    yield _row(f"{watches:,} watches know what they missed", [at - began for at in reconnected])
    errors = ", ".join(f"{count} {what}" for what, count in sorted(tally.errors.items())) or "none"
    yield Row(_SECTION, "refused connection attempts", "", f"{tally.refused:,}")
    yield Row(_SECTION, "other errors, each retried", "", errors)
    yield Row(_SECTION, "CPU time of the server", "", f"{computed:.1f} s")
    yield Row(_SECTION, "peak memory of the server", "", f"{peak:.0f} MB", numbers={"mb": peak})


def _row(name: str, seconds: list[float]) -> Row:
    median = statistics.median(seconds)
    said = (
        f"{median:.1f} s" if len(seconds) == 1 else f"half {median:.1f}, last {max(seconds):.1f} s"
    )
    return Row(_SECTION, name, "", said, numbers={"s": sorted(seconds)})


def _known(address: str) -> bytes:
    """Return the request of a watch with all current groups."""
    with grpc.insecure_channel(address, options=UNLIMITED) as channel:
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        request = discovery_pb2.GetDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS)
        answer = stub.GetDiscovery(request)
    hashes = {each.name: each.hash for each in answer.group_hashes}
    return discovery_pb2.WatchDiscoveryRequest(
        scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS,
        known_groups=discovery_pb2.KnownGroups(hashes=hashes),
    ).SerializeToString()


def _expected(served: Served) -> _Tally:
    """Return the right responses, read before the restart."""
    answers = {path: get(served.http, path, {"accept": accept}) for path, accept in _ASKED}
    wanted = {path: answer.header("etag").strip('"') for path, answer in answers.items()}
    paths = orjson.loads(answers["/openapi/v3"].body)["paths"]
    return _Tally(wanted, paths["apis/g000.example.com/v1"]["serverRelativeURL"])


async def _all_cold(address: str, tally: _Tally) -> None:
    async with asyncio.timeout(_GIVE_UP_S), asyncio.TaskGroup() as clients:
        for _ in range(_COLD):
            clients.create_task(_cold(address, tally))


async def _cold(address: str, tally: _Tally) -> None:
    """Send requests until every response is right."""
    asked = [*_ASKED, (tally.url, "*/*")]
    pause = _PAUSE_S
    while asked:
        try:
            retry_after = await _ask(address, asked, tally)
        except ConnectionRefusedError:
            tally.refused += 1
            retry_after = 0.0
        except (OSError, EOFError) as error:
            tally.errors[type(error).__name__] += 1
            retry_after = 0.0
        if asked:
            await asyncio.sleep((retry_after or pause) * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
            pause = min(2 * pause, _LONGEST_PAUSE_S)
    tally.done_at.append(time.perf_counter())


async def _ask(address: str, asked: list[tuple[str, str]], tally: _Tally) -> float:
    """Remove what is answered rightly; return the seconds of Retry-After, 0 for none."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        while asked:
            path, accept = asked[0]
            writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            status, *lines = head.strip().split("\r\n")
            fields = dict(line.split(": ", 1) for line in lines)
            await reader.readexactly(int(fields.get("content-length", "0")))
            code, etag = int(status.split()[1]), fields.get("etag", "").strip('"').upper()
            if code == _OK and etag == tally.wanted.get(path, etag):
                asked.pop(0)
            else:
                tally.errors[str(code) if code != _OK else f"another {path}"] += 1
                return float(fields.get("retry-after", "0"))
    finally:
        writer.close()
    return 0.0


def _reconnect(folder: Path, served: Served, known: bytes, tally: _Tally) -> list[float]:
    """Return when each watch had the missed change."""
    file = folder / "watch"
    file.write_bytes(known)
    counts = (str(_CONNECTIONS), str(_PER_CONNECTION))
    with running(child_command("watches", served.grpc, _WATCH, file, *counts), piped=True) as child:
        result = read_line(child)
    etags = {
        discovery_pb2.WatchDiscoveryResponse.FromString(base64.b64decode(one)).changes.etag
        for one in cast("list[str]", result["messages"])
    }
    if etags != {tally.wanted["/apis"]}:
        raise Failed(f"watches got {etags}, not {tally.wanted['/apis']}")
    for what, count in cast("dict[str, int]", result["again"]).items():
        tally.errors[f"{what} (watch)"] += count
    return cast("list[float]", result["at"])


def _peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise Failed("/proc has no peak of memory")
