"""How long others wait while hostile schemas and the largest documents are made and sent."""

import contextlib
import http.client
import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import grpc
from crds import PER_GROUP, Document, crd
from plain_http import Connection, get
from processes import Served, ask, read_line, running, serving
from registering import fill
from report import Row

_SECTION = "openapi"
_POLL_S = 0.002
_IDLE_S = 2.0
_WIDEST, _LONGEST = 10_000, 128 * 1024
_BUFFER = 1 << 20


def measure(crds: int) -> Iterator[Row]:
    """Yield what a poller of `/apis` waits for at most, idle and with each load.

    Args:
        crds: How many definitions make up the merged document.
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
    """Apply a definition, and ask for its document in both forms."""
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
    """Ask for a document and throw it away."""
    connection = http.client.HTTPConnection(served.http, timeout=120)
    connection.request("GET", path)
    answer, buffer = connection.getresponse(), bytearray(_BUFFER)
    while answer.readinto(buffer):
        pass
    connection.close()


@contextlib.contextmanager
def _polling(address: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a process of its own that asks for `/apis` every 2 ms."""
    with running([sys.executable, __file__, address], piped=True) as poller:
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


def _poll(address: str) -> None:
    """Ask for `/apis` as a client that has it; at each line, print how long the answers took."""
    etag = get(address, "/apis", {}).header("etag")
    connection = Connection(address)
    lags: list[float] = []
    print(json.dumps({}), flush=True)
    while True:
        began = time.perf_counter()
        etag = connection.get("/apis", {"if-none-match": etag}).header("etag")
        took = time.perf_counter() - began
        lags.append(took * 1000)
        if select.select([sys.stdin], [], [], max(_POLL_S - took, 0))[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps({"lags_ms": lags}), flush=True)
            lags = []


if __name__ == "__main__":
    _poll(sys.argv[1])
