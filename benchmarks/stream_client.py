"""Controls a process that holds many streams open."""

import base64
import contextlib
import json
import subprocess
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from processes import ask, child_command, read_line, running, tell


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The request of each of many streams.

    Attributes:
        kind: `grpc` or `http`.
        path: Path of the call or resource.
        requests: Messages of the call, assigned to the streams in turn.
        connections: The number of connections.
        per_connection: Streams of each; 1 for HTTP.
        comes_again: Whether ended calls and connections are opened again.
    """

    kind: str
    path: str
    requests: Sequence[bytes] = ()
    connections: int = 10
    per_connection: int = 100
    comes_again: bool = False

    def described(self) -> bytes:
        """Return the file for the child."""
        return json.dumps(
            {
                "path": self.path,
                "requests": [base64.b64encode(each).decode() for each in self.requests],
                "connections": self.connections,
                "per_connection": self.per_connection,
                "comes_again": self.comes_again,
            }
        ).encode()


class OpenStreams:
    """A process that holds streams.

    Attributes:
        last: The distinct last messages.
        again: The number of reopened calls and connections, by reason.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.last: list[bytes] = []
        self.again: dict[str, int] = {}

    def want(self, messages: int = 1) -> None:
        """Expect more messages on each stream."""
        ask(self._process, messages)

    def arrived(self) -> list[float]:
        """Return when the last expected message came on each stream (`time.perf_counter`)."""
        told = self._told()
        return cast("list[float]", told["at"])

    def ended(self) -> int:
        """Wait until all streams have ended; return the number of their messages."""
        tell(self._process, "ended")
        return int(str(self._told()["messages"]))

    def _told(self) -> dict[str, object]:
        told = read_line(self._process)
        self.again = cast("dict[str, int]", told["again"])
        self.last = [base64.b64decode(each) for each in cast("list[str]", told["last"])]
        return told


@contextlib.contextmanager
def open_streams(folder: Path, address: str, wanted: StreamPlan) -> Generator[OpenStreams]:
    """Hold streams to HOST:PORT until the block ends."""
    file = folder / f"streams-{time.monotonic_ns()}.json"
    file.write_bytes(wanted.described())
    command = child_command("streams", wanted.kind, address, file)
    with running(command, piped=True) as process:
        read_line(process)
        yield OpenStreams(process)
