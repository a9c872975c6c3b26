"""Runs the programs that people use with a server, as processes."""

import contextlib
import os
import secrets
import socket
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from command_line import Outcome
from server import COMMAND, environment

from tools import find_tool

Kubectl = Callable[..., Outcome]

_LIMIT_S = 30.0
_given = set[int]()


def apidiscovery(
    folder: Path, grpc: str, *args: str, env: Mapping[str, str] | None = None
) -> Outcome:
    """Return what `apidiscovery ARGS` gives with a server; relative paths are those of a folder."""
    return _run(folder, [str(COMMAND), *args, "--grpc-server", grpc], env)


def run_apidiscovery(folder: Path, *args: str) -> Outcome:
    """Return what `apidiscovery ARGS` gives, with a folder as its home."""
    return _run(folder, [str(COMMAND), *args])


def kubectl(folder: Path, *args: str) -> Outcome:
    """Return what `kubectl ARGS` gives, with its cache in a folder."""
    return _run(folder, [find_tool("kubectl"), "--cache-dir", str(folder / "cache"), *args])


def curl(folder: Path, *args: str) -> Outcome:
    """Return what `curl ARGS` gives."""
    return _run(folder, [find_tool("curl"), "--silent", "--show-error", *args])


def run_shell(folder: Path, command: str) -> Outcome:
    """Return what a command of a POSIX shell gives that runs kubectl."""
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


def free_port() -> int:
    """Return a free port, a different one with each call.

    It is outside of the range for connections (ip_local_port_range in ip(7), from 32768), so that
    it is still free when a server is restarted.
    """
    while True:
        port = secrets.choice(range(20_000, 32_768))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                return port


@contextmanager
def beginning(folder: Path, *flags: str) -> Generator[tuple["subprocess.Popen[bytes]", Path]]:
    """Run `apidiscovery serve FLAGS` without waiting until it is ready.

    Yields:
        The process, and the file with what it writes.
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
    """Return what `apidiscovery ARGS` gives to a user who is bound by file permissions."""
    is_root = os.geteuid() == 0
    before = [find_tool("setpriv"), "--bounding-set", "-all", "--"] if is_root else []
    return _run(folder, [*before, str(COMMAND), *args])
