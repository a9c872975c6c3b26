"""OpenAPI documents: making them, asking for them, and what it costs not to ask for them."""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, cast

import openapi_lag
import orjson
from apidiscovery_service.openapi.crd.document import Definition, crd_document
from apidiscovery_service.openapi.protobuf.documents import encode_v3
from apidiscovery_service.sources.manifests.file import read_documents
from crds import crd, group_name
from load import Sample, Target, interleaved, missing
from plain_http import get
from processes import Failed, Served, memory_mb, serving
from registering import fill
from report import Clock, Row
from startup import memory_row
from warm import LOADS, Case, empty, ratio_row

CRDS = 3000

_MANIFESTS = Path(__file__).parent.parent / "tests" / "golden" / "crds" / "manifests"
_INDEX = "/openapi/v3"
_REPEATS = 5
_SECTION = "openapi"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Effort:
    """How long each comparison goes on."""

    rounds: int
    seconds: int
    clock: Clock


def measure(folder: Path, rounds: int, seconds: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows of making documents, of memory, and of requests for them."""
    for package in sorted(_MANIFESTS.glob("*.yaml.gz")):
        yield _build_row(package)
    yield from openapi_lag.measure(CRDS)
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
    """Return the result of some work, and the shortest time that it took."""
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
