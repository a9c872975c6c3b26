"""`apidiscovery snapshot` saves what a server serves, and shows it as api-resources would."""

import io
import json
import sys
from pathlib import Path

import pytest
from apidiscovery_client.testing import FakeApiServer, group, resource
from command_line import Outcome, run

Capture = pytest.CaptureFixture[str]

WIDGETS = group("example.com", v1=[resource("widgets", "Widget", short_names=["wd"])])
GADGETS = group("gadgets.example.com", v1=[resource("gadgets", "Gadget")])


@pytest.mark.parametrize("release", ["1.36", "1.25"])
def test_a_file_shows_what_the_server_did(capsys: Capture, tmp_path: Path, release: str) -> None:
    file = str(tmp_path / "saved.json")
    with FakeApiServer(release=release) as server:
        assert run(capsys, "snapshot", "save", file, "-s", server.url) == Outcome(0, "", "")
        for args in (
            "",
            "-o wide",
            "-o name",
            "-o json",
            "-o yaml",
            "--no-headers",
            "--api-group=apps",
            "--namespaced=false",
            "--verbs=list,get",
            "--categories=all",
            "--sort-by=kind",
        ):
            listed = run(capsys, "api-resources", *args.split(), "-s", server.url)
            assert run(capsys, "snapshot", "show", file, *args.split()) == listed, args


def test_what_is_saved_on_stdout_is_shown_from_stdin(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeApiServer([WIDGETS]) as server:
        saved = run(capsys, "snapshot", "save", "-", "-s", server.url)
        assert json.loads(saved.stdout)["server"] == server.url
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(saved.stdout.encode())))
    assert run(capsys, "snapshot", "show", "-", "-o", "name").stdout == "widgets.example.com\n"


def test_missing_groups_are_an_error_when_saved_and_when_shown(
    capsys: Capture, tmp_path: Path
) -> None:
    file = str(tmp_path / "saved.json")
    with FakeApiServer([WIDGETS, GADGETS]) as server:
        server.stale("example.com/v1")
        saved = run(capsys, "snapshot", "save", file, "-s", server.url)
    shown = run(capsys, "snapshot", "show", file, "-o", "name")
    told = (
        "error: unable to retrieve the complete list of server APIs: "
        "example.com/v1: stale GroupVersion discovery: example.com/v1\n"
    )
    assert (saved.exit_code, saved.stderr) == (1, told)
    assert (shown.exit_code, shown.stdout, shown.stderr) == (
        1,
        "gadgets.gadgets.example.com\n",
        told,
    )


def test_without_an_answer_no_file_is_touched(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    file.write_text("as it was")
    with FakeApiServer([WIDGETS]) as server:
        server.unauthorized()
        outcome = run(capsys, "snapshot", "save", str(file), "-s", server.url)
    assert outcome.exit_code == 1
    assert ": 401: " in outcome.stderr
    assert file.read_text() == "as it was"


def test_a_file_that_cannot_be_written_is_an_error(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "none" / "saved.json"
    with FakeApiServer([WIDGETS]) as server:
        outcome = run(capsys, "snapshot", "save", str(file), "-s", server.url)
    assert outcome.exit_code == 1
    assert outcome.stderr == f"error: {file} cannot be written: No such file or directory\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "it is not JSON"),
        ('{"kind": "Pod", "apiVersion": "v1"}', "it is Pod v1, and can only be DiscoverySnapshot"),
        ("[]", "saved.json"),
    ],
)
def test_another_file_is_an_error(
    capsys: Capture, tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "saved.json"
    file.write_text(content)
    outcome = run(capsys, "snapshot", "show", str(file))
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith(f"error: {file}")
    assert message in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_a_file_that_is_not_there_is_bad_usage(capsys: Capture) -> None:
    outcome = run(capsys, "snapshot", "show", "/nonexistent")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "'/nonexistent' does not exist" in outcome.stderr


def test_without_a_subcommand_the_subcommands_are_shown(capsys: Capture) -> None:
    outcome = run(capsys, "snapshot")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout == run(capsys, "snapshot", "--help").stdout
