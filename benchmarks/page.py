"""The page docs/benchmarks.md."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from report import Row, machine, markdown_table

_METHOD = """\
Numbers of different machines, or of one machine at different hours, do not compare: on the one
below the same server varies by a fifth from run to run. So whatever has to be fast is measured side
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

gRPC is measured in the same way with `grpc.aio` callers, 16 calls at a time, against an empty
handler on `grpc.aio`. The callers are no faster than the servers, so here computing time is judged.

**Changes.** One process serves 3,000 groups, each the only one of its source, and replaces one of
them at a time, by `Registry.publish`, somewhere in the list. *Publish* is that call alone. A client
in another process either asks over HTTP without pause with the ETag that it has, or waits on
WatchDiscovery; the clock runs from the call of `publish` to the first answer with the new ETag, or
to the message. That first answer carries the whole document, so encoding and compressing count.
The budget is that of 19 changes in 20 where a group has one resource, as custom resources do; five
times the text is hashed and sent five times as long.

**Start and memory.** From the start of the process until the ready file is there, best and median
of 3. Memory is that of the server process from `/proc`, RSS judged; *each representation* is JSON,
YAML, protobuf, pretty JSON, v2, v2beta1 and unaggregated, plain, gzip and zstd, and the document
over gRPC.

Reproduce with `make bench`; `make bench ARGS=--help` tells more.
"""


def page(rows: Sequence[Row], plot: Path | None) -> str:
    """Return the page with these results."""
    today = dt.datetime.now(tz=dt.UTC).date()
    picture = f"![Ratios and the times of changes]({plot.name})\n\n" if plot else ""
    where = f"Measured on {today} on {machine()}."
    return f"# Benchmarks\n\n{picture}{markdown_table(rows)}\n\n{where}\n\n## Method\n\n{_METHOD}"
