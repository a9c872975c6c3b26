"""`apidiscovery diff`: exit codes, forms of output, and where credentials go."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from apidiscovery_client.snapshots.file import dump
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.testing import FakeApiServer, group, resource
from certificates import Authority
from client_snapshots import snapshot
from command_line import Outcome, run
from kubectl_config import config, write
from programs import free_port
from server import COMMAND, environment
from snapshot_samples import golden

Capture = pytest.CaptureFixture[str]
WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])
MORE = group("example.com", v1=[resource("widgets", "Widget", short_names=["w"])])


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: `same.json`, `other.json` with one short name more."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APIDISCOVERY_TOKEN", raising=False)
    for name, found in (("same", WIDGETS), ("other", MORE)):
        (tmp_path / f"{name}.json").write_bytes(dump(snapshot(found)))
    return tmp_path


def diff(capsys: Capture, *args: str) -> Outcome:
    return run(capsys, "diff", *args)


@pytest.mark.usefixtures("sides")
@pytest.mark.parametrize(
    ("args", "exit_code"),
    [
        (("same.json", "same.json"), 0),
        (("same.json", "other.json"), 1),
        (("same.json", "other.json", "--breaking-only"), 0),
        (("other.json", "same.json", "--breaking-only"), 1),
        (("same.json", "missing.json"), 2),
        (("same.json",), 2),
        (("-", "-"), 2),
        (("same.json", "kubernetes:9.9"), 2),
        (("same.json", "other.json", "-o", "yaml"), 2),
    ],
)
def test_exit_code_is_0_for_the_same_1_for_different_2_for_trouble(
    capsys: Capture, args: tuple[str, ...], exit_code: int
) -> None:
    found = diff(capsys, *args)
    assert found.exit_code == exit_code
    assert found.stderr.startswith("error: ") == (exit_code == 2)
    assert "Traceback" not in found.stderr
    assert bool(found.stdout) == (exit_code != 2)


@pytest.mark.usefixtures("sides")
def test_server_that_does_not_answer_is_trouble(capsys: Capture) -> None:
    found = diff(capsys, "same.json", f"http://127.0.0.1:{free_port()}")
    assert found.exit_code == 2
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1


@pytest.mark.usefixtures("sides")
def test_file_that_is_no_snapshot_is_trouble(capsys: Capture) -> None:
    Path("bad.json").write_text('{"kind": "Pod", "apiVersion": "v1"}')
    found = diff(capsys, "bad.json", "same.json")
    assert found.exit_code == 2
    assert "bad.json: it is Pod v1" in found.stderr


def test_server_is_compared_with_a_release(capsys: Capture) -> None:
    with FakeApiServer([*release("1.21").groups, WIDGETS]) as server:
        same = diff(capsys, server.url, "kubernetes:1.21")
        upgraded = diff(capsys, server.url, "kubernetes:1.22", "--breaking-only")
    assert same.exit_code == 0, same.stdout
    assert "? example.com: kubernetes:1.21 does not tell of" in same.stdout
    assert upgraded.exit_code == 1
    assert "! extensions: removed, with v1beta1: Ingress moves to" in upgraded.stdout


def test_server_with_a_stale_version_is_not_said_to_lack_it(capsys: Capture, sides: Path) -> None:
    with FakeApiServer([WIDGETS, group("metrics.example", v1=[resource("ms", "M")])]) as server:
        (sides / "before.json").write_bytes(dump(snapshot(*server.groups)))
        server.fail("metrics.example/v1")
        found = diff(capsys, "before.json", server.url, "--breaking-only")
    assert found.exit_code == 0, found.stdout
    assert "? metrics.example/v1: " in found.stdout


def test_contexts_are_compared_with_the_credentials_of_each(
    capsys: Capture, sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APIDISCOVERY_TOKEN", "of-the-environment")
    authority = Authority(sides)
    pair = authority.server(["127.0.0.1"])
    with (
        FakeApiServer([WIDGETS], cert_file=pair.cert_file, key_file=pair.key_file) as one,
        FakeApiServer([MORE], cert_file=pair.cert_file, key_file=pair.key_file) as other,
    ):
        path = write(sides / "config", two_contexts(authority, one, other))
        found = diff(capsys, "context:one", "context:other", "--kubeconfig", path)
        sent = [
            {request.headers.get("authorization") for request in server.requests}
            for server in (one, other)
        ]
    assert found.exit_code == 1, found.stderr
    assert sent == [{"Bearer of-one"}, {"Bearer of-other"}]


def two_contexts(
    authority: Authority, one: FakeApiServer, other: FakeApiServer
) -> dict[str, object]:
    servers = {"one": one.url, "other": other.url}
    trust = {"certificate-authority": str(authority.ca_file)}
    return config(
        clusters=[
            {"name": name, "cluster": {"server": url, **trust}} for name, url in servers.items()
        ],
        users=[{"name": name, "user": {"token": f"of-{name}"}} for name in servers],
        contexts=[{"name": name, "context": {"cluster": name, "user": name}} for name in servers],
    )


def test_token_is_not_sent_to_two_servers(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as one, FakeApiServer([WIDGETS]) as other:
        found = diff(capsys, one.url, other.url, "--token", "secret")
        assert not one.requests
        assert not other.requests
    assert found.exit_code == 2
    assert "--token would go to several servers" in found.stderr


def test_sides_are_called_as_they_were_typed(
    capsys: Capture, sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeApiServer([MORE]) as server:
        path = write(sides / "config", config({"server": server.url}))
        saving = ("snapshot", "save", "before.json", "--server", server.url)
        assert run(capsys, *saving).exit_code == 0
        for other in (server.url, "context:c", "kubernetes:1.30"):
            found = diff(capsys, "before.json", other, "--kubeconfig", path)
            assert found.stdout.startswith(f"before.json -> {other}: ")
        document = diff(capsys, server.url, "before.json", "-o", "json").stdout
    names = json.loads(document)
    assert (names["before"], names["after"]) == (server.url, "before.json")
    data = io.BytesIO((sides / "before.json").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    markdown = diff(capsys, "-", "before.json", "-o", "markdown").stdout
    assert markdown.startswith("# API differences: standard input → before.json")


def test_missing_part_is_reported_with_the_side_as_typed(capsys: Capture, sides: Path) -> None:
    (sides / "apis.json").write_bytes(golden("builtin/apis.v2.json"))
    found = diff(capsys, "same.json", "apis.json")
    assert "/api: apis.json cannot tell it: " in found.stdout


def test_report_to_a_closed_pipe_ends_with_exit_code_2_instead_of_0(sides: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert _written_to(writer, sides, "same.json") == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_report_to_a_full_disk_ends_with_exit_code_2_instead_of_1(sides: Path) -> None:
    exit_code, stderr = _written_to(os.open("/dev/full", os.O_WRONLY), sides, "other.json")
    assert exit_code == 2
    assert stderr == "error: the report cannot be written: No space left on device\n"


def _written_to(stdout: int, folder: Path, other: str) -> tuple[int, str]:
    done = subprocess.run(  # noqa: S603 - our own arguments
        [str(COMMAND), "diff", "same.json", other],
        check=False,
        cwd=folder,
        env=environment(folder),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(stdout)
    return done.returncode, done.stderr


@pytest.mark.usefixtures("sides")
def test_output_that_is_no_terminal_has_no_colours(capsys: Capture) -> None:
    assert "\x1b" not in diff(capsys, "other.json", "same.json").stdout
