"""Colours and progress are for terminals only, and NO_COLOR switches colours off."""

from pathlib import Path

import pytest
from apidiscovery_client.testing import FakeApiServer
from command_line import run
from programs import on_a_terminal

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("command", "env", "is_coloured"),
    [
        pytest.param("resolve --explain deploy", {}, True, id="resolve"),
        pytest.param("conformance --only 1,2", {}, True, id="conformance"),
        pytest.param("resolve --explain deploy", {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param("resolve --explain deploy", {"TERM": "dumb"}, False, id="dumb"),
    ],
)
def test_colours_are_for_terminals(
    capsys: Capture, tmp_path: Path, command: str, env: dict[str, str], *, is_coloured: bool
) -> None:
    with FakeApiServer() as server:
        args = (*command.split(), "--server", server.url)
        piped = run(capsys, *args).stdout
        shown = on_a_terminal(tmp_path, *args, env=env)
    assert "\x1b[" not in piped
    assert ("\x1b[" in shown) is is_coloured
    if not is_coloured:
        assert shown.splitlines()[0] == piped.splitlines()[0]


def test_a_table_is_the_same_everywhere(capsys: Capture, tmp_path: Path) -> None:
    with FakeApiServer() as server:
        args = ("api-resources", "--server", server.url)
        assert on_a_terminal(tmp_path, *args) == run(capsys, *args).stdout


def test_progress_is_shown_and_then_cleared(capsys: Capture, tmp_path: Path) -> None:
    with FakeApiServer(release="1.25") as server:
        args = ("api-resources", "--server", server.url)
        shown = on_a_terminal(tmp_path, *args)
        quiet = run(capsys, *args)
    count = len([path for path in server.paths if path.count("/") > 1]) // 2
    assert f"\rAsking for group-versions: {count} of {count}\r" in shown.replace("\x1b[K", "")
    assert shown.endswith(f"\r\x1b[K{quiet.stdout}")
    assert quiet.stderr == ""
