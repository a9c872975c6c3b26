"""`explain` prints, byte for byte, what kubectl explain prints."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome
from explained_cluster import answers, commands
from fake_api_server import FakeApiServer

from tools import find_tool

Ask = Callable[..., Outcome]
RECORDED = answers()


@pytest.fixture(scope="session")
def kubectl_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl")


@pytest.mark.parametrize("command", commands())
def test_answer_is_the_recorded_one_of_kubectl(real: FakeApiServer, ask: Ask, command: str) -> None:
    ours = ask(real, "explain", *command.split(" "))
    assert (ours.exit_code, ours.stdout, ours.stderr) == RECORDED[command]


# A few of them: this is about the installed kubectl, and each starts a process.
@pytest.mark.parametrize("command", commands()[::25])
def test_kubectl_still_answers_what_was_recorded(
    real: FakeApiServer, kubectl_cache: Path, command: str
) -> None:
    program = [find_tool("kubectl"), "--server", real.url, "--cache-dir", str(kubectl_cache)]
    theirs = subprocess.run(  # noqa: S603 - our own arguments
        [*program, "explain", *command.split(" ")],
        check=False,
        capture_output=True,
        env={"HOME": str(kubectl_cache), "PATH": os.environ["PATH"]},
    )
    seen = theirs.returncode, theirs.stdout.decode(), theirs.stderr.decode()
    assert seen == RECORDED[command]


def test_every_recorded_answer_is_of_a_command() -> None:
    assert sorted(RECORDED) == sorted(commands())
