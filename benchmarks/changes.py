"""The time from the change of one group among thousands until clients see it."""

import gzip
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from children import UNLIMITED
from crds import Document, applying, change, crd, fill, marker
from plain_http import V2_JSON, Connection
from processes import (
    Failed,
    Served,
    ask,
    child_command,
    memory_mb,
    read_line,
    running,
    serving,
    tell,
)
from report import Clock, Point, Row
from startup import memory_row, read_each_representation

GROUPS = 3000
BUDGET_MS = 5.0

_GIVE_UP_S = 10.0

# Times by name, such as `head` and `body`.
Seen = dict[str, float]
_Await = Callable[[], tuple[str, Seen]]

CRDS = 3000

# Polling without a pause would take CPU time from the server; the pause counts.
_PAUSE_S = 0.0003


def measure(resources: int, changes: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows for groups of so many resources."""
    command = child_command("changes", str(GROUPS), str(resources))
    with running(command, piped=True) as child:
        addresses = read_line(child)
        title = f"{GROUPS} groups x {resources}"
        budget = resources == 1  # as custom resources have it
        published = [_publish_ms(ask(child, "change")) for _ in range(changes)]
        yield _published_row(f"{title}: publish", published, budget=budget)
        for coding in ("identity", "gzip"):
            if clock.out():
                yield Row("change", f"{title}: {coding}", "", skipped="out of time")
                continue
            polling = Polling(str(addresses["http"]), coding)
            found = _times(child, polling.until_changed, changes)
            polling.close()
            name = "JSON" if coding == "identity" else "gzip"
            yield _published_row(f"{title}: HTTP {name}, new ETag", found["head"], budget=budget)
            yield _published_row(f"{title}: HTTP {name}, whole body", found["body"], budget=False)
        with grpc.insecure_channel(str(addresses["grpc"]), options=UNLIMITED) as channel:
            found = _times(child, _Watching(channel).until_changed, changes)
            yield _published_row(f"{title}: gRPC watch", found["message"], budget=budget)
        memory = memory_mb(child.pid)
        text = f"RSS {memory['Rss']:.0f} MB, PSS {memory['Pss']:.0f} MB"
        yield Row(
            "change", f"{title}: memory after {changes * 4} changes", "", text, numbers=dict(memory)
        )


def _publish_ms(result: dict[str, object]) -> float:
    return (float(str(result["after"])) - float(str(result["before"]))) * 1000


def _times(
    child: subprocess.Popen[bytes], until_changed: _Await, changes: int
) -> dict[str, list[float]]:
    """Make changes one by one; return the milliseconds after each change, by name of the time."""
    found: dict[str, list[float]] = {}
    for _ in range(changes):
        tell(child, "change")
        etag, seen = until_changed()
        result = read_line(child)
        if etag != result["etag"]:
            raise Failed(f"a client saw {etag}, {result['etag']} was published")
        for moment, at in seen.items():
            found.setdefault(moment, []).append((at - float(str(result["before"]))) * 1000)
    return found


class Polling:
    """A client that polls with its ETag.

    Args:
        address: The server.
        coding: The content coding.
        pause_s: Between a response and the next request.

    Attributes:
        body: The document, in that coding.
    """

    def __init__(self, address: str, coding: str, pause_s: float = 0.0) -> None:
        self.body = b""
        self._pause_s = pause_s
        self._headers = {"accept": V2_JSON, "accept-encoding": coding, "if-none-match": '""'}
        self._connection = Connection(address)
        self.until_changed()

    def until_changed(self) -> tuple[str, Seen]:
        """Poll until the document has changed."""
        deadline = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < deadline:
            asked_at = time.perf_counter()
            answer = self._connection.get("/apis", self._headers)
            etag = answer.header("etag")
            if etag != self._headers["if-none-match"]:
                self._headers["if-none-match"] = etag
                self.body = answer.body
                seen = {"asked": asked_at, "head": answer.head_at, "body": answer.read_at}
                return etag.strip('"'), seen
            if self._pause_s:
                time.sleep(self._pause_s)
        raise Failed(f"no change within {_GIVE_UP_S} s")

    def close(self) -> None:
        self._connection.close()


class _Watching:
    """A client of WatchDiscovery."""

    def __init__(self, channel: grpc.Channel) -> None:
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        request = discovery_pb2.WatchDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS)
        self._messages = stub.WatchDiscovery(request)
        next(self._messages)

    def until_changed(self) -> tuple[str, Seen]:
        """Return the next message with changes."""
        for message in self._messages:
            if message.HasField("changes"):
                return message.changes.etag, {"message": time.perf_counter()}
        raise Failed("the watch ended")


def _published_row(name: str, times_ms: list[float], *, budget: bool) -> Row:
    ordered = sorted(times_ms)
    median, p95 = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
    return Row(
        "change",
        name,
        f"median <= {BUDGET_MS:.0f} ms" if budget else "",
        f"median {median:.1f}, p95 {p95:.1f}, max {ordered[-1]:.1f} ms",
        passed=median <= BUDGET_MS if budget else None,
        series=times_ms,
        numbers={"median_ms": median, "p95_ms": p95, "max_ms": ordered[-1]},
    )


def measure_applied(folder: Path, changes: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows for a store in a file, then those for one in memory."""
    stores = {"sqlite": f"sqlite:{folder / 'apply.sqlite'}", "memory": "memory"}
    for name, store in stores.items():
        title = f"{CRDS} CRDs, {name}"
        if clock.out():
            yield Row("apply", title, "", skipped="out of time")
            continue
        with serving(folder, "--catalog", "none", "--store", store) as served:
            fill(served.grpc, map(crd, range(CRDS)))
            yield from _applied_rows(served, title, changes)
            read_each_representation(served)
            yield memory_row(
                "apply", f"{title}: memory after all that, and everything read", served
            )


def _applied_rows(served: Served, title: str, changes: int) -> Iterator[Row]:
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
            seen, result = _apply(child, document, polling)
            if f'"{marker(revision)}"'.encode() not in read(polling.body):
                raise Failed(f"another ETag, but {marker(revision)} is not in the document")
            before = float(str(result["before"]))
            found["answered"].append((float(str(result["after"])) - before) * 1000)
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
