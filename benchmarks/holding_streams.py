"""Processes that hold many streams open, told what to await."""

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
class Wanted:
    """What is asked for on each of many streams.

    Attributes:
        kind: `grpc` or `http`.
        path: Of the call, or of what is asked for.
        requests: Messages of the call, for one stream after the other and over again.
        connections: How many there are.
        per_connection: Streams of each; 1 for HTTP.
        comes_again: Whether calls and connections that end are begun again.
    """

    kind: str
    path: str
    requests: Sequence[bytes] = ()
    connections: int = 10
    per_connection: int = 100
    comes_again: bool = False

    def described(self) -> bytes:
        """Return it as the file that a child reads."""
        return json.dumps(
            {
                "path": self.path,
                "requests": [base64.b64encode(each).decode() for each in self.requests],
                "connections": self.connections,
                "per_connection": self.per_connection,
                "comes_again": self.comes_again,
            }
        ).encode()


class Holding:
    """A process that holds streams.

    Attributes:
        last: The last messages that it told of, each different one once.
        again: How often something was begun again so far, by what had ended it.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.last: list[bytes] = []
        self.again: dict[str, int] = {}

    def want(self, messages: int = 1) -> None:
        """Await so many messages more on each stream."""
        ask(self._process, messages)

    def arrived(self) -> list[float]:
        """Return when the last message that was wanted came on each, as `time.perf_counter`."""
        told = self._told()
        return cast("list[float]", told["at"])

    def ended(self) -> int:
        """Wait until all have ended, and return how many messages came on them."""
        tell(self._process, "ended")
        return int(str(self._told()["messages"]))

    def _told(self) -> dict[str, object]:
        told = read_line(self._process)
        self.again = cast("dict[str, int]", told["again"])
        self.last = [base64.b64decode(each) for each in cast("list[str]", told["last"])]
        return told


@contextlib.contextmanager
def holding(folder: Path, address: str, wanted: Wanted) -> Generator[Holding]:
    """Hold streams to HOST:PORT until the block ends."""
    file = folder / f"streams-{time.monotonic_ns()}.json"
    file.write_bytes(wanted.described())
    command = child_command("streams", wanted.kind, address, file)
    with running(command, piped=True) as process:
        read_line(process)
        yield Holding(process)
