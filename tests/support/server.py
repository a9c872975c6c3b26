"""`apidiscovery serve` as a process, on free loopback ports."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from waiting import eventually

COMMAND = Path(sys.executable).with_name("apidiscovery")

START_S = 30.0
# The server drains for 5 s at most; then it needs a moment to end, on a busy machine a long one.
STOP_S = 20.0
# A server with requests that do not end takes at least so long to stop.
DRAIN_S = 5.0


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a process, without the settings of the user who runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), **(extra or {})}


class Server:
    """A server that is ready.

    Attributes:
        process: The process.
        http: `host:port` of HTTP; empty when it is off.
        grpc: `host:port` of gRPC; empty when it is off.
        ready_file: The file with both addresses.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.ready_file = folder / "ready.json"
        self._log = folder / "stderr"
        eventually(self._is_up, "the server is ready", START_S)
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}:\n{self.log()}")
        addresses = cast("dict[str, str | None]", json.loads(self.ready_file.read_bytes()))
        self.http = addresses["http"] or ""
        self.grpc = addresses["grpc"] or ""

    def _is_up(self) -> bool:
        return self.ready_file.exists() or self.process.poll() is not None

    @property
    def url(self) -> str:
        return f"http://{self.http}"

    @property
    def http_port(self) -> int:
        return int(self.http.rpartition(":")[2])

    def log(self) -> str:
        """Return its log so far."""
        return self._log.read_text(encoding="utf-8")

    def stop(self, by: signal.Signals = signal.SIGTERM, within_s: float = STOP_S) -> float:
        """Send a signal, and expect exit code 0 and no traceback.

        Returns:
            The time until the end, in seconds.
        """
        if self.process.poll() is not None:
            return 0.0
        started = time.monotonic()
        self.process.send_signal(by)
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler writes a traceback
            self.process.wait()
            where = f"still running {within_s} s after {by.name}:\n{self.log()}"
            raise AssertionError(where) from None
        took_s = time.monotonic() - started
        log = self.log()
        assert self.process.returncode == 0, log
        assert "Traceback" not in log, log
        return took_s


class Serve(Protocol):
    """Starts servers that are stopped when the test ends."""

    def __call__(
        self, *flags: str, env: Mapping[str, str] | None = None, addresses: bool = True
    ) -> Server: ...


@contextmanager
def serving(
    folder: Path,
    *flags: str,
    env: Mapping[str, str] | None = None,
    addresses: bool = True,
) -> Generator[Server]:
    """Run `apidiscovery serve FLAGS`.

    Args:
        folder: The folder of the log and the ready file.
        flags: More flags.
        env: More variables.
        addresses: Whether flags select free ports.
    """
    command = [str(COMMAND), "serve", "--ready-file", str(folder / "ready.json")]
    if addresses:
        command += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    with (folder / "stderr").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            [*command, *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(folder, {"PYTHONFAULTHANDLER": "1", **(env or {})}),
            cwd=folder,
        )
    try:
        server = Server(process, folder)
        yield server
        server.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
