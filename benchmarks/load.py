"""Load with wrk (HTTP/1.1) and h2load (HTTP/2 without TLS), and comparison of the rates."""

import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from processes import Failed, cpu_s

CONNECTIONS = 16

_TIMEOUT_S = 30
_WRK = re.compile(r"(\d+) requests in .*Requests/sec:\s+([\d.]+)", re.DOTALL)
_H2LOAD = re.compile(r"finished in [^,]+, ([\d.]+) req/s")
_H2LOAD_DONE = re.compile(r"(\d+) done, \d+ succeeded, (\d+) failed, (\d+) errored")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run against one server.

    Attributes:
        rate: Responses a second.
        cpu_us: CPU time of the server for each response.
    """

    rate: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load."""

    pid: int
    url: str


def missing(tool: str) -> str | None:
    """Return why a tool is not usable; None if it is."""
    if shutil.which(tool):
        return None
    package = "nghttp2-client" if tool == "h2load" else tool
    return f"no {tool} (apt-get install {package})"


def wrk(target: Target, headers: Mapping[str, str], seconds: int) -> Sample:
    """Load a server over HTTP/1.1."""
    flags = [f"-t1 -c{CONNECTIONS} -d{seconds}s".split(), _header_flags(headers), [target.url]]
    text, cpu = _run("wrk", flags, target.pid)
    found = _WRK.search(text)
    if not found or "Non-2xx" in text or "Socket errors" in text:
        raise Failed(f"wrk {target.url}: {text.strip()}")
    return Sample(float(found[2]), cpu / int(found[1]) * 1e6)


def h2load(target: Target, headers: Mapping[str, str], seconds: int) -> Sample:
    """Load a server over HTTP/2, one stream at a time on each connection."""
    flags = [f"-t1 -c{CONNECTIONS} -m1 -D{seconds}".split(), _header_flags(headers), [target.url]]
    text, cpu = _run("h2load", flags, target.pid)
    rate, done = _H2LOAD.search(text), _H2LOAD_DONE.search(text)
    refused = re.search(r" ([1-9]\d*) 4xx| ([1-9]\d*) 5xx", text)
    if not rate or not done or not int(done[1]) or refused or int(done[3]):
        raise Failed(f"h2load {target.url}: {text.strip()}")
    return Sample(float(rate[1]), cpu / int(done[1]) * 1e6)


def _header_flags(headers: Mapping[str, str]) -> list[str]:
    return [flag for name, value in headers.items() for flag in ("-H", f"{name}: {value}")]


def _run(tool: str, flags: Sequence[Sequence[str]], pid: int) -> tuple[str, float]:
    command = [shutil.which(tool) or tool, *(flag for part in flags for flag in part)]
    before = cpu_s(pid)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    return done.stdout + done.stderr, cpu_s(pid) - before


@dataclass(frozen=True, slots=True)
class Ratio:
    """A server compared with the empty handler; 1 is equal, less is worse.

    Attributes:
        paired: Median over the rounds of its rate by the mean rate of the two empty handlers.
        best: Best rate by best rate.
        cpu: CPU time for a response, the empty handler's by the server's.
        control: As `paired`, of one empty handler by the other, which shows the noise.
    """

    paired: float
    best: float
    cpu: float
    control: float


def compare(samples: Mapping[str, Sequence[Sample]]) -> Ratio:
    """Compare `ours` with `empty` and `control`, round by round."""
    ours, empty, control = samples["ours"], samples["empty"], samples["control"]
    rounds = list(zip(ours, empty, control, strict=True))
    both = [*empty, *control]
    return Ratio(
        paired=statistics.median(a.rate / ((b.rate + c.rate) / 2) for a, b, c in rounds),
        best=max(s.rate for s in ours) / max(s.rate for s in both),
        cpu=statistics.median(s.cpu_us for s in both) / statistics.median(s.cpu_us for s in ours),
        control=statistics.median(c.rate / b.rate for _, b, c in rounds),
    )


def interleaved(
    runs: Mapping[str, Callable[[], Sample]], rounds: int, out_of_time: Callable[[], bool]
) -> dict[str, list[Sample]]:
    """Do each run once a round, in alternating order; at least one round."""
    samples: dict[str, list[Sample]] = {name: [] for name in runs}
    for number in range(rounds):
        if number and out_of_time():
            break
        names = list(runs) if number % 2 == 0 else list(runs)[::-1]
        for name in names:
            samples[name].append(runs[name]())
    return samples
