"""The fenced blocks of a page: what is saved, what is run, what it has to print.

The word after the language says what a block is; CONTRIBUTING.md explains the words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"```(?P<language>\S*)(?: (?P<word>run|output|error|file=|not-run: )(?P<rest>.*))?"
)
_ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        line: Of its first fence.
        word: `run`, `file`, `output`, `error`, `not-run`; empty for a block that says nothing of
            itself.
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
    """Tell whether a guide shows what was printed.

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
