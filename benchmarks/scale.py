"""How start, memory and changes grow with the number of CustomResourceDefinitions."""

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from changes import times, visible_row
from crds import AT_ONCE, BATCH, PER_GROUP, change, crd, fill, write_folder
from processes import Served, serving
from report import Clock, Point, Row
from startup import memory_row, read_each_representation

SIZES = (500, 1000, 3000, 10_000)
BUDGET_SIZE = 3000
START_S = 5.0

# What curves are called.
START, MEMORY, READ = "start to ready", "memory", "applied to all of the document read"

_CHANGES = 60
# YAML is read many times slower than JSON; one size is enough.
_YAML_SIZE = BUDGET_SIZE


def measure(folder: Path, sizes: Sequence[int], repeats: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows of each size, the empty server first."""
    store = f"sqlite:{folder / 'scale.sqlite'}"
    filled = 0
    for size in (0, *sizes):
        if clock.out():
            yield Row("scale", _title(size), "", skipped="out of time")
            continue
        if size > filled:
            yield _fill(folder, store, filled, size)
            filled = size
        yield from _of_size(folder, store, size, repeats)


def _title(size: int) -> str:
    return f"{size:,} CRDs in {size // PER_GROUP:,} groups" if size else "empty"


def _fill(folder: Path, store: str, begin: int, end: int) -> Row:
    with serving(folder, "--catalog", "none", "--store", store) as served:
        began = time.perf_counter()
        fill(served.grpc, map(crd, range(begin, end)))
        took = time.perf_counter() - began
    rate = (end - begin) / took
    name = f"{_title(end)}: {end - begin:,} applied, {BATCH} with each request, {AT_ONCE} at a time"
    numbers: dict[str, object] = {"seconds": took}
    return Row("scale", name, "", f"{took:.1f} s, {rate:,.0f}/s", numbers=numbers)


def _of_size(folder: Path, store: str, size: int, repeats: int) -> Iterator[Row]:
    flags = ("--catalog", "none", "--store", store)
    yield _start_row(folder, "the store", size, flags, repeats)
    with serving(folder, *flags) as served:
        yield from _memory_rows(served, size)
        if not size:
            fill(served.grpc, map(crd, range(PER_GROUP)))
        yield from _change_rows(served, size)
    if size:
        manifests = write_folder(folder / f"json-{size}", size, ".json")
        yield _start_row(folder, "a folder of JSON files", size, _reading(manifests), repeats)
    if size == _YAML_SIZE:
        manifests = write_folder(folder / f"yaml-{size}", size, ".yaml")
        yield _start_row(folder, "a folder of YAML files", size, _reading(manifests), 1)


def _change_rows(served: Served, size: int) -> Iterator[Row]:
    """Change some definitions; at size 0 there is one group."""
    # Revisions that no other size has used, since the store is the same.
    revisions = range(size + 1, size + 1 + _CHANGES)
    count = size or PER_GROUP
    found = times(served, "identity", [(number, change(number, count)) for number in revisions])
    name = f"{_title(size) if size else 'one group'}: a changed one"
    yield visible_row("scale", f"{name}, visible over HTTP, JSON", found["asked"])
    point = Point(READ, size)
    yield visible_row("scale", f"{name}, all of the document there", found["body"], point=point)


def _reading(manifests: Path) -> tuple[str, ...]:
    return ("--catalog", "none", "--manifests", str(manifests))


def _start_row(folder: Path, source: str, size: int, flags: tuple[str, ...], repeats: int) -> Row:
    taken: list[float] = []
    for _ in range(repeats):
        with serving(folder, *flags) as served:
            taken.append(served.start_s)
    judged = size == BUDGET_SIZE
    best = min(taken)
    return Row(
        "scale",
        f"{_title(size)}: start to ready, from {source}",
        f"<= {START_S:.0f} s" if judged else "",
        f"best {best:.2f} s, median {statistics.median(taken):.2f} s",
        passed=statistics.median(taken) <= START_S if judged else None,
        numbers={"seconds": taken},
        point=Point(f"{START}, from {source}", size, best),
    )


def _memory_rows(served: Served, size: int) -> Iterator[Row]:
    judged = size == BUDGET_SIZE
    name = f"{_title(size)}: memory when ready"
    point = Point(f"{MEMORY} when ready", size)
    yield memory_row("scale", name, served, budget=judged, point=point)
    read_each_representation(served)
    name = f"{_title(size)}: memory, each representation served once"
    point = Point(f"{MEMORY}, each representation served once", size)
    yield memory_row("scale", name, served, budget=judged, point=point)


def curves(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """Return the values by size of each curve."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.point:
            found.setdefault(row.point.curve, {})[row.point.size] = row.point.value
    return found
