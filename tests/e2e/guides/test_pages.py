"""What the pages say is so: their commands run, and print what they show."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from guides import Block, blocks, matches, session
from repository import EXAMPLES, ROOT

from tools import find_tool

GUIDES = ROOT / "docs" / "guides"
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
}
PROGRAMS = ("curl", "kubectl", "openssl", "etcd")

# Each with the reason that its page gives.
NOT_RUN = {
    "CONTRIBUTING.md": ["these run the tests"],
    "README.md": ["tools/build.py installs the wheel in the tests", "needs a cluster of your own"],
    "docs/guides/README.md": ["the environment of the tests is that already"],
    "docs/guides/extension-server-author.md": ["the environment of the tests has both"],
    "docs/guides/python-developer.md": ["the environment of the tests has it"],
    "docs/how-to/any-language.md": ["the environment of the tests has both"],
    "docs/how-to/deploy.md": [
        "tools/build.py installs the wheel in environments of its own",
        "it changes an environment of yours",
        "it changes the machine, as root",
        "the base image is fetched from a registry",
        "the cluster and the registry are yours",
        "the cluster and the certificates are yours",
        "the clusters are yours",
        "the cluster is yours",
    ],
    "docs/how-to/gitops-gate.md": ["needs a cluster of your own", "runs at GitHub"],
    "docs/how-to/plan-an-upgrade.md": [
        "needs a cluster of your own",
        "needs manifests of your own",
    ],
    "docs/how-to/pydantic-models.md": ["a part of the example", "a part of the example"],
    "docs/how-to/runbook.md": ["SERVER and the token are yours", "SERVER and the token are yours"],
    "docs/how-to/tls-and-roles.md": ["a part of a configuration"],
    "docs/reference/configuration.md": ["a part of a configuration"],
    "docs/reference/grpc.md": ["grpcurl is not a requirement of the tests"],
    "docs/reliability.md": ["takes minutes", "takes minutes"],
    "docs/schema-diff.md": ["a part of a program"],
    "docs/store.md": ["needs a store of your own", "needs an etcd of your own"],
    "docs/troubleshooting.md": ["needs a server that has the problem"],
}

# A loop of a reader: it ends, with the log where the page has one, when a process has died.
_WAITS = re.compile(
    r"; do kill -0 \$(?:\w+|!)(?: && kill -0 \$\w+)* \|\| (?:break|\{ cat [^;]+; break; \}); sleep "
)

pytestmark = pytest.mark.timeout(400)

every_page_with_blocks = pytest.mark.parametrize(
    "name", [name for name, page in PAGES.items() if blocks(page)]
)
every_page_that_runs = pytest.mark.parametrize(
    "name", [name for name, page in PAGES.items() if any(b.word == "run" for b in blocks(page))]
)


@every_page_that_runs
def test_a_page_prints_what_it_shows_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    told = blocks(PAGES[name])
    for program in PROGRAMS:
        if any(f"{program} " in block.text for block in told if block.word == "run"):
            find_tool(program)
    (tmp_path / "examples").symlink_to(EXAMPLES)

    printed = session(told, tmp_path)

    for block, shown in _shown(told):
        text = printed[block.line]
        seen = f"{name}:{block.line} shows\n{shown}\nbut this was printed:\n{text}"
        assert matches(shown, text), seen
    left = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert left == ["examples"], "a page removes what it made"


@every_page_with_blocks
def test_every_block_says_what_it_is(name: str) -> None:
    told = blocks(PAGES[name])
    # A drawing has no language.
    assert [block for block in told if block.language and not block.word] == []
    for before, block in zip([None, *told], told, strict=False):
        if block.word == "output":
            assert before is not None
            assert before.word == "run", f"{name}:{block.line} is the output of nothing"
        if block.word == "file":
            assert f"`{block.rest}`" in block.before, f"{name}:{block.line} needs its name"


@every_page_that_runs
def test_whoever_waits_for_a_server_does_not_wait_for_a_dead_one(name: str) -> None:
    """Each process is asked for: of several `kill -0` takes one that lives for all."""
    text = PAGES[name].read_text(encoding="utf-8")
    waiting = re.findall(r"^.*\buntil .*; do .*", text, re.MULTILINE)
    assert [line for line in waiting if not _WAITS.search(line)] == []


@every_page_that_runs
def test_the_log_of_a_server_that_has_died_is_shown(name: str) -> None:
    """Otherwise the next line of the page calls whichever server has its port."""
    text = PAGES[name].read_text(encoding="utf-8")
    started = re.findall(r"2> (\S+\.log) &\n(?:\s*(\w+)=\$!)?", text)
    logs = {variable or "!": log for log, variable in started}
    for line in re.findall(r"^.*\buntil .*; do .*", text, re.MULTILINE):
        waited = re.findall(r"kill -0 \$(\w+|!)", line)
        expected = [logs[variable] for variable in waited if variable in logs]
        shown = re.search(r"\|\| \{ cat ([^;]+); break; \}", line)
        assert (shown[1].split(" ") if shown else []) == expected, line


def test_a_wait_ends_when_what_is_waited_for_has_died(tmp_path: Path) -> None:
    """As the guides wait for a server that could not start, such as for a port that is taken."""
    text = (GUIDES / "python-developer.md").read_text(encoding="utf-8")
    (wait,) = re.findall(r"^until test -e ready.json.*", text, re.MULTILINE)
    script = f"echo taken > serve.log; false & server=$!; wait $server; {wait}"
    done = subprocess.run(  # noqa: S603 - a line of ours
        [find_tool("bash"), "-c", script],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, b"taken\n")


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    found = {
        name: [block.rest for block in blocks(page) if block.word == "not-run"]
        for name, page in PAGES.items()
    }
    assert {name: reasons for name, reasons in found.items() if reasons} == NOT_RUN


def test_errors_are_those_of_the_code() -> None:
    """Whoever changes the text of an error changes the page that explains it."""
    texts = "\n".join(_texts())
    shown = [
        (name, piece)
        for name, page in PAGES.items()
        for block in blocks(page)
        if block.word == "error"
        for line in block.text.splitlines()
        for piece in line.split("…")
    ]
    assert shown, "no page explains errors"
    assert [(name, piece) for name, piece in shown if piece.strip() not in texts] == []


def test_programs_in_the_pages_are_typed(tmp_path: Path) -> None:
    """All at once, by mypy: a name that is gone, or an attribute that is another, is an error."""
    for name, page in PAGES.items():
        for block in blocks(page):
            if block.language == "python" and block.word == "file":
                program = f"{name}_{block.rest}".replace("-", "_").replace("/", "_")
                (tmp_path / program).write_text(block.text, encoding="utf-8")
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


def _texts() -> Iterator[str]:
    """Yield every text in the code; of an f-string also what is between its values."""
    for folder in ("clients", "service"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
