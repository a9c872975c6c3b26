"""Runs a program with a time limit, captures the start of its output, and can kill it."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

MAX_OUTPUT_BYTES = 1 << 20
_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a program.

    Attributes:
        status: 0 for success; negative for a signal.
        output: The start of stdout, one byte more than `MAX_OUTPUT_BYTES` if there was more.
        stderr: The start of stderr; empty where that is the terminal.
    """

    status: int
    output: bytes = field(repr=False)
    stderr: bytes = field(repr=False)


class Program:
    """A running program.

    Args:
        command: Path or name, and the arguments.
        environment: The whole environment.
        interactive: Whether it has our terminal. Otherwise it has no stdin and runs in a session
            of its own, so that its children can be killed with it.

    Raises:
        OSError, ValueError: It cannot be started.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, interactive: bool
    ) -> None:
        self._has_session = not interactive
        self._process = subprocess.Popen(  # noqa: S603 - what the kubeconfig names
            command,
            env=environment,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE,
            start_new_session=self._has_session,
        )

    def wait(self, timeout_s: float | None) -> Finished:
        """Wait for the end of the program and its outputs; None for no time limit.

        Raises:
            TimeoutError: It took longer, and was killed.
        """
        readers = [_Reader(stream) for stream in (self._process.stdout, self._process.stderr)]
        end = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            for reader in readers:
                reader.join(_left_s(end))
            status = self._process.wait(_left_s(end))
            if any(reader.is_alive() for reader in readers):
                raise TimeoutError
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            self._finish(readers)
        return Finished(status, *(bytes(reader.captured) for reader in readers))

    def _finish(self, readers: "Sequence[_Reader]") -> None:
        if self._process.poll() is None or any(reader.is_alive() for reader in readers):
            self.kill()
        self._process.wait()
        for reader in readers:
            # With a limit: a child in another session may keep the pipe open.
            reader.join(_LAST_WORDS_S)

    def kill(self) -> None:
        """Kill it, with its children where it has a session of its own."""
        with suppress(ProcessLookupError, PermissionError):
            if self._has_session and hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


def _left_s(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


class _Reader(threading.Thread):
    """Reads a pipe to its end, so that writers never block, and captures the start."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        super().__init__(name="output of a program", daemon=True)
        self.captured = bytearray()
        self._stream = stream
        self.start()

    def run(self) -> None:
        if self._stream is None:
            return
        with self._stream as stream:
            while some := os.read(stream.fileno(), 1 << 16):
                self.captured += some[: MAX_OUTPUT_BYTES + 1 - len(self.captured)]
