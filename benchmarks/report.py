"""Rows of the result: printed, written as JSON and as Markdown, and the page."""

import datetime as dt
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("granian", "uvloop", "grpcio", "protobuf", "orjson", "zstandard")

_TITLES = {
    "change": "A change, published in the process",
    "apply": "A change, applied over gRPC",
    "start": "Start, and memory, from one file",
    "command": "The command line, beside kubectl",
    "scale": "Growth with the number of CustomResourceDefinitions",
    "upstreams": "Upstreams",
    "openapi": "OpenAPI documents",
    "visible": "OpenAPI of what is applied",
    "storm": "A restart under a storm of clients",
    "grpc": "gRPC",
    "tls": "Warm requests over TLS",
    "warm": "Warm requests",
    "nginx": "nginx, for comparison",
    "storage-versions": "Storage versions",
    "clients": "Clients",
}

_METHOD = """\
Numbers of different machines, or of one machine at different hours, do not compare: on the one
here the same server varies by a fifth from run to run. So whatever has to be fast is measured side
by side with something that cannot be faster, and the ratio is the result.

**Warm requests.** `apidiscovery serve` with 600 groups of 5 resources, against an *empty handler*:
a process of its own with the same HTTP server and settings, whose application sends the same
status, headers and body from two constants. `wrk` (HTTP/1.1) and `h2load` (HTTP/2 without TLS, one
request at a time on a connection) keep 16 connections busy. The runs of a round follow each other,
in alternating order: an empty handler, the server, a second empty handler. The ratio is the median
over the rounds of the server's rate by the mean of the other two; *best* is best rate by best rate,
*cpu* the ratio of computing time for one answer, and *control* the second empty handler by the
first: how far it is from 1 is how far a ratio can be trusted. A budget that the rate misses and the
computing time keeps is *unclear*.
nginx, with one worker, serves the same bytes from files.

**Over TLS** the same, with HTTP/2 agreed upon in the handshake. The empty handler has Granian's own
TLS, which the server does not use ([why](decisions/0010-terminating-tls.md)): the ratio is
the price of client certificates and of certificates that are read again.

gRPC is measured in the same way with `grpc.aio` callers, 16 calls at a time, against an empty
handler on `grpc.aio`. The callers are no faster than the servers, so here computing time is judged.

**Changes.** One process serves 3,000 groups, each the only one of its source, and replaces one of
them at a time, by `Registry.publish`, somewhere in the list. *Publish* is that call alone. A client
in another process either asks over HTTP without pause with the ETag that it has, or waits on
WatchDiscovery; the clock runs from the call of `publish` to the first answer with the new ETag, or
to the message. That first answer carries the whole document, so encoding and compressing count.
The budget is that of 19 changes in 20 where a group has one resource, as custom resources do; five
times the text is hashed and sent five times as long.

**Applied.** A process calls `RegistryService.Apply` with one CustomResourceDefinition of 1.5 kB, a
new one in a group behind the 600 that are there, or a changed one somewhere among their 3,000.
Another process asks over HTTP with the ETag that it has, on one connection, 0.3 ms after each
answer: on two cores more questions would take time from the answer. The clock runs from the call of
Apply. It is *visible* as soon as a question that is asked then sees it: the moment is that at which
the first question is sent whose answer has another ETag, so that what the wait between questions
costs is in it, and what 1.4 MB cost to send is not. That is in the rows that follow: when the head
of this answer is there, and when all of it is. Whether the document has the change is looked at
afterwards. *Answered* is the end of the call: the change, and the status that follows from it, are
durable.

**Start and memory.** From the start of the process until the ready file is there, best and median
of 3; the files have been read before, so the disk does not count. Memory is that of the server
process from `/proc`, RSS judged; *each representation* is JSON, YAML, protobuf, pretty JSON, v2,
v2beta1 and unaggregated, plain, gzip and zstd, and the document over gRPC.

**Growth.** One SQLite store is filled through Apply to one size after the other. At each size:
start from the store and from a folder with a JSON file for each definition (a YAML file at 3,000),
memory, and 60 changes as above; with the empty server they are changes of the only group. The
exponent is that of the curve `constant + rate * size^exponent` that fits best, by least squares of
the relative errors: 1 is linear, 2 would be four times the cost for twice the size.

**OpenAPI of what is applied.** The server has so many definitions, in memory. The first index after
that, and how long it takes until every document in it has its hash. Then 20 times another
description of one of them is applied: *listed* is the first index in which its document has another
hash, asked for again and again on one connection, *described* the end of that document, which has
the new text; both from the call of Apply. An index of 2,000 documents has 400 kB.

**Storm.** A server with 200 definitions in SQLite is ended after the last of them has changed; the
clock runs from the start of the next one. 1,000 cold clients, each on a connection of its own, try
from the first moment on until `/api`, `/apis`, the OpenAPI index and one document are right by
their ETags, 0.5 s after a failure and twice as long each time, 4 s at most, or as `Retry-After`
says. When the server is ready, 5,000 watches with what they knew before begin, ten on a
connection; a refused call is begun again 5 s later. All come from one address, as behind one NAT.
Run it with `make bench ARGS="--only storm"`.

**Upstreams.** One process is 100 API servers, each with 50 groups of 5 resources, that answer
`/api` and `/apis` and always 304 to their own ETag. The server asks each every second; a round is
all of them once. CPU seconds, of the server alone, and bytes with the heads of requests and answers
are the mean of 8 rounds.

**Storage versions.** `apidiscovery serve --feature-gates StorageVersionAPI=true`; 5 API servers
report 500 resources each, on connections of their own, into an empty store. *Writes* is how far the
store's revision goes on meanwhile: each entry that changes is acknowledged by itself, so one write
each is the least. The clock runs from the first report to the last answer; median of the rounds.

The watchers are 1,000 streams on 10 connections, and for HTTP 1,000 connections, in one process
whose client takes some microseconds for a message, since a thousand usual ones would need more than
the server; the two cores are still shared by the server, this process and the one that reports. One
object with 5 entries changes, the next time when all have heard of it, 20 times a round. The clock
runs from the report, whose write is in it, to the arrival at each. The empty handler is a stream of
`grpc.aio` that sends the same message from a constant: the ratio is that of computing time, of the
report as well, and *paired* that of messages a second. Memory is what RSS has grown by after
each watcher has got a message. An upgrade is 5 servers that report 500 resources in another version
one after the other; those who wait are told by WaitForAgreement. All that but the reports is with
SQLite.

**Clients.** A server with 63 groups, 123 group-versions and 4 resources in each answers as
kube-apiserver 1.32 does, 20 ms after each request: aggregated and not, JSON and protobuf, with
ETags, and with gzip where that is asked for and the answer has 128 KiB. It is a process of its own
and counts; bytes are all that it sends, with heads. Those that talk gRPC ask `apidiscovery serve`
with the same groups, through a proxy that hands on what they send 20 ms later; its bytes include
what HTTP/2 adds, and an answer that nothing has changed has the hash of each group. Each client is
a process of its own. Seconds are from the first question of a client to the answer, without imports
that come before, and for a command line from start to end. Memory is the peak of RSS, beyond that
of the same process without a client, and of a command line in all.

A kind is asked for by its name alone, except with lightkube, which wants group and version too, has
those of Kubernetes built in, and knows others when it is told to list the definitions. An answer is
right if group, version, plural and scope are. *Made sure* is what it costs to know that nothing has
changed; who cannot goes on believing what is kept. The kind that nobody serves is asked for by a
client that knows all others. The group that does not answer is Stale in the aggregated document,
without resources, and 503 else; *told* is who asks for a kind of it and hears more than that there
is no such kind. While a watch is up, 200 questions are answered, and then one for a kind that the
server was given meanwhile. `kubectl` is what is installed; some builds ask for `/version` each
time, which counts. Its question for objects, by which its answer is seen, does not.

Reproduce with `make bench`; `make bench ARGS=--help` tells more.
"""


class Clock:
    """How much of the time for everything is left."""

    def __init__(self, limit_s: float) -> None:
        self._end = time.monotonic() + limit_s

    def out(self, reserve_s: float = 0.0) -> bool:
        """Tell whether less than the reserve is left."""
        return time.monotonic() + reserve_s > self._end


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve over sizes.

    Attributes:
        curve: What is measured, with its unit.
        size: How many definitions there are.
    """

    curve: str
    size: int
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the result.

    Attributes:
        section: What it belongs to, one of those that `--only` takes.
        budget: What is wanted; empty for a number that only informs.
        passed: None without a budget.
        unclear: The budget is missed, but the machine was too noisy to say so.
        skipped: Why it was not measured.
        ratio: What the plot shows as a bar.
        series: Times in milliseconds that the plot shows as a distribution.
        numbers: What else was measured.
        point: What the picture of sizes shows.
    """

    section: str
    name: str
    budget: str
    measured: str = ""
    passed: bool | None = None
    skipped: str = ""
    unclear: bool = False
    ratio: float | None = None
    series: Sequence[float] = ()
    numbers: dict[str, object] = field(default_factory=dict[str, object])
    point: Point | None = None

    @property
    def failed(self) -> bool:
        return self.passed is False and not self.unclear

    @property
    def verdict(self) -> str:
        if self.skipped:
            return f"skipped: {self.skipped}"
        if self.passed is None:
            return ""
        if self.unclear:
            return "unclear"
        return "pass" if self.passed else "FAIL"


def table(rows: Sequence[Row]) -> str:
    """Return rows in columns for a terminal."""
    lines = [("what", "budget", "measured", "")]
    lines += [(row.name, row.budget, row.measured, row.verdict) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        "  ".join(
            [*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]]
        ).rstrip()
        for line in lines
    )


def markdown_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = ["| what | budget | measured | |", "|---|---|---|---|"]
    lines += [f"| {r.name} | {r.budget} | {r.measured} | {r.verdict} |" for r in rows]
    return "\n".join(lines)


def machine() -> str:
    """Describe what was measured on, without its name."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    tools = ", ".join(_tool_versions()) or "no load tools"
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release()}; "
        f"Python {platform.python_version()}, {packages}; {tools}"
    )


def _tool_versions() -> list[str]:
    found: list[str] = []
    for tool, flag, word in (("wrk", "-v", 1), ("h2load", "--version", 1), ("nginx", "-v", 2)):
        path = shutil.which(tool)
        if path:
            done = subprocess.run([path, flag], capture_output=True, text=True, check=False)
            words = (done.stdout + done.stderr).split()
            found.append(f"{tool} {words[word].rpartition('/')[2]}")
    return found


def page(rows: Sequence[Row], pictures: Sequence[Path]) -> str:
    """Return the page with these results."""
    today = dt.datetime.now(tz=dt.UTC).date()
    where = f"Measured on {today} on {machine()}."
    shown = "".join(f"![{_alternative(file)}]({file.name})\n\n" for file in pictures)
    sections: dict[str, list[Row]] = {}
    for row in rows:
        sections.setdefault(row.section, []).append(row)
    tables = "\n\n".join(
        f"## {_TITLES[section]}\n\n{markdown_table(found)}" for section, found in sections.items()
    )
    return f"# Benchmarks\n\n{shown}{where}\n\n{tables}\n\n## Method\n\n{_METHOD}"


def _alternative(picture: Path) -> str:
    if picture.stem.endswith("-scale"):
        return "Start, memory and the time of a change over the number of definitions"
    if picture.stem.endswith("-storm"):
        return "How soon OpenAPI shows a change, and clients after a restart"
    if picture.stem.endswith("-clients"):
        return "Requests and seconds of each client, to find a kind"
    return "Ratios and the times of changes"
