"""How soon OpenAPI shows a definition that is applied, in the index and in its document."""

import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import orjson
from crds import PER_GROUP, Document, crd
from plain_http import Answer, Connection
from processes import Failed, ask, serving
from registering import applying, fill
from report import Clock, Point, Row

SIZES = (3000, 10_000)
INDEX, DOCUMENT = "applied to listed", "applied to described"

_SECTION = "visible"
_PATH = "/openapi/v3"
_CHANGES = 20
_GIVE_UP_S = 120.0


def measure(folder: Path, sizes: Sequence[int], clock: Clock) -> Iterator[Row]:
    """Yield the first index at each size, and the times of changes of a schema."""
    for size in sizes:
        title = f"{size:,} CRDs in {size // PER_GROUP:,} groups"
        if clock.out():
            yield Row(_SECTION, title, "", skipped="out of time")
            continue
        with serving(folder, "--catalog", "none", "--store", "memory") as served:
            fill(served.grpc, map(crd, range(size)))
            connection = Connection(served.http)
            yield _first(connection, title)
            with applying(served.grpc) as caller:
                times = [_one(connection, caller, size, turn) for turn in range(1, _CHANGES + 1)]
        for name, found in zip((INDEX, DOCUMENT), zip(*times, strict=True), strict=True):
            ms = sorted(1000 * each for each in found)
            yield Row(
                _SECTION,
                f"{title}: {name}",
                "",
                f"median {statistics.median(ms):.0f}, worst {ms[-1]:.0f} ms",
                numbers={"ms": ms},
                point=Point(name, size, statistics.median(ms)),
            )


def _first(connection: Connection, title: str) -> Row:
    """Return how long the first index takes, and until it states the hash of every document."""
    began = time.perf_counter()
    answer = connection.get(_PATH, {})
    first_s = answer.read_at - began
    while b"?hash=" not in min(_urls(answer).values(), key=lambda url: b"?hash=" in url):
        if time.perf_counter() - began > _GIVE_UP_S:
            raise Failed("the index does not state all hashes")
        time.sleep(0.1)
        answer = connection.get(_PATH, {})
    whole_s = time.perf_counter() - began
    measured = f"after {first_s:.1f} s, all hashes after {whole_s:.1f} s"
    numbers: dict[str, object] = {"first_s": first_s, "whole_s": whole_s}
    return Row(_SECTION, f"{title}: the first index", "", measured, numbers=numbers)


def _one(
    connection: Connection, caller: subprocess.Popen[bytes], size: int, turn: int
) -> tuple[float, float]:
    """Apply another schema; return the seconds to the index and to the document that show it."""
    number = turn * 1597 % size
    document = crd(number)
    mark = f"Revision {turn}."
    key = _describe(document, mark)
    before = _urls(connection.get(_PATH, {}))[key]
    began = float(str(ask(caller, document)["before"]))
    while (url := _urls(connection.get(_PATH, {}))[key]) == before:
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
