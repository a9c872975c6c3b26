"""The command line as a process of its own, with a terminal where one is wanted."""

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from command_line import Outcome
from server import COMMAND, environment

_LIMIT_S = 60.0


def with_command(path: Path) -> dict[str, str]:
    """Return variables by which shells find the command, with everything kept below a folder."""
    folders = os.pathsep.join((str(COMMAND.parent), os.environ["PATH"]))
    return {**environment(path), "PATH": folders}


def finished(home: Path, *args: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Return what `apidiscovery ARGS` gives."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [str(COMMAND), *args],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=environment(home, env),
        timeout=_LIMIT_S,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def on_a_terminal(home: Path, *args: str, env: Mapping[str, str] | None = None) -> str:
    """Return what `apidiscovery ARGS` writes on a terminal."""
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
    with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
        while piece := os.read(terminal, 1 << 16):
            yield piece


@contextmanager
def running(home: Path, *args: str) -> Generator[subprocess.Popen[str]]:
    """Run `apidiscovery ARGS`, and end it if it has not ended by itself."""
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


def python(code: str, *args: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Return what Python code gives in a process of its own."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-c", code, *args],
        check=False,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=_LIMIT_S,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
