"""The warm request path: rates against an empty handler on the same server."""

import contextlib
import json
import shutil
import ssl
import statistics
import subprocess
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from documents import groups, manifest
from load import Sample, Target, compare, h2load, interleaved, missing, wrk
from plain_http import V2_JSON, Answer, get
from processes import Failed, Served, child_command, read_line, running, serving
from report import Clock, Row

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
Load: TypeAlias = Callable[[Target, Mapping[str, str], int], Sample]
LOADS: Mapping[str, tuple[str, Load]] = {"HTTP/1.1": ("wrk", wrk), "h2c": ("h2load", h2load)}

_TLS_CASES = ("304", "200 gzip")
# The same programs load over TLS; HTTP/2 is agreed upon in the handshake then.
_TLS_PROTOCOLS = {"HTTP/1.1": "TLS HTTP/1.1", "h2c": "TLS h2"}


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of request."""

    name: str
    headers: dict[str, str]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a comparison may take: rounds, seconds of one run, and the time that is left."""

    rounds: int
    seconds: int
    clock: Clock


def measure(folder: Path, effort: Effort) -> Iterator[Row]:
    """Yield a row for each case and protocol."""
    file = folder / "600.json"
    file.write_bytes(manifest(groups(GROUPS, RESOURCES)))
    with serving(folder, "--manifests", file) as served:
        ours = Target(served.pid, f"http://{served.http}{PATH}")
        cases = read_cases(served.http)
        for case in cases:
            with empty(folder, case) as first, empty(folder, case) as second:
                targets = {"empty": first, "ours": ours, "control": second}
                yield from _case_rows("warm", case, targets, effort)
        yield from _connect_rows(served, cases, effort)


def _case_rows(
    section: str, case: Case, targets: Mapping[str, Target], effort: Effort
) -> Iterator[Row]:
    for protocol, (tool, load) in LOADS.items():
        name = f"{case.name}, {_TLS_PROTOCOLS[protocol] if section == 'tls' else protocol}"
        if reason := missing(tool) or ("out of time" if effort.clock.out() else None):
            yield Row(section, name, f">= {WARM_RATIO}", skipped=reason)
            continue
        runs: dict[str, Callable[[], Sample]] = {
            key: partial(load, target, case.headers, effort.seconds)
            for key, target in targets.items()
        }
        samples = interleaved(runs, effort.rounds, effort.clock.out)
        yield ratio_row(section, name, samples, len(case.answer.body))
        if name == "200 gzip, HTTP/1.1":
            yield _gzip_row(samples)


def _connect_rows(served: Served, cases: Collection[Case], effort: Effort) -> Iterator[Row]:
    """Yield how many calls over Connect are answered, beside requests for the same groups."""
    for case in (case for case in cases if case.name != "200 protobuf"):
        name = f"Connect, {case.name}, beside {PATH}"
        reason = missing("wrk") or ("out of time" if effort.clock.out() else None)
        if reason:
            yield Row("warm", name, "", skipped=reason)
            continue
        headers = {"accept-encoding": case.headers["accept-encoding"]}
        if case.name == "304":
            headers["if-none-match"] = get(served.http, CONNECT_PATH, headers).header("etag")
        answer = get(served.http, CONNECT_PATH, headers)
        if answer.status != case.answer.status:
            raise Failed(f"{name}: {served.http} answers {answer.status}")
        root = f"http://{served.http}"
        runs: dict[str, Callable[[], Sample]] = {
            "apis": partial(wrk, Target(served.pid, root + PATH), case.headers, effort.seconds),
            "connect": partial(
                wrk, Target(served.pid, root + CONNECT_PATH), headers, effort.seconds
            ),
        }
        samples = interleaved(runs, effort.rounds, effort.clock.out)
        apis_rate, connect_rate = (
            statistics.median(sample.rate for sample in samples[key]) for key in runs
        )
        yield Row(
            "warm",
            f"{name} ({len(answer.body):,} and {len(case.answer.body):,} bytes)",
            "",
            f"{connect_rate / apis_rate:.2f}; {connect_rate:,.0f}/s, {PATH} {apis_rate:,.0f}/s",
            numbers={"connect": connect_rate, "apis": apis_rate},
        )


def read_cases(
    address: str, names: Collection[str] = (), tls: ssl.SSLContext | None = None
) -> list[Case]:
    """Return the kinds of requests, all or the named ones, with the server's responses."""
    usual = {"accept": V2_JSON, "accept-encoding": "gzip", "user-agent": _AGENT}
    etag = get(address, PATH, usual, tls).header("etag")
    wanted = {
        "304": {**usual, "if-none-match": etag},
        "200 JSON": {**usual, "accept-encoding": "identity"},
        "200 gzip": usual,
        "200 protobuf": {**usual, "accept": _PROTOBUF, "accept-encoding": "identity"},
    }
    cases = [
        Case(name, headers, get(address, PATH, headers, tls))
        for name, headers in wanted.items()
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


def measure_tls(folder: Path, effort: Effort) -> Iterator[Row]:
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
                targets = {"empty": first, "ours": ours, "control": second}
                for row in _case_rows("tls", case, targets, effort):
                    # There is no budget, since the cost of TLS is not ours.
                    yield replace(row, budget="", passed=None, unclear=False)


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
