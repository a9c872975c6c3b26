"""Runs our command line, and programs that people use with a server, as processes."""

import contextlib
import os
import pty
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from command_line import Outcome
from server import COMMAND, environment

from tools import find_tool

Kubectl = Callable[..., Outcome]

_LIMIT_S = 60.0
_given = set[int]()
# Each worker of a run has ports of its own: one is not taken yet when another worker looks.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def run_apidiscovery(folder: Path, *args: str) -> Outcome:
    """Run `apidiscovery ARGS`; the folder is its home and working directory."""
    return _run(folder, [str(COMMAND), *args])


def apidiscovery(folder: Path, grpc: str, *args: str) -> Outcome:
    """Run `apidiscovery ARGS` with a gRPC server."""
    return run_apidiscovery(folder, *args, "--grpc-server", grpc)


def refused(folder: Path, *flags: str) -> tuple[int, str]:
    """Run `apidiscovery serve FLAGS` that cannot start; return the exit code and the log."""
    done = run_apidiscovery(folder, "serve", *flags)
    assert done.stdout == ""
    return done.exit_code, done.stderr


def with_command(folder: Path) -> dict[str, str]:
    """Return variables with which shells find the command; the folder is their home."""
    folders = os.pathsep.join((str(COMMAND.parent), os.environ["PATH"]))
    return {**environment(folder), "PATH": folders}


def on_a_terminal(home: Path, *args: str, env: Mapping[str, str] | None = None) -> str:
    """Run `apidiscovery ARGS` on a terminal; return its output."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - our own arguments
        [str(COMMAND), *args],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(home, {"TERM": "xterm", **(env or {})}),
    ) as process:
        os.close(theirs)
        written = b"".join(_read(ours))
        process.wait(_LIMIT_S)
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> Generator[bytes]:
    with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
        while piece := os.read(terminal, 1 << 16):
            yield piece


@contextmanager
def running(home: Path, *args: str) -> Generator[subprocess.Popen[str]]:
    """Run `apidiscovery ARGS`, and kill it at the end."""
    with subprocess.Popen(  # noqa: S603 - our own arguments
        [str(COMMAND), *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home),
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class Restartable:
    """A process that tests kill and start again; subclasses start it."""

    _process: "subprocess.Popen[bytes] | None" = None

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def python(code: str, *args: str) -> Outcome:
    """Run Python code in a process of its own."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-c", code, *args],
        check=False,
        capture_output=True,
        timeout=_LIMIT_S,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def kubectl(folder: Path, *args: str) -> Outcome:
    """Run `kubectl ARGS`, with its cache in the folder."""
    return _run(folder, [find_tool("kubectl"), "--cache-dir", str(folder / "cache"), *args])


def curl(folder: Path, *args: str) -> Outcome:
    """Run `curl ARGS`."""
    return _run(folder, [find_tool("curl"), "--silent", "--show-error", *args])


def run_shell(folder: Path, command: str) -> Outcome:
    """Run a command of a POSIX shell, which finds kubectl."""
    path = f"{Path(find_tool('kubectl')).parent}:{os.environ['PATH']}"
    return _run(folder, [find_tool("sh"), "-c", command], {"PATH": path})


def _run(folder: Path, command: Sequence[str], env: Mapping[str, str] | None = None) -> Outcome:
    done = subprocess.run(  # noqa: S603 - our own arguments
        command,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=environment(folder, env),
        cwd=folder,
        timeout=_LIMIT_S,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def free_port(candidates: Sequence[int] = range(20_000, 32_768)) -> int:
    """Return a free port, a different one with each call.

    By default it is outside of the range for connections (ip_local_port_range in ip(7), from
    32768), so that it is still free when a server is restarted.
    """
    while True:
        port = secrets.choice(candidates[_WORKER::_WORKERS])
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                return port


@contextmanager
def refusing() -> Generator[str]:
    """Yield HOST:PORT of an address that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def beginning(folder: Path, *flags: str) -> Generator[tuple["subprocess.Popen[bytes]", Path]]:
    """Run `apidiscovery serve FLAGS` without waiting until it is ready.

    Yields:
        The process, and the file with its output.
    """
    log = folder / "stderr"
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own arguments
            [str(COMMAND), "serve", *flags],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=environment(folder),
            cwd=folder,
        )
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def unprivileged(folder: Path, *args: str) -> Outcome:
    """Run `apidiscovery ARGS` as a user who is bound by file permissions."""
    is_root = os.geteuid() == 0
    before = [find_tool("setpriv"), "--bounding-set", "-all", "--"] if is_root else []
    return _run(folder, [*before, str(COMMAND), *args])
