"""From Apply of one definition among thousands to clients in other processes that see it."""

import gzip
import statistics
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from changes import Polling
from crds import Document, change, crd, marker
from processes import Failed, Served, read_line, serving, tell
from registering import applying, fill
from report import Clock, Point, Row
from startup import memory_row, read_each_representation

CRDS = 3000
BUDGET_MS = 5.0

# So that questions do not take the processors from what is measured; it counts as part of it.
_PAUSE_S = 0.0003


def measure(folder: Path, changes: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows for a store in a file, then those for one in memory."""
    stores = {"sqlite": f"sqlite:{folder / 'apply.sqlite'}", "memory": "memory"}
    for name, store in stores.items():
        title = f"{CRDS} CRDs, {name}"
        if clock.out():
            yield Row("apply", title, "", skipped="out of time")
            continue
        with serving(folder, "--catalog", "none", "--store", store) as served:
            fill(served.grpc, map(crd, range(CRDS)))
            yield from _rows(served, title, changes)
            read_each_representation(served)
            yield memory_row(
                "apply", f"{title}: memory after all that, and everything read", served
            )


def _rows(served: Served, title: str, changes: int) -> Iterator[Row]:
    def new(number: int) -> Document:
        return crd(CRDS + number, number)

    def changed(number: int) -> Document:
        return change(number, CRDS)

    began = 1
    for what, coding, make in (
        ("a new one", "identity", new),
        ("a changed one", "identity", changed),
        ("a changed one", "gzip", changed),
    ):
        numbers = range(began, began + changes)
        began = numbers.stop
        found = times(served, coding, [(number, make(number)) for number in numbers])
        row, name = f"{title}: {what}", "JSON" if coding == "identity" else "gzip"
        if coding == "identity":  # the call is the same whatever others ask for
            yield visible_row("apply", f"{row}, answered", found["answered"])
        yield visible_row("apply", f"{row}, visible over HTTP, {name}", found["asked"], budget=True)
        yield visible_row("apply", f"{row}, its new ETag there, {name}", found["head"])
        yield visible_row("apply", f"{row}, all of the document there, {name}", found["body"])


def times(
    served: Served, coding: str, documents: list[tuple[int, Document]]
) -> dict[str, list[float]]:
    """Apply documents one by one; return milliseconds from the call to each moment after it.

    Args:
        served: A server that has settled.
        coding: Of the answers that the client asks for.
        documents: Each with the revision that shows in a discovery document.

    Returns:
        `answered` for the end of the call; `asked`, `head` and `body` for the first question that
        the client got another ETag for, and for its answer, which must show the revision.
    """
    found: dict[str, list[float]] = {"answered": [], "asked": [], "head": [], "body": []}
    polling = Polling(served.http, coding, _PAUSE_S)
    read: Callable[[bytes], bytes] = gzip.decompress if coding == "gzip" else bytes
    with applying(served.grpc) as child:
        for revision, document in documents:
            seen, told = _apply(child, document, polling)
            if f'"{marker(revision)}"'.encode() not in read(polling.body):
                raise Failed(f"another ETag, but {marker(revision)} is not in the document")
            before = float(str(told["before"]))
            found["answered"].append((float(str(told["after"])) - before) * 1000)
            for moment, at in seen.items():
                found[moment].append((at - before) * 1000)
    polling.close()
    return found


def _apply(
    child: subprocess.Popen[bytes], document: Document, polling: Polling
) -> tuple[dict[str, float], dict[str, object]]:
    tell(child, document)
    _, seen = polling.until_changed()
    return seen, read_line(child)


def visible_row(
    section: str,
    name: str,
    times_ms: list[float],
    *,
    budget: bool = False,
    point: Point | None = None,
) -> Row:
    """Return the row of times in milliseconds, whose median is judged."""
    ordered = sorted(times_ms)
    median, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    return Row(
        section,
        name,
        f"median <= {BUDGET_MS:.0f} ms" if budget else "",
        f"median {median:.1f}, p99 {p99:.1f} ms",
        passed=median <= BUDGET_MS if budget else None,
        series=times_ms if budget else (),
        numbers={"median_ms": median, "p99_ms": p99, "all_ms": times_ms},
        point=point and Point(point.curve, point.size, median),
    )
