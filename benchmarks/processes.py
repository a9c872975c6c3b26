"""Processes that are started, observed through /proc, and stopped by their id."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import cast

HERE = Path(__file__).resolve().parent
SERVER = Path(sys.executable).with_name("apidiscovery")

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0


class Failed(Exception):
    """A process failed."""


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], *, piped: bool = False
) -> Generator[subprocess.Popen[bytes]]:
    """Run a command until the block ends."""
    pipe = subprocess.PIPE if piped else subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process with SIGTERM, then SIGKILL; its remaining output is dropped."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def child_command(*args: str | Path) -> list[str | Path]:
    """Return the command of a process in children.py."""
    return [sys.executable, HERE / "children.py", *args]


def read_line(process: subprocess.Popen[bytes]) -> dict[str, object]:
    """Return the next line of a child, a JSON object."""
    if process.stdout is None:
        raise AssertionError(process.args)
    line = process.stdout.readline()
    if not line:
        raise _died(process)
    return cast("dict[str, object]", json.loads(line))


def ask(process: subprocess.Popen[bytes], what: object) -> dict[str, object]:
    """Send a line to a child and return its next line."""
    tell(process, what)
    return read_line(process)


def tell(process: subprocess.Popen[bytes], what: object) -> None:
    """Send a line to a child."""
    if process.stdin is None:
        raise AssertionError(process.args)
    process.stdin.write(json.dumps(what).encode() + b"\n")
    process.stdin.flush()


def _died(process: subprocess.Popen[bytes]) -> Failed:
    process.kill()
    _, errors = process.communicate()
    return Failed(f"{process.args!r} ended: {errors.decode(errors='replace').strip()[-2000:]}")


@contextlib.contextmanager
def serving(folder: Path, *flags: str | Path) -> Generator["Served"]:
    """Run `apidiscovery serve` on free ports until the block ends; without a store, in memory."""
    ready = folder / f"ready-{time.monotonic_ns()}.json"
    command: list[str | Path] = [SERVER, "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    command += ["--log-level", "error", "--ready-file", ready, *flags]
    if "--store" not in flags:
        command += ["--store", "memory"]
    started = time.perf_counter()
    with running(command) as process:
        while not ready.exists():
            if process.poll() is not None or time.perf_counter() - started > _START_TIMEOUT_S:
                raise _died(process)
            time.sleep(0.001)
        took = time.perf_counter() - started
        addresses = cast("dict[str, str]", json.loads(ready.read_bytes()))
        yield Served(process.pid, addresses["http"], addresses["grpc"], took)


class Served:
    """A server that is ready."""

    def __init__(self, pid: int, http: str, grpc: str, start_s: float) -> None:
        self.pid = pid
        self.http = http
        self.grpc = grpc
        self.start_s = start_s


def free_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 that nobody listens on."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, user and kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def memory_mb(pid: int) -> dict[str, float]:
    """Return the resident memory (RSS) and the proportional one (PSS) in megabytes of 10^6."""
    found: dict[str, float] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss"):
            found[name] = int(rest.split()[0]) * 1024 / 1e6
    return found
