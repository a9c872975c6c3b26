"""`apidiscovery diff --fields`: its sides, forms and exit codes."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_client.schemas import GivenSchemas, stored_schemas
from apidiscovery_client.snapshots.file import dump
from apidiscovery_client.snapshots.releases import release
from command_line import Outcome, run
from fake_api_server import FakeApiServer, status
from kubectl_config import several, write
from programs import free_port
from schema_samples import components, files, served, text_of, widget

Capture = pytest.CaptureFixture[str]
TEXT = {"type": "string"}
OLD = widget({"a": TEXT, "b": {"type": "string", "enum": ["x", "z"]}}, versions=("v1", "v2"))
NEW = widget(
    {
        "b": {"type": "string", "enum": ["x"]},
        "c": TEXT,
        "d": {**TEXT, "x-kubernetes-validations": [{"rule": "self.split(',').size() == 1"}]},
    },
    versions=("v1", "v2"),
)


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: files `old.yaml` and `new.json`, and a folder `old`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APIDISCOVERY_TOKEN", raising=False)
    Path("old.yaml").write_bytes(text_of({"apiVersion": "v1", "kind": "Secret"}, OLD))
    Path("new.json").write_text(json.dumps(NEW))
    Path("old", "below").mkdir(parents=True)
    Path("old", "below", "crd.yml").write_bytes(text_of(OLD))
    Path("old", "notes.txt").write_text("nothing")
    return tmp_path


def diff(capsys: Capture, *args: str) -> Outcome:
    return run(capsys, "diff", "--fields", *args)


@pytest.mark.usefixtures("sides")
def test_text_has_breaking_changes_first_and_versions_together(capsys: Capture) -> None:
    found = diff(capsys, "old.yaml", "new.json")
    assert (found.exit_code, found.stderr) == (1, "")
    assert found.stdout.splitlines() == [
        "old.yaml -> new.json: 4 breaking, 4 other in 1 kind",
        "",
        "example.com Widget",
        "! v1,v2 spec.a: property-removed; writer pruned; reader absent; stored pruned",
        '! v1,v2 spec.b: enum-changed -"z"; writer rejected',
        "  v1,v2 spec.c: property-added",
        "  v1,v2 spec.d: property-added",
    ]


@pytest.mark.usefixtures("sides")
def test_undecided_change_is_marked_with_its_reason(capsys: Capture) -> None:
    rule = "self.split(',').size() == 1"
    schema = {**TEXT, "x-kubernetes-validations": [{"rule": rule}]}
    Path("new.json").write_text(json.dumps(widget({"a": schema})))
    Path("old.yaml").write_bytes(text_of(widget({"a": TEXT})))
    found = diff(capsys, "old.yaml", "new.json", "--breaking-only")
    assert found.exit_code == 1, "it is not known to be safe"
    wanted = f'? v1 spec.a: cel-rule-added "{rule}"; writer unknown; stored unknown'
    assert found.stdout.splitlines()[-1].startswith(wanted)


@pytest.mark.usefixtures("sides")
def test_json_is_the_documented_form(capsys: Capture) -> None:
    document = json.loads(diff(capsys, "old.yaml", "new.json", "-o", "json").stdout)
    assert list(document) == ["changes"]
    assert document["changes"][0] == {
        "group": "example.com",
        "version": "v1",
        "kind": "Widget",
        "path": "spec.a",
        "change": "property-removed",
        "before": TEXT,
        "after": None,
        "writer": "pruned",
        "reader": "absent",
        "stored": "pruned",
        "applier": "fine",
    }


@pytest.mark.usefixtures("sides")
def test_markdown_has_a_section_for_each_kind(capsys: Capture) -> None:
    text = diff(capsys, "old.yaml", "new.json", "-o", "markdown").stdout
    assert "# Field differences: old.yaml → new.json\n\n4 breaking, 4 other in 1 kind.\n" in text
    assert '- breaking: `v1,v2 spec.b` enum-changed -"z"; writer rejected\n' in text


@pytest.mark.usefixtures("sides")
@pytest.mark.parametrize(
    ("args", "exit_code"),
    [
        (("old.yaml", "old"), 0),
        (("old.yaml", "new.json"), 1),
        (("old.yaml", "new.json", "--breaking-only"), 1),
        (("old.yaml", "missing.yaml"), 2),
        (("old.yaml", "old/notes.txt"), 2),
        (("old.yaml", "kubernetes:1.9"), 2),
        (("old.yaml", "context:"), 2),
        (("-", "-"), 2),
    ],
)
def test_exit_code_is_0_for_the_same_1_for_different_2_for_trouble(
    capsys: Capture, args: tuple[str, ...], exit_code: int
) -> None:
    found = diff(capsys, *args)
    assert found.exit_code == exit_code, found
    assert found.stderr.startswith("error: ") == (exit_code == 2)
    assert bool(found.stdout) == (exit_code != 2)


@pytest.mark.usefixtures("sides")
def test_additions_are_no_difference_where_only_breaking_ones_count(capsys: Capture) -> None:
    Path("more.json").write_text(json.dumps(widget({"a": TEXT, "b": TEXT})))
    Path("less.json").write_text(json.dumps(widget({"a": TEXT})))
    assert diff(capsys, "less.json", "more.json", "--breaking-only").exit_code == 0
    assert diff(capsys, "less.json", "more.json").exit_code == 1


@pytest.mark.usefixtures("sides")
def test_a_side_may_be_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(text_of(NEW)))
    monkeypatch.setattr("sys.stdin", stdin)
    found = diff(capsys, "old.yaml", "-")
    assert found.stdout.startswith("old.yaml -> standard input: 4 breaking")


# --------------------------------------------------------------------------------------------------
# Servers and snapshots.


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    """Return a server whose definitions may not be listed."""
    version = {"apis/example.com/v1": components("example.com", "v1", Widget={"a": TEXT})}
    with FakeApiServer(served(version)) as server:
        yield server


def test_a_server_is_compared_with_a_file(
    capsys: Capture, sides: Path, server: FakeApiServer
) -> None:
    (sides / "file.yaml").write_bytes(text_of(widget({"a": TEXT, "z": TEXT})))
    found = diff(capsys, server.url, "file.yaml")
    assert found.stdout.splitlines()[1:] == [
        "",
        "example.com Widget",
        "  v1 spec.z: property-added",
    ]


def test_contexts_are_compared(capsys: Capture, sides: Path, server: FakeApiServer) -> None:
    path = write(sides / "config", several(one=server.url, other=server.url))
    found = diff(capsys, "context:one", "context:other", "--kubeconfig", str(path))
    assert found.exit_code == 0, found


def test_a_saved_server_is_compared_with_itself(
    capsys: Capture, sides: Path, server: FakeApiServer
) -> None:
    assert run(capsys, "snapshot", "save", "a.json", "--schemas", "-s", server.url).exit_code == 0
    assert (sides / "a.json").exists()
    assert diff(capsys, "a.json", server.url).exit_code == 0


def test_a_snapshot_without_schemas_says_what_to_do(
    capsys: Capture, sides: Path, server: FakeApiServer
) -> None:
    assert run(capsys, "snapshot", "save", "a.json", "-s", server.url).exit_code == 0
    assert (sides / "a.json").exists()
    found = diff(capsys, "a.json", server.url)
    assert found.exit_code == 2
    assert "a.json: it has no schemas; save it again by `apidiscovery snapshot save --schemas`" in (
        found.stderr
    )


DOCUMENTS = {"apis/example.com/v1": components("example.com", "v1")}
BROKEN = {"/openapi/v3/apis/example.com/v1": status(503, "ServiceUnavailable", "it is down")}


@pytest.mark.usefixtures("sides")
def test_schemas_that_cannot_be_saved_are_told(capsys: Capture) -> None:
    with FakeApiServer(served(DOCUMENTS, broken=BROKEN)) as server:
        found = run(capsys, "snapshot", "save", "a.json", "--schemas", "-s", server.url)
    assert found.exit_code == 1
    assert "example.com/v1: " in found.stderr
    assert "it is down" in found.stderr


@pytest.mark.usefixtures("sides")
def test_nothing_found_and_something_not_compared_is_trouble(capsys: Capture) -> None:
    with (
        FakeApiServer(served(DOCUMENTS)) as one,
        FakeApiServer(served(DOCUMENTS, broken=BROKEN)) as other,
    ):
        found = diff(capsys, one.url, other.url)
        document = json.loads(diff(capsys, one.url, other.url, "-o", "json").stdout)
    assert found.exit_code == 2
    assert found.stdout.splitlines()[2:3] == ["not compared"]
    assert [one["subject"] for one in document["notCompared"]] == ["example.com/v1"]


@pytest.mark.usefixtures("sides")
def test_a_release_says_nothing_of_definitions(capsys: Capture) -> None:
    snapshot = GivenSchemas("a", files(OLD).definitions)
    Path("a.json").write_bytes(dump(release("1.30"), schemas=stored_schemas(snapshot)))
    found = diff(capsys, "a.json", "kubernetes:1.30", "-o", "markdown")
    assert "a release does not tell of groups that Kubernetes does not have" in found.stdout


@pytest.mark.usefixtures("sides")
def test_servers_over_grpc_and_servers_that_are_down_are_trouble(capsys: Capture) -> None:
    down = diff(capsys, "old.yaml", f"http://127.0.0.1:{free_port()}")
    grpc = diff(capsys, "old.yaml", "grpc://127.0.0.1:1")
    assert (down.exit_code, grpc.exit_code) == (2, 2)
    assert "schemas are asked for over HTTP" in grpc.stderr
