"""The fenced blocks of a page, and running them as a reader would.

The word after the language says what a block is; CONTRIBUTING.md explains the words. Blocks run in
order, in one shell, in one folder.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from programs import free_port
from server import environment

LIMIT_S = 300.0

_MARK = "#### block at line"
_PORT = re.compile(r"""(?:(?<=127\.0\.0\.1:)|(?<=127\.0\.0\.1", ))[1-9]\d{3,4}\b""")
# By number of digits; below the default candidates of `free_port`.
_CANDIDATES = {4: range(3000, 10000), 5: range(10000, 20000)}
_FENCE = re.compile(
    r"```(?P<language>\S*)(?: (?P<word>run|output|error|file=|not-run: )(?P<rest>.*))?"
)
_ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        line: Of its first fence.
        word: `run`, `file`, `output`, `error`, `not-run`; empty for a block without a word.
        rest: The name of the file, or the reason.
        before: The paragraph above it.
    """

    line: int
    language: str
    word: str
    rest: str
    text: str
    before: str


def blocks(guide: Path) -> list[Block]:
    """Return the blocks of a guide in order."""
    return list(_blocks(guide.read_text(encoding="utf-8").splitlines()))


def _blocks(lines: list[str]) -> Iterator[Block]:
    place, paragraph = 0, list[str]()
    while place < len(lines):
        line = lines[place]
        if line.startswith("```"):
            end = lines.index("```", place + 1)
            text = "".join(f"{one}\n" for one in lines[place + 1 : end])
            yield _block(place, line, text, " ".join(paragraph))
            place = end
        elif line:
            paragraph = [*(paragraph if lines[place - 1] else []), line]
        place += 1


def _block(place: int, fence: str, text: str, before: str) -> Block:
    found = _FENCE.fullmatch(fence)
    if found is None:
        return Block(place + 1, fence.removeprefix("```"), "", "", text, before)
    word = (found["word"] or "").strip(":= ")
    return Block(place + 1, found["language"], word, found["rest"] or "", text, before)


def matches(shown: str, printed: str) -> bool:
    """Tell whether a page shows the output.

    `…` stands for anything within a line, a line with nothing else for any number of lines.
    """
    return re.fullmatch("".join(_pattern(shown)), printed) is not None


def _pattern(shown: str) -> Iterator[str]:
    for line in shown.splitlines():
        if line.strip() == _ANYTHING:
            yield r"(?:.*\n)*?"
        else:
            # Spaces at the end of a line are those of a table's last column.
            yield ".*?".join(map(re.escape, line.split(_ANYTHING))) + r" *\n"


def session(page: Iterable[Block], folder: Path) -> dict[int, str]:
    """Run the blocks of a page; return the output of each one that runs, by the line of its fence.

    Ports are replaced by free ones of as many digits, and restored in the output.

    Raises:
        AssertionError: A block failed, or they took too long together.
    """
    told = list(page)
    ports = _free_ports(block.text for block in told)
    script = folder / ".session"
    script.write_text("".join(_step(block, ports, folder) for block in told), encoding="utf-8")
    return _by_line(
        _exchanged(_run(script, folder, ports), {new: old for old, new in ports.items()})
    )


def _step(block: Block, ports: Mapping[str, str], folder: Path) -> str:
    if block.word == "file":
        waiting = folder / f".files/{block.line}"
        waiting.parent.mkdir(exist_ok=True)
        waiting.write_text(_exchanged(block.text, ports), encoding="utf-8")
        return f'mkdir -p "$(dirname {block.rest})"; cp {waiting} {block.rest}\n'
    if block.word == "run":
        return f"echo '{_MARK} {block.line}'\n{_exchanged(block.text, ports)}"
    return ""


def _exchanged(text: str, ports: Mapping[str, str]) -> str:
    return _PORT.sub(lambda found: ports.get(found[0], found[0]), text)


def _free_ports(texts: Iterable[str]) -> dict[str, str]:
    """Return a free port for each port in the texts."""
    named = dict.fromkeys(["50051", *(port for text in texts for port in _PORT.findall(text))])
    return {port: str(free_port(_CANDIDATES[len(port)])) for port in named}


def _run(script: Path, folder: Path, ports: Mapping[str, str]) -> str:
    """Return the output of the script, standard error included."""
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        # The tests of a reader do not know these plugins of the environment.
        "PYTEST_ADDOPTS": "-p no:asyncio -p no:cacheprovider",
        # The address of commands that name none.
        "APIDISCOVERY_GRPC_SERVER": f"127.0.0.1:{ports['50051']}",
    }
    with (folder / ".printed").open("w+b") as printed:
        process = subprocess.Popen(  # noqa: S603 - from the guides
            ["/bin/bash", "--norc", "-e", str(script)],
            cwd=folder,
            env=environment(folder, variables),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | str = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = f"nothing within {LIMIT_S:g} s"
        finally:
            _end(process)
        printed.seek(0)
        text = printed.read().decode()
    assert code == 0, f"the shell ended with {code}:\n{text}"
    return text


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process group: the shell and the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _by_line(text: str) -> dict[int, str]:
    pieces = re.split(rf"^{_MARK} (\d+)\n", text, flags=re.MULTILINE)
    return {int(line): printed for line, printed in zip(pieces[1::2], pieces[2::2], strict=True)}
