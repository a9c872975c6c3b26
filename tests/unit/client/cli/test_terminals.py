"""Colours and progress are for terminals only, and NO_COLOR switches colours off."""

from pathlib import Path

import pytest
from apidiscovery_client.testing import FakeApiServer
from programs import on_a_terminal, run_apidiscovery


@pytest.mark.parametrize("command", ["resolve --explain deploy", "conformance --only 1,2"])
def test_colours_are_for_terminals(tmp_path: Path, command: str) -> None:
    with FakeApiServer() as server:
        args = (*command.split(), "--server", server.url)
        plain = run_apidiscovery(tmp_path, *args).stdout
        coloured = on_a_terminal(tmp_path, *args)
        refused = on_a_terminal(tmp_path, *args, env={"NO_COLOR": "1"})
        dumb = on_a_terminal(tmp_path, *args, env={"TERM": "dumb"})
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain + refused + dumb
    assert refused.splitlines()[0] == plain.splitlines()[0]


def test_a_table_is_the_same_everywhere(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        args = ("api-resources", "--server", server.url)
        assert on_a_terminal(tmp_path, *args) == run_apidiscovery(tmp_path, *args).stdout


def test_long_work_shows_how_far_it_is_and_leaves_nothing(tmp_path: Path) -> None:
    with FakeApiServer(release="1.25") as server:
        args = ("api-resources", "--server", server.url)
        shown = on_a_terminal(tmp_path, *args)
        quiet = run_apidiscovery(tmp_path, *args)
    count = len([path for path in server.paths if path.count("/") > 1]) // 2
    assert f"\rAsking for group-versions: {count} of {count}\r" in shown.replace("\x1b[K", "")
    assert shown.endswith(f"\r\x1b[K{quiet.stdout}")
    assert quiet.stderr == ""
