"""`apidiscovery diff`: exit codes, forms of output, and where credentials go."""

import io
import json
import sys
from pathlib import Path

import pytest
from apidiscovery_client.snapshots.file import dump
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.testing import FakeApiServer, group, resource
from certificates import Authority
from command_line import Outcome, run
from compared import snapshot
from kubectl_config import config, write
from programs import free_port

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


@pytest.mark.usefixtures("sides")
def test_json_is_one_document(capsys: Capture) -> None:
    document = json.loads(diff(capsys, "same.json", "other.json", "-o", "json").stdout)
    assert document["kind"] == "DiscoveryDiff"
    assert [found["rule"] for found in document["findings"]] == ["short-name-added"]


@pytest.mark.usefixtures("sides")
def test_markdown_has_headings(capsys: Capture) -> None:
    assert "## Compatible" in diff(capsys, "same.json", "other.json", "-o", "markdown").stdout


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
    assert "--token would go to both servers" in found.stderr


def test_one_side_may_come_from_standard_input(
    capsys: Capture, sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (sides / "other.json").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert diff(capsys, "-", "other.json").exit_code == 0


@pytest.mark.usefixtures("sides")
def test_output_that_is_no_terminal_has_no_colours(capsys: Capture) -> None:
    assert "\x1b" not in diff(capsys, "other.json", "same.json").stdout
