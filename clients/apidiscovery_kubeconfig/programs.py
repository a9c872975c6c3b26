"""Runs a program with a time limit, keeps the beginning of what it says, and can end it."""

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
class Ended:
    """What a program left behind.

    Attributes:
        status: 0 for success; negative for the signal that ended it.
        output: The beginning of its standard output, one byte more than `MAX_OUTPUT_BYTES` if it
            went on.
        complaints: The same of standard error; empty when that went to the terminal.
    """

    status: int
    output: bytes = field(repr=False)
    complaints: bytes = field(repr=False)


class Program:
    """A program that runs.

    Args:
        command: Path or name, and the arguments.
        environment: All of it.
        interactive: Whether it has our terminal. Otherwise it reads nothing, and is in a session
            of its own, so that what it starts itself can be ended with it.

    Raises:
        OSError, ValueError: It cannot be run.
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

    def wait(self, timeout_s: float | None) -> Ended:
        """Return what it left, both outputs read to their ends; None waits for ever.

        Raises:
            TimeoutError: It took longer, and was ended.
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
        return Ended(status, *(bytes(reader.kept) for reader in readers))

    def _finish(self, readers: "Sequence[_Reader]") -> None:
        if self._process.poll() is None or any(reader.is_alive() for reader in readers):
            self.kill()
        self._process.wait()
        for reader in readers:
            # Not for ever: what went into a session of its own may still hold the pipe.
            reader.join(_LAST_WORDS_S)

    def kill(self) -> None:
        """End it, with those it started where it has a session of its own."""
        with suppress(ProcessLookupError, PermissionError):
            if self._has_session and hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


def _left_s(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


class _Reader(threading.Thread):
    """Reads a pipe to its end, so that nobody waits to write, and keeps the beginning."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        super().__init__(name="output of a program", daemon=True)
        self.kept = bytearray()
        self._stream = stream
        self.start()

    def run(self) -> None:
        if self._stream is None:
            return
        with self._stream as stream:
            while some := os.read(stream.fileno(), 1 << 16):
                self.kept += some[: MAX_OUTPUT_BYTES + 1 - len(self.kept)]
