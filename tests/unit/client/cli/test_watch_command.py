"""`apidiscovery watch` prints each change as it happens, and ends as it is told to."""

import asyncio
import json
import signal
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from apidiscovery_cli.commands.watch import change_object
from apidiscovery_client import changes
from apidiscovery_client.model import (
    CURRENT,
    GroupVersion,
    Stale,
    Unknown,
    Version,
)
from apidiscovery_client.testing import FakeApiServer, group, resource
from command_line import run
from groups import contribution
from grpc_server import serving
from programs import running
from server import Server

Capture = pytest.CaptureFixture[str]

WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])
GADGETS = group("gadgets.example.com", v1=[resource("gadgets", "Gadget")])
NOW = datetime.fromisoformat("2026-01-02T03:04:05.678+00:00")


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_changes_are_lines_with_the_time(tmp_path: Path) -> None:
    with FakeApiServer([WIDGETS]) as server:
        args = ("watch", "-s", server.url, "--interval", "50ms", "--initial")
        with running(tmp_path, *args) as process:
            time, _, told = line(process).partition(" ")
            assert told == "group example.com added: v1\n"
            assert datetime.fromisoformat(time).tzinfo is not None
            server.add(GADGETS)
            assert line(process).endswith("Z group gadgets.example.com added: v1\n")
            server.down()
            assert " server " + server.url + " is stale: " in line(process)
            server.up()
            assert line(process).endswith(f" server {server.url} is current again\n")
            server.remove("gadgets.example.com")
            assert line(process).endswith("Z group gadgets.example.com removed\n")


@pytest.mark.parametrize(
    ("over", "number", "code"),
    [
        pytest.param("http", signal.SIGINT, 130, id="http"),
        pytest.param("grpc", signal.SIGTERM, 143, id="grpc"),
    ],
)
def test_it_says_what_it_watches_and_ends_with_a_signal(
    tmp_path: Path, server: Server, over: str, number: signal.Signals, code: int
) -> None:
    where = ("--grpc", server.grpc) if over == "grpc" else ("-s", server.url)
    with running(tmp_path, "watch", "--initial", *where) as process:
        assert line(process)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    address = server.grpc if over == "grpc" else server.url
    assert (process.returncode, stderr) == (code, f"watching {address}, until you stop it\n")


def test_a_reader_that_goes_away_ends_it(tmp_path: Path) -> None:
    with FakeApiServer([WIDGETS]) as server:
        args = ("watch", "-s", server.url, "--interval", "50ms", "--initial")
        with running(tmp_path, *args) as process:
            assert line(process)
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            server.add(GADGETS)
            assert process.wait(30) == 1
            assert process.stderr.read() == f"watching {server.url}, until you stop it\n"


async def test_over_grpc_a_change_is_pushed(tmp_path: Path) -> None:
    async with serving(contribution("one", "example.com/v1")) as served:
        args = ("watch", "--initial", "-o", "json", "--grpc", served.target)
        with running(tmp_path, *args) as process:
            first = json.loads(await asyncio.to_thread(line, process))
            served.registry.publish(contribution("two", "gadgets.example.com/v1"))
            second = json.loads(await asyncio.to_thread(line, process))
    for told, name in ((first, "example.com"), (second, "gadgets.example.com")):
        assert datetime.fromisoformat(told.pop("time")).tzinfo is not None
        text = f"group {name} added: v1"
        assert told == {"type": "GroupAdded", "group": name, "versions": ["v1"], "text": text}


def test_once_prints_what_changed_since_the_last_command(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as server:
        first = run(capsys, "watch", "--once", "-s", server.url)
        assert (first.exit_code, first.stdout) == (0, "")
        assert first.stderr == f"no earlier snapshot of {server.url}; saved one now\n"
        assert run(capsys, "watch", "--once", "-s", server.url).stdout == ""
        server.add(GADGETS)
        second = run(capsys, "watch", "--once", "-s", server.url)
        assert (second.exit_code, second.stderr) == (0, "")
        assert second.stdout.endswith("Z group gadgets.example.com added: v1\n")
        assert run(capsys, "watch", "--once", "-s", server.url).stdout == ""


def test_a_server_that_never_answered_is_an_error(capsys: Capture) -> None:
    with FakeApiServer([]) as server:
        server.down()
        gone = server.url
        for args in (("-s", gone), ("-s", gone, "--once")):
            outcome = run(capsys, "watch", *args)
            assert (outcome.exit_code, outcome.stdout) == (1, "")
            assert "was refused" in outcome.stderr
        outcome = run(capsys, "watch", "--grpc", gone.removeprefix("http://"))
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--interval 0", "--interval must be longer than 0"),
        ("--interval soon", "'soon' is neither"),
        ("--once --initial", "--once and --initial cannot be used together"),
        ("--once --grpc [::1]:1", "--once and --grpc cannot be used together"),
        ("--cache-dir x", "--cache-dir is for --once"),
        ("--grpc nowhere", "'nowhere' is not HOST:PORT"),
        ("--grpc [::1]:1 -s http://[::1]:2", "--server and --grpc cannot be used together"),
        ("-o yaml", "'yaml' is not one of 'text', 'json'"),
    ],
)
def test_bad_usage(capsys: Capture, args: str, message: str) -> None:
    outcome = run(capsys, "watch", *args.split())
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert message in outcome.stderr


def test_every_kind_of_change_has_an_object() -> None:
    (widget,) = WIDGETS.versions[0].resources
    gv = GroupVersion("example.com", "v1")
    version, stale = Version(gv, (widget,)), Stale(NOW, "it is down")
    where = {"group": "example.com", "version": "v1"}
    what: dict[str, object] = {**where, "resource": "widgets", "kind": "Widget"}
    objects: list[tuple[changes.Change, dict[str, object]]] = [
        (changes.GroupAdded(WIDGETS), {"group": "example.com", "versions": ["v1"]}),
        (changes.GroupRemoved(WIDGETS), {"group": "example.com", "versions": ["v1"]}),
        (
            changes.GroupChanged(WIDGETS, WIDGETS, ("extra",)),
            {"group": "example.com", "fields": ["extra"]},
        ),
        (changes.VersionAdded(version), {**where, "resources": ["widgets"]}),
        (changes.VersionRemoved(version), {**where, "resources": ["widgets"]}),
        (changes.VersionChanged(version, version, ("extra",)), {**where, "fields": ["extra"]}),
        (
            changes.PreferredVersionChanged("example.com", "", "v1"),
            {"group": "example.com", "before": "", "after": "v1"},
        ),
        (
            changes.FreshnessChanged(gv, CURRENT, stale),
            {**where, "before": "Current", "after": "Stale", "reason": "it is down"},
        ),
        (
            changes.ServerFreshnessChanged("http://a", Unknown(NOW, "so"), CURRENT),
            {"server": "http://a", "before": "Unknown", "after": "Current"},
        ),
        (changes.ResourceAdded(widget), what),
        (changes.ResourceRemoved(widget), what),
        (changes.ResourceChanged(widget, widget, ("verbs",)), {**what, "fields": ["verbs"]}),
        (
            changes.OrderChanged("versions", "example.com", ("a", "b"), ("b", "a")),
            {"of": "example.com", "kind": "versions", "before": ["a", "b"], "after": ["b", "a"]},
        ),
    ]
    for change, about in objects:
        told = change_object(change, NOW)
        assert told.pop("time") == "2026-01-02T03:04:05.678+00:00"
        assert told.pop("text") == str(change)
        assert told == {"type": type(change).__name__, **about}
