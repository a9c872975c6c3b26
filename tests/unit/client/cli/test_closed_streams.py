"""Commands report a stdin or stdout that was closed before they started."""

import shlex
import subprocess
from pathlib import Path

import pytest
from apidiscovery_client.testing import FakeApiServer
from command_line import Outcome
from server import COMMAND, environment

SHELL = Path("/bin/sh")


def run_in_shell(home: Path, redirection: str, *args: str) -> Outcome:
    done = subprocess.run(  # noqa: S603 - our own arguments
        [str(SHELL), "-c", f"exec {shlex.join([str(COMMAND), *args])} {redirection}"],
        check=False,
        capture_output=True,
        env=environment(home),
        timeout=60,
        text=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "args",
    [
        "resolve deploy -s URL",
        "resolve deploy --explain -s URL",
        "snapshot save - -s URL",
        "conformance URL --only 1",
        "watch --initial -s URL",
        "completion bash",
        "export helm-api-versions kubernetes:1.30",
    ],
)
def test_a_closed_stdout_is_told(tmp_path: Path, args: str) -> None:
    with FakeApiServer() as server:
        found = run_in_shell(tmp_path, ">&-", *args.replace("URL", server.url).split())
    told = found.stderr.splitlines()[1 if args.startswith("watch") else 0 :]
    assert told == ["error: stdout is closed: there is nowhere to print to"]
    assert found.exit_code == 1


def test_a_closed_stdout_does_not_matter_to_who_does_not_print(tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    with FakeApiServer() as server:
        found = run_in_shell(tmp_path, ">&-", "snapshot", "save", str(file), "-s", server.url)
    assert (found.exit_code, found.stderr) == (0, "")
    assert file.stat().st_size


_READS_STDIN = [
    ("snapshot show -", 1),
    ("export helm-api-versions -", 1),
    ("diff - kubernetes:1.30", 2),
    ("apply -f -", 1),
    ("apply -f - --name east", 1),
    ("apply -f - --expect-revision 1", 1),
    ("withdraw -f -", 1),
    ("openapi validate -", 2),
]


@pytest.mark.parametrize(
    ("redirection", "reason"), [("<&-", "it is closed"), ("0>/dev/null", "Bad file descriptor")]
)
@pytest.mark.parametrize(("args", "exit_code"), _READS_STDIN)
def test_a_stdin_that_cannot_be_read_is_told_in_the_same_words(
    tmp_path: Path, args: str, exit_code: int, redirection: str, reason: str
) -> None:
    found = run_in_shell(tmp_path, redirection, *args.split())
    assert found == Outcome(exit_code, "", f"error: standard input cannot be read: {reason}\n")
