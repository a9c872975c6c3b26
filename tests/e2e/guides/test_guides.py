"""What the guides say is so: their commands run, and print what they show."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from guide_blocks import Block, blocks, matches
from guide_session import session
from repository import EXAMPLES, ROOT

from tools import find_tool

FOLDER = ROOT / "docs" / "guides"
GUIDES = sorted(FOLDER.glob("*.md"))
PROGRAMS = ("curl", "kubectl", "openssl")

# Each with the reason that its guide gives.
NOT_RUN = {
    "README.md": ["the environment of the tests is that already"],
}

every_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)


@every_guide
def test_a_guide_prints_what_it_shows_and_leaves_nothing_behind(
    guide: Path, tmp_path: Path
) -> None:
    told = blocks(guide)
    for name in PROGRAMS:
        if any(name in block.text for block in told if block.word == "run"):
            find_tool(name)
    (tmp_path / "examples").symlink_to(EXAMPLES)

    printed = session(told, tmp_path)

    for block, shown in _shown(told):
        text = printed[block.line]
        seen = f"{guide.name}:{block.line} shows\n{shown}\nbut this was printed:\n{text}"
        assert matches(shown, text), seen
    left = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert left == ["examples"], "a guide removes what it made"


@every_guide
def test_every_block_says_what_it_is(guide: Path) -> None:
    told = blocks(guide)
    assert [block for block in told if not block.word] == []
    for before, block in zip([None, *told], told, strict=False):
        if block.word == "output":
            assert before is not None
            assert before.word == "run", f"{guide.name}:{block.line} is the output of nothing"
        if block.word == "file":
            assert f"`{block.rest}`" in block.before, f"{guide.name}:{block.line} needs its name"


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_whoever_waits_for_a_server_does_not_wait_for_a_dead_one(page: Path) -> None:
    waiting = re.findall(r"^.*\buntil .*; do .*", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [line for line in waiting if "do kill -0 $" not in line] == []


def test_a_wait_ends_when_what_is_waited_for_has_died(tmp_path: Path) -> None:
    """As the guides wait for a server that could not start, such as for a port that is taken."""
    text = (FOLDER / "python-developer.md").read_text(encoding="utf-8")
    (wait,) = re.findall(r"^until test -e ready.json.*", text, re.MULTILINE)
    script = f"false & server=$!; wait $server; {wait}"
    done = subprocess.run(  # noqa: S603 - a line of ours
        [find_tool("bash"), "-c", script], check=False, cwd=tmp_path, timeout=30
    )
    assert done.returncode == 0


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    found = {
        guide.name: [block.rest for block in blocks(guide) if block.word == "not-run"]
        for guide in GUIDES
    }
    assert {name: reasons for name, reasons in found.items() if reasons} == NOT_RUN


@every_guide
def test_links_lead_to_files(guide: Path) -> None:
    links = re.findall(r"\]\(([\w./-]+)[^)]*\)", guide.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (FOLDER / link).exists()] == []


def test_programs_in_the_guides_are_typed(tmp_path: Path) -> None:
    """All at once, by mypy: a name that is gone, or an attribute that is another, is an error."""
    for guide in GUIDES:
        for block in blocks(guide):
            if block.language == "python":
                name = f"{guide.stem}_{block.rest}".replace("-", "_")
                (tmp_path / name).write_text(block.text, encoding="utf-8")
    programs = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *programs],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a\nc\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nd\n", True),
        ("a  b\n", "a  b   \n", True),
        ("1 passed in …\n", "1 passed in 0.01s\n", True),
        ("a.c\n", "abc\n", False),
    ],
)
def test_an_ellipsis_stands_for_what_varies(shown: str, printed: str, *, same: bool) -> None:
    assert matches(shown, printed) is same


def _shown(told: list[Block]) -> list[tuple[Block, str]]:
    """Return each block that is run, with what is shown of it; nothing shown is nothing printed."""
    pairs = zip(told, [*told[1:], None], strict=True)
    return [
        (block, after.text if after is not None and after.word == "output" else "")
        for block, after in pairs
        if block.word == "run"
    ]
