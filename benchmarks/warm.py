"""The warm request path: rates against an empty handler on the same server, and nginx."""

import contextlib
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import time
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from documents import groups, manifest
from load import Sample, Target, compare, h2load, interleaved, missing, wrk
from plain_http import V2_JSON, Answer, get
from processes import Failed, Served, child_command, free_ports, read_line, running, serving
from report import Clock, Row

_NGINX_START_S = 10.0

_NGINX_CONFIG = """\
daemon off;
{user}
worker_processes 1;
pid {folder}/warm.pid;
error_log {folder}/error.log error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  open_file_cache max=100 inactive=10m;
  open_file_cache_valid 10m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  default_type application/json;
  server {{
    listen 127.0.0.1:{http1};
    sendfile on;
    root {folder}/files;
    location = /304 {{ add_header etag '"{etag}"' always; return 304; }}
  }}
  server {{
    listen 127.0.0.1:{http2} http2;
    # With sendfile a body of some 100 kB waits 40 ms for the acknowledgement of its first part.
    sendfile off;
    http2_chunk_size 128k;
    root {folder}/files;
    location = /304 {{ add_header etag '"{etag}"' always; return 304; }}
  }}
}}
"""

GROUPS, RESOURCES = 600, 5
PATH = "/apis"
CONNECT_PATH = (
    "/apidiscovery.service.v1.DiscoveryService/GetDiscovery?connect=v1&encoding=json&message=%7B%7D"
)
WARM_RATIO = 0.8

# The budget of 10 000 gzip answers a second holds where the empty handler reaches 15 000.
_GZIP_RATE, _EMPTY_GZIP_RATE = 10_000.0, 15_000.0
_PROTOBUF = V2_JSON.replace("application/json", "application/vnd.kubernetes.protobuf")
_AGENT = "kubectl/v1.33.0 (linux/amd64) kubernetes/abcdef0"
LOADS = {"HTTP/1.1": ("wrk", wrk), "h2c": ("h2load", h2load)}

_TLS_CASES = ("304", "200 gzip")
# The same programs load over TLS; HTTP/2 is agreed upon in the handshake then.
_TLS_PROTOCOLS = {"HTTP/1.1": "HTTP/1.1", "h2c": "h2"}


@dataclass(frozen=True, slots=True)
class Nginx:
    """A running nginx; its worker does the work."""

    worker_pid: int
    http1: str
    http2: str


@contextlib.contextmanager
def serving_files(folder: Path, files: dict[str, bytes], etag: str) -> Generator[Nginx]:
    """Serve files by name, and `/304`, until the block ends."""
    (folder / "files").mkdir(parents=True)
    for name, content in files.items():
        (folder / "files" / name).write_bytes(content)
    http1, http2 = free_ports(2)
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "warm.conf"
    config.write_text(
        _NGINX_CONFIG.format(folder=folder, user=user, http1=http1, http2=http2, etag=etag),
        encoding="utf-8",
    )
    with running([shutil.which("nginx") or "nginx", "-p", folder, "-c", config]) as master:
        deadline = time.monotonic() + _NGINX_START_S
        while not (workers := _children(master.pid)) or not _listens(http1):
            if master.poll() is not None or time.monotonic() > deadline:
                raise Failed("nginx does not start")
            time.sleep(0.02)
        yield Nginx(workers[0], f"127.0.0.1:{http1}", f"127.0.0.1:{http2}")


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of request."""

    name: str
    file: str
    headers: dict[str, str]
    answer: Answer


def measure(folder: Path, rounds: int, seconds: int, clock: Clock) -> Iterator[Row]:
    """Yield a row for each case, protocol and opponent."""
    file = folder / "600.json"
    file.write_bytes(manifest(groups(GROUPS, RESOURCES)))
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serving(folder, "--manifests", file))
        cases = read_cases(served.http)
        opponent = None
        if missing("nginx") is None:
            files = {case.file: case.answer.body for case in cases}
            etag = cases[0].answer.header("etag").strip('"')
            opponent = stack.enter_context(serving_files(folder / "nginx", files, etag))
        for case in cases:
            with empty(folder, case) as first, empty(folder, case) as second:
                for protocol in LOADS:
                    cell = _Cell(case, protocol, rounds, seconds, clock)
                    yield from cell.rows(served, first, second, opponent)
        yield from _connect_rows(served, cases, rounds, seconds, clock)


def _connect_rows(
    served: Served, cases: Collection[Case], rounds: int, seconds: int, clock: Clock
) -> Iterator[Row]:
    """Yield how many calls over Connect are answered, beside requests for the same groups."""
    for case in (case for case in cases if case.file in ("304", "json", "gzip")):
        name = f"Connect, {case.name}, beside {PATH}"
        reason = missing("wrk") or ("out of time" if clock.out() else None)
        if reason:
            yield Row("warm", name, "", skipped=reason)
            continue
        headers = {"accept-encoding": case.headers["accept-encoding"]}
        if case.file == "304":
            headers["if-none-match"] = get(served.http, CONNECT_PATH, headers).header("etag")
        answer = get(served.http, CONNECT_PATH, headers)
        if answer.status != case.answer.status:
            raise Failed(f"{name}: {served.http} answers {answer.status}")
        root = f"http://{served.http}"
        runs: dict[str, Callable[[], Sample]] = {
            "apis": partial(wrk, Target(served.pid, root + PATH), case.headers, seconds),
            "connect": partial(wrk, Target(served.pid, root + CONNECT_PATH), headers, seconds),
        }
        samples = interleaved(runs, rounds, clock.out)
        apis, connect = (
            statistics.median(sample.rate for sample in samples[key]) for key in ("apis", "connect")
        )
        yield Row(
            "warm",
            f"{name} ({len(answer.body):,} and {len(case.answer.body):,} bytes)",
            "",
            f"{connect / apis:.2f}; {connect:,.0f}/s, {PATH} {apis:,.0f}/s",
            numbers={"ratio": connect / apis, "connect": connect, "apis": apis},
        )


def read_cases(
    address: str, names: Collection[str] = (), tls: ssl.SSLContext | None = None
) -> list[Case]:
    """Return the kinds of requests, all or the named ones, with the server's responses."""
    usual = {"accept": V2_JSON, "accept-encoding": "gzip", "user-agent": _AGENT}
    etag = get(address, PATH, usual, tls).header("etag")
    wanted = {
        ("304", "304"): {**usual, "if-none-match": etag},
        ("200 JSON", "json"): {**usual, "accept-encoding": "identity"},
        ("200 gzip", "gzip"): usual,
        ("200 protobuf", "protobuf"): {**usual, "accept": _PROTOBUF, "accept-encoding": "identity"},
    }
    cases = [
        Case(name, file, headers, get(address, PATH, headers, tls))
        for (name, file), headers in wanted.items()
        if not names or name in names
    ]
    for case in cases:
        if case.answer.status != int(case.name[:3]):
            raise Failed(f"{case.name}: {address} answers {case.answer.status}")
    return cases


@contextlib.contextmanager
def empty(
    folder: Path, case: Case, tls: tuple[Path, Path, ssl.SSLContext] | None = None
) -> Generator[Target]:
    """Run a handler that only sends the response of a case.

    With a certificate, its key and a context that trusts it, over TLS.
    """
    # Granian and hyper write the date and the length of a body by themselves.
    headers = [field for field in case.answer.headers if field[0] not in ("date", "server")]
    head = json.dumps({"status": case.answer.status, "headers": headers}).encode()
    file = folder / "empty"
    file.write_bytes(head + b"\n" + case.answer.body)
    command = child_command("http-empty", file, *(tls[:2] if tls else ()))
    with running(command, piped=True) as process:
        address = str(read_line(process)["http"])
        answer = get(address, PATH, case.headers, tls[2] if tls else None)
        ours = [field for field in answer.headers if field[0] != "date"]
        theirs = [field for field in case.answer.headers if field[0] != "date"]
        if answer.body != case.answer.body or sorted(ours) != sorted(theirs):
            raise Failed(f"{case.name}: the empty handler sends {ours}, the server {theirs}")
        yield Target(process.pid, f"{'https' if tls else 'http'}://{address}{PATH}")


@dataclass(frozen=True, slots=True)
class _Cell:
    case: Case
    protocol: str
    rounds: int
    seconds: int
    clock: Clock

    def rows(
        self, served: Served, empty: Target, control: Target, opponent: Nginx | None
    ) -> Iterator[Row]:
        name = f"{self.case.name}, {self.protocol}"
        tool, load = LOADS[self.protocol]
        reason = missing(tool) or ("out of time" if self.clock.out() else None)
        if reason:
            yield Row("warm", name, f">= {WARM_RATIO} of the empty handler", skipped=reason)
            return
        targets = {
            "empty": empty,
            "ours": Target(served.pid, f"http://{served.http}{PATH}"),
            "control": control,
        }
        if opponent is not None:
            address = opponent.http1 if self.protocol == "HTTP/1.1" else opponent.http2
            targets["nginx"] = Target(opponent.worker_pid, f"http://{address}/{self.case.file}")
        runs: dict[str, Callable[[], Sample]] = {
            key: partial(load, target, self.case.headers, self.seconds)
            for key, target in targets.items()
        }
        samples = interleaved(runs, self.rounds, self.clock.out)
        yield ratio_row("warm", name, samples, len(self.case.answer.body))
        if self.case.file == "gzip" and self.protocol == "HTTP/1.1":
            yield _gzip_row(samples)
        yield _nginx_row(name, samples)


def _nginx_row(name: str, samples: dict[str, list[Sample]]) -> Row:
    reason = missing("nginx")
    if reason:
        return Row("nginx", f"{name}, against nginx", "", skipped=reason)
    best = {key: max(sample.rate for sample in found) for key, found in samples.items()}
    ours, empty = best["ours"] / best["nginx"], best["empty"] / best["nginx"]
    measured = f"{ours:.2f} (empty handler {empty:.2f}); nginx {best['nginx']:,.0f}/s"
    return Row("nginx", f"{name}, against nginx", "", measured, numbers={"ratio": ours})


def ratio_row(
    section: str,
    name: str,
    samples: dict[str, list[Sample]],
    size: int,
    *,
    by_cpu: bool = False,
) -> Row:
    """Return the row that compares ours with the empty handler.

    When the rate misses the budget but the CPU time for a response keeps it, something else used
    the CPU, and the result is unclear. With `by_cpu` only the CPU time is judged, where callers are
    too slow to keep a server busy.
    """
    ratio = compare(samples)
    judged = ratio.cpu if by_cpu else ratio.paired
    best = {key: max(sample.rate for sample in found) for key, found in samples.items()}
    numbers = {key: [asdict(one) for one in found] for key, found in samples.items()}
    return Row(
        section,
        f"{name} ({size:,} bytes)",
        f">= {WARM_RATIO:.2f}",
        f"{judged:.2f} (paired {ratio.paired:.2f}, best {ratio.best:.2f}, cpu {ratio.cpu:.2f}, "
        f"control {ratio.control:.2f}); {best['ours']:,.0f}/s, empty {best['empty']:,.0f}/s",
        passed=judged >= WARM_RATIO,
        unclear=judged < WARM_RATIO <= ratio.cpu,
        ratio=judged,
        numbers={"ratio": asdict(ratio), "samples": numbers},
    )


def _gzip_row(samples: dict[str, list[Sample]]) -> Row:
    ours, empty = (max(sample.rate for sample in samples[key]) for key in ("ours", "empty"))
    budget = _GZIP_RATE * min(1.0, empty / _EMPTY_GZIP_RATE)
    return Row(
        "warm",
        "200 gzip, HTTP/1.1, answers a second",
        f">= {budget:,.0f}/s",
        f"{ours:,.0f}/s (empty handler {empty:,.0f}/s)",
        passed=ours >= budget,
    )


def measure_tls(folder: Path, rounds: int, seconds: int, clock: Clock) -> Iterator[Row]:
    """Yield a row for each case and protocol."""
    if not shutil.which("openssl"):
        yield Row("tls", "over TLS", "", skipped="no openssl (apt-get install openssl)")
        return
    file = folder / "600.json"
    file.write_bytes(manifest(groups(GROUPS, RESOURCES)))
    cert, key = _certificate(folder)
    context = ssl.create_default_context(cafile=str(cert))
    flags = ("--manifests", file, "--tls-cert-file", cert, "--tls-private-key-file", key)
    with serving(folder, *flags) as served:
        ours = Target(served.pid, f"https://{served.http}{PATH}")
        for case in read_cases(served.http, _TLS_CASES, context):
            with contextlib.ExitStack() as stack:
                first, second = (
                    stack.enter_context(empty(folder, case, (cert, key, context))) for _ in range(2)
                )
                cell = _TlsCell(case, {"empty": first, "ours": ours, "control": second}, clock)
                yield from (cell.row(protocol, rounds, seconds) for protocol in _TLS_PROTOCOLS)


@dataclass(frozen=True, slots=True)
class _TlsCell:
    case: Case
    targets: dict[str, Target]
    clock: Clock

    def row(self, plain: str, rounds: int, seconds: int) -> Row:
        """Load all targets; there is no budget, since the cost of TLS is not ours."""
        name = f"{self.case.name}, TLS {_TLS_PROTOCOLS[plain]}"
        tool, load = LOADS[plain]
        reason = missing(tool) or ("out of time" if self.clock.out() else None)
        if reason:
            return Row("tls", name, "", skipped=reason)
        runs = {
            key: partial(load, target, self.case.headers, seconds)
            for key, target in self.targets.items()
        }
        samples = interleaved(runs, rounds, self.clock.out)
        row = ratio_row("tls", name, samples, len(self.case.answer.body))
        return replace(row, budget="", passed=None, unclear=False)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that signs itself, and its key."""
    cert, key = folder / "server.crt", folder / "server.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(cert)]
    done = subprocess.run([*command.split(), *names, *files], capture_output=True, check=False)
    if done.returncode:
        raise Failed(f"openssl: {done.stderr.decode(errors='replace').strip()}")
    return cert, key
