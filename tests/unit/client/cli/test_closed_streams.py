"""Commands report a stdin or stdout that was closed before they started."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from apidiscovery_client.testing import FakeApiServer
from command_line import Outcome, run
from server import COMMAND, environment

Capture = pytest.CaptureFixture[str]

SHELL = Path("/bin/sh")
STDOUT_IS_CLOSED = "error: stdout is closed: there is nowhere to print to"


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
def test_each_command_reports_a_closed_stdout(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, args: str
) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it then
    with FakeApiServer() as server:
        found = run(capsys, *args.replace("URL", server.url).split())
    told = found.stderr.splitlines()[1 if args.startswith("watch") else 0 :]
    assert told == [STDOUT_IS_CLOSED]
    assert found.exit_code == 1


def test_a_process_with_a_closed_stdout_fails_only_if_it_prints(tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    with FakeApiServer() as server:
        printed = run_in_shell(tmp_path, ">&-", "resolve", "deploy", "-s", server.url)
        saved = run_in_shell(tmp_path, ">&-", "snapshot", "save", str(file), "-s", server.url)
    assert printed == Outcome(1, "", f"{STDOUT_IS_CLOSED}\n")
    assert saved == Outcome(0, "", "")
    assert file.stat().st_size


@pytest.mark.parametrize(
    ("args", "exit_code"),
    [
        ("snapshot show -", 1),
        ("export helm-api-versions -", 1),
        ("diff - kubernetes:1.30", 2),
        ("apply -f -", 1),
        ("apply -f - --name east", 1),
        ("apply -f - --expect-revision 1", 1),
        ("withdraw -f -", 1),
        ("openapi validate -", 2),
    ],
)
def test_each_command_reports_a_closed_stdin_in_the_same_words(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, args: str, exit_code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it then
    told = "error: standard input cannot be read: it is closed\n"
    assert run(capsys, *args.split()) == Outcome(exit_code, "", told)


@pytest.mark.parametrize(
    ("redirection", "reason"), [("<&-", "it is closed"), ("0>/dev/null", "Bad file descriptor")]
)
def test_a_process_reports_a_stdin_that_it_cannot_read(
    tmp_path: Path, redirection: str, reason: str
) -> None:
    found = run_in_shell(tmp_path, redirection, "snapshot", "show", "-")
    assert found == Outcome(1, "", f"error: standard input cannot be read: {reason}\n")
