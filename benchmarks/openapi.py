"""OpenAPI documents: their index, and how long other requests wait meanwhile."""

import contextlib
import http.client
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
import orjson
from crds import PER_GROUP, Document, applying, crd, fill
from plain_http import Answer, Connection, get
from processes import Failed, Served, ask, child_command, memory_mb, read_line, running, serving
from report import Clock, Point, Row
from startup import memory_row

CRDS = 3000

_MANIFESTS = Path(__file__).parent.parent / "tests" / "golden" / "crds" / "manifests"
_INDEX = "/openapi/v3"
_REPEATS = 5
_SECTION = "openapi"

T = TypeVar("T")

_IDLE_S = 2.0
_WIDEST, _LONGEST = 10_000, 128 * 1024
_BUFFER = 1 << 20

SIZES = (3000, 10_000)
INDEX, DOCUMENT = "applied to listed", "applied to described"

_VISIBLE = "visible"
_CHANGES = 20
_GIVE_UP_S = 120.0


def measure(folder: Path) -> Iterator[Row]:
    """Yield the latencies of other requests, then the time and the memory of the first index."""
    yield from measure_lag(CRDS)
    with serving(folder, "--catalog", "none", "--store", "memory") as served:
        fill(served.grpc, map(crd, range(CRDS)))
        yield from _memory_rows(served)


def _memory_rows(served: Served) -> Iterator[Row]:
    before = memory_mb(served.pid)["Rss"]
    yield memory_row(_SECTION, f"{CRDS} CRDs, no document asked for", served)
    began = time.perf_counter()
    answer = get(served.http, _INDEX, {})
    took = time.perf_counter() - began
    count = len(json.loads(answer.body)["paths"])
    yield Row(_SECTION, f"first index of {count} documents", "", f"{took:.2f} s")
    began = time.perf_counter()
    get(served.http, _INDEX, {})
    again = time.perf_counter() - began
    yield Row(_SECTION, "the same again", "", f"{again * 1000:.1f} ms")
    more = memory_mb(served.pid)["Rss"] - before
    yield Row(
        _SECTION,
        f"{CRDS} CRDs, memory that the index adds",
        "",
        f"{more:.0f} MB",
        numbers={"megabytes": more},
    )
    fill(served.grpc, [crd(0, 1)])
    began = time.perf_counter()
    get(served.http, _INDEX, {})
    took = (time.perf_counter() - began) * 1000
    yield Row(_SECTION, "index after one definition changed", "", f"{took:.1f} ms")


def measure_lag(crds: int) -> Iterator[Row]:
    """Yield the latencies of a poller of `/apis`, idle and with each load.

    Args:
        crds: The number of definitions in the merged document.
    """
    with tempfile.TemporaryDirectory(prefix="apidiscovery-lag-") as folder:
        flags = ("--catalog", "none", "--store", "memory")
        with serving(Path(folder), *flags) as served:
            fill(served.grpc, map(crd, range(crds)))
            with _polling(served.http) as poller:
                yield _row("nothing", poller, lambda: time.sleep(_IDLE_S))
                for name, work in _loads(served):
                    yield _row(name, poller, work)


def _loads(served: Served) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "the first index", partial(_read, served, "/openapi/v3")
    yield "the first merged document", partial(_read, served, "/openapi/v2")
    yield "the merged document again", partial(_read, served, "/openapi/v2")
    for number, (name, schema) in enumerate(_hostile().items()):
        definition = crd(number * PER_GROUP)
        yield f"a schema with {name}", partial(_all_of_it, served, _with(definition, schema))


def _hostile() -> dict[str, Document]:
    fields = {f"field{number}": {"type": "string"} for number in range(_WIDEST)}
    wide: Document = {"type": "object", "properties": fields}
    wider = {f"field{number}": {"type": "string"} for number in range(60_000)}
    return {
        f"{_WIDEST} properties": wide,
        "60000 properties": {"type": "object", "properties": wider},
        "60000 properties in six": {
            "type": "object",
            "properties": {f"g{number}": wide for number in range(6)},
        },
        "300000 escapes": {"type": "object", "description": "<&>" * 100_000},
        "the longest text": {"type": "object", "description": '"\n' * (_LONGEST // 2)},
    }


def _with(definition: Document, schema: Document) -> Document:
    spec = definition["spec"]
    if not isinstance(spec, dict):
        raise TypeError(spec)
    spec["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return definition


def _all_of_it(served: Served, definition: Document) -> None:
    """Apply a definition, and request its document in both forms."""
    with contextlib.suppress(grpc.RpcError):  # what is too wide is refused
        fill(served.grpc, [definition])
    spec = definition["spec"]
    if not isinstance(spec, dict):
        raise TypeError(spec)
    path = f"/openapi/v3/apis/{spec['group']}/v1"
    for accept in (
        "application/json",
        "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    ):
        get(served.http, path, {"accept": accept})


def _read(served: Served, path: str) -> None:
    """Request a document and drop it."""
    connection = http.client.HTTPConnection(served.http, timeout=120)
    connection.request("GET", path)
    answer, buffer = connection.getresponse(), bytearray(_BUFFER)
    while answer.readinto(buffer):
        pass
    connection.close()


@contextlib.contextmanager
def _polling(address: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a process that polls `/apis` every 2 ms."""
    with running(child_command("poll", address), piped=True) as poller:
        read_line(poller)
        yield poller


def _row(name: str, poller: subprocess.Popen[bytes], work: Callable[[], None]) -> Row:
    ask(poller, "begin")
    work()
    return _lag_row(name, sorted(cast("list[float]", ask(poller, "end")["lags_ms"])))


def _lag_row(name: str, lags: Sequence[float]) -> Row:
    p99, worst = lags[int(len(lags) * 0.99)], lags[-1]
    return Row(
        _SECTION,
        f"/apis polled while there is {name}",
        "",
        f"worst {worst:.1f} ms, p99 {p99:.1f} ms",
        numbers={"worst_ms": worst, "p99_ms": p99, "polls": len(lags)},
    )


def measure_visible(folder: Path, sizes: Sequence[int], clock: Clock) -> Iterator[Row]:
    """Yield the first index at each size, and the times of changes of a schema."""
    for size in sizes:
        title = f"{size:,} CRDs in {size // PER_GROUP:,} groups"
        if clock.out():
            yield Row(_VISIBLE, title, "", skipped="out of time")
            continue
        with serving(folder, "--catalog", "none", "--store", "memory") as served:
            fill(served.grpc, map(crd, range(size)))
            connection = Connection(served.http)
            yield _first_index(connection, title)
            with applying(served.grpc) as caller:
                times = [
                    _change_schema(connection, caller, size, turn)
                    for turn in range(1, _CHANGES + 1)
                ]
        for name, found in zip((INDEX, DOCUMENT), zip(*times, strict=True), strict=True):
            ms = sorted(1000 * each for each in found)
            yield Row(
                _VISIBLE,
                f"{title}: {name}",
                "",
                f"median {statistics.median(ms):.0f}, worst {ms[-1]:.0f} ms",
                numbers={"ms": ms},
                point=Point(name, size, statistics.median(ms)),
            )


def _first_index(connection: Connection, title: str) -> Row:
    """Return the time of the first index, and until it has the hash of every document."""
    began = time.perf_counter()
    answer = connection.get(_INDEX, {})
    first_s = answer.read_at - began
    while b"?hash=" not in min(_urls(answer).values(), key=lambda url: b"?hash=" in url):
        if time.perf_counter() - began > _GIVE_UP_S:
            raise Failed("the index does not state all hashes")
        time.sleep(0.1)
        answer = connection.get(_INDEX, {})
    whole_s = time.perf_counter() - began
    measured = f"after {first_s:.1f} s, all hashes after {whole_s:.1f} s"
    numbers: dict[str, object] = {"first_s": first_s, "whole_s": whole_s}
    return Row(_VISIBLE, f"{title}: the first index", "", measured, numbers=numbers)


def _change_schema(
    connection: Connection, caller: subprocess.Popen[bytes], size: int, turn: int
) -> tuple[float, float]:
    """Apply another schema; return the seconds to the index and to the document that show it."""
    number = turn * 1597 % size
    document = crd(number)
    mark = f"Revision {turn}."
    key = _describe(document, mark)
    before = _urls(connection.get(_INDEX, {}))[key]
    began = float(str(ask(caller, document)["before"]))
    while (url := _urls(connection.get(_INDEX, {}))[key]) == before:
        if time.perf_counter() - began > _GIVE_UP_S:
            raise Failed(f"{key} does not change in the index")
    listed = time.perf_counter()
    answer = connection.get(url.decode(), {})
    if answer.status != 200 or mark.encode() not in answer.body:  # noqa: PLR2004 - OK
        raise Failed(f"{url!r} does not show the change")
    return listed - began, answer.read_at - began


def _describe(document: Document, mark: str) -> str:
    """Put a mark into a schema; return the key of its document."""
    spec = cast("dict[str, Any]", document["spec"])
    spec["versions"][0]["schema"]["openAPIV3Schema"]["description"] = mark
    return f"apis/{spec['group']}/v1"


def _urls(answer: Answer) -> dict[str, bytes]:
    paths = cast("dict[str, dict[str, str]]", orjson.loads(answer.body)["paths"])
    return {key: fields["serverRelativeURL"].encode() for key, fields in paths.items()}
