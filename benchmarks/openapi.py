"""OpenAPI documents: making and requesting them, and how long other requests wait."""

import contextlib
import gzip
import http.client
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
import orjson
from apidiscovery_service.openapi.crd.document import Definition, crd_document
from apidiscovery_service.openapi.protobuf.documents import encode_v3
from apidiscovery_service.sources.manifests.file import read_documents
from crds import PER_GROUP, Document, applying, crd, fill, group_name
from load import Sample, Target, interleaved, missing
from plain_http import Answer, Connection, get
from processes import Failed, Served, ask, child_command, memory_mb, read_line, running, serving
from report import Clock, Point, Row
from startup import memory_row
from warm import LOADS, Case, empty, ratio_row

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


@dataclass(frozen=True, slots=True)
class _Effort:
    """The length of each comparison."""

    rounds: int
    seconds: int
    clock: Clock


def measure(folder: Path, rounds: int, seconds: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows of making documents, of memory, and of requests for them."""
    for package in sorted(_MANIFESTS.glob("*.yaml.gz")):
        yield _build_row(package)
    yield from measure_lag(CRDS)
    effort = _Effort(rounds, seconds, clock)
    with serving(folder, "--catalog", "none", "--store", "memory") as served:
        fill(served.grpc, map(crd, range(CRDS)))
        yield from _memory_rows(served)
        for name, path in (("index", _INDEX), ("document", _first_document(served))):
            for case in _cases(served, name, path):
                with empty(folder, case) as first, empty(folder, case) as second:
                    yield from _load_rows(case, served, (first, second), effort)


def _build_row(package: Path) -> Row:
    """Return how fast the documents of a real package are made, in this process."""
    text = gzip.decompress(package.read_bytes()).decode()
    objects = [cast("Any", one.value) for one in read_documents(text, package.name)]
    versions: dict[tuple[str, str], list[Definition]] = {}
    for one in objects:
        spec = one["spec"]
        names = spec["names"]
        for index, version in enumerate(spec["versions"]):
            definition = Definition(
                orjson.dumps(version),
                index,
                spec["scope"],
                names["plural"],
                names["kind"],
                names.get("listKind") or f"{names['kind']}List",
            )
            if version["served"]:
                versions.setdefault((spec["group"], version["name"]), []).append(definition)
    makes = [partial(crd_document, *key, found) for key, found in versions.items()]
    documents, made_s = _best(lambda: [make() for make in makes])
    _, encoded_s = _best(lambda: [encode_v3(document) for document in documents])
    size = sum(map(len, documents)) / 1e6
    return Row(
        _SECTION,
        f"{package.name.partition('.')[0]}: {len(objects)} CRDs, {size:.1f} MB of documents",
        "",
        f"JSON {size / made_s:.0f} MB/s, protobuf {size / encoded_s:.1f} MB/s",
        numbers={"megabytes": size, "json_s": made_s, "protobuf_s": encoded_s},
    )


def _best(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of some work, and its shortest time."""
    done: list[tuple[float, T]] = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        result = work()
        done.append((time.perf_counter() - began, result))
    seconds, result = min(done, key=itemgetter(0))
    return result, seconds


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


def _first_document(served: Served) -> str:
    paths = json.loads(get(served.http, _INDEX, {}).body)["paths"]
    return str(paths[f"apis/{group_name(1)}/v1"]["serverRelativeURL"])


def _cases(served: Served, name: str, path: str) -> Iterator[Case]:
    etag = get(served.http, path, {}).header("etag")
    for kind, headers in (
        ("304", {"if-none-match": etag}),
        ("200", {}),
        ("200 gzip", {"accept-encoding": "gzip"}),
    ):
        answer = get(served.http, path, headers)
        if answer.status != int(kind[:3]):
            raise Failed(f"{path}: {served.http} answers {answer.status}")
        yield Case(f"{name}, {kind}", path, headers, answer)


def _load_rows(
    case: Case, served: Served, opponents: tuple[Target, Target], effort: _Effort
) -> Iterator[Row]:
    tool, load = LOADS["HTTP/1.1"]
    reason = missing(tool) or ("out of time" if effort.clock.out() else None)
    if reason:
        yield Row(_SECTION, case.name, "", skipped=reason)
        return
    targets = {
        "empty": opponents[0],
        "ours": Target(served.pid, f"http://{served.http}{case.file}"),
        "control": opponents[1],
    }
    runs: dict[str, Callable[[], Sample]] = {
        key: partial(load, target, case.headers, effort.seconds) for key, target in targets.items()
    }
    samples = interleaved(runs, effort.rounds, effort.clock.out)
    yield ratio_row(_SECTION, case.name, samples, len(case.answer.body))


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
