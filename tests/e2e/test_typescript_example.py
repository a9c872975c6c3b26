"""`examples/typescript` from an empty folder: npm, the packaged protos, Node and Chromium."""

import mimetypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import Outcome
from fake_api_server import Answer, FakeApiServer
from programs import run_apidiscovery
from repository import ROOT
from server import environment, serving

from tools import find_browser, find_tool

EXAMPLE = ROOT / "examples" / "typescript"
_LIMIT_S = 240.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(2 * _LIMIT_S),
]


def run(folder: Path, *command: str) -> Outcome:
    """Run a program in a folder, with the settings of npm of whoever runs the tests."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [find_tool(command[0]), *command[1:]],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment(folder), "HOME": os.environ["HOME"]},
        cwd=folder,
        timeout=_LIMIT_S,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the example that is installed, generated, checked and built."""
    folder = tmp_path_factory.mktemp("typescript") / "example"
    kept = shutil.ignore_patterns("node_modules", "build", "protos", "gen", "page.js")
    shutil.copytree(EXAMPLE, folder, ignore=kept)
    protos = run_apidiscovery(folder.parent, "protos").stdout.strip()
    shutil.copytree(protos, folder / "protos")
    for step in (("install",), ("run", "generate"), ("run", "check"), ("run", "build")):
        done = run(folder, "npm", *step)
        assert done.exit_code == 0, (step, done.stdout, done.stderr)
    return folder


@pytest.fixture(scope="module")
def addresses(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return the URLs of a server and of the example's page, whose origin it allows."""
    with ExitStack() as stack:
        files = {f"/{path.name}": _file(path) for path in (project / "public").iterdir()}
        page = stack.enter_context(FakeApiServer(files)).url
        folder = tmp_path_factory.mktemp("server")
        flags = ("--cors-origin", page, "--store", "memory")
        yield stack.enter_context(serving(folder, *flags)).url, page


def _file(path: Path) -> Answer:
    return Answer(path.read_bytes(), mimetypes.guess_type(path)[0])


def test_node_reads_and_watches(project: Path, addresses: tuple[str, str]) -> None:
    done = run(project, "npm", "run", "--silent", "read", addresses[0])
    assert done.exit_code == 0, done.stderr
    first, again, watched = done.stdout.splitlines()
    assert first.startswith("21 groups, ")
    assert again == "again: notModified"
    assert watched.endswith("resources, the first is v1 bindings")


def test_node_says_in_one_line_that_nothing_answers(project: Path) -> None:
    done = run(project, "npm", "run", "--silent", "read", "http://127.0.0.1:1")
    assert done.exit_code == 1
    said = done.stderr.partition("Done in")[2].splitlines()[1:]  # after esbuild
    assert len(said) == 1, done.stderr
    assert said[0].startswith("error: http://127.0.0.1:1: ")


@pytest.mark.parametrize("protocol", ["connect", "grpc-web"])
def test_the_page_shows_what_is_served(
    project: Path, addresses: tuple[str, str], protocol: str
) -> None:
    server, page = addresses
    url = f"{page}/index.html?server={server}&protocol={protocol}"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000")
    done = run(project, find_browser(), *options, "--dump-dom", url)
    assert '<span id="state">live</span>' in done.stdout
    assert "<li>apps/v1 deployments</li>" in done.stdout
