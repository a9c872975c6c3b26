"""`apidiscovery check`: its inputs, targets, forms and exit codes."""

import io
import json
from pathlib import Path

import pytest
from apidiscovery_client.schemas import GivenSchemas, stored_schemas
from apidiscovery_client.snapshots.file import dump
from apidiscovery_client.testing import group, resource
from client_snapshots import snapshot
from command_line import Outcome, run
from fake_api_server import FakeApiServer, status
from programs import free_port
from schema_samples import components, files, served, widget

Capture = pytest.CaptureFixture[str]
TEXT = {"type": "string"}
TARGET = "kubernetes:1.31"
GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: shop}\n"
BAD = """\
---
# Source: chart/templates/bad.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: bad
  namespace: shop
dta: {a: b}
"""
LATE = (
    "apiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\nmetadata: {name: late}\n"
)
UNKNOWN = "dta: it is in no schema: kubectl refuses it, other clients lose it; did you mean data?"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APIDISCOVERY_TOKEN", raising=False)
    Path("m", "below").mkdir(parents=True)
    for name, text in {"good": GOOD, "bad": BAD, "late": LATE}.items():
        Path("m", "below", f"{name}.yaml").write_text(text)
    return tmp_path


def check(capsys: Capture, *args: str, against: str = TARGET) -> Outcome:
    return run(capsys, "check", *args, "--against", against)


def test_a_folder_is_checked_at_any_depth(capsys: Capture) -> None:
    found = check(capsys, "-f", "m")
    assert (found.exit_code, found.stderr) == (1, "")
    assert found.stdout.splitlines() == [
        (
            "m/below/bad.yaml:8 (chart/templates/bad.yaml): error: v1 ConfigMap shop/bad:"
            f" {UNKNOWN} [unknown-field]"
        ),
        (
            "m/below/late.yaml:1: warning: flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema late:"
            " apiVersion: served until Kubernetes 1.31; use flowcontrol.apiserver.k8s.io/v1"
            " [removed-later]"
        ),
        "kubernetes:1.31: 3 objects, 1 error, 1 warning",
    ]


def test_standard_input_is_checked(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((GOOD + BAD).encode())))
    found = check(capsys, "-f", "-")
    assert found.stdout.startswith("STDIN:11 (chart/templates/bad.yaml): error: v1 ConfigMap")


def test_json_has_every_field_of_a_finding(capsys: Capture) -> None:
    document = json.loads(check(capsys, "-f", "m", "-o", "json").stdout)
    assert document.pop("findings")[1] == {
        "severity": "warning",
        "rule": "removed-later",
        "file": "m/below/late.yaml",
        "line": 1,
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1beta3",
        "kind": "FlowSchema",
        "name": "late",
        "field": "apiVersion",
        "message": "served until Kubernetes 1.31; use flowcontrol.apiserver.k8s.io/v1",
        "until": "1.31",
        "replacedBy": "flowcontrol.apiserver.k8s.io/v1",
    }
    assert document == {
        "apiVersion": "apidiscovery/v1",
        "kind": "ManifestCheck",
        "against": TARGET,
        "objects": 3,
        "counts": {"error": 1, "warning": 1, "undecided": 0},
        "notChecked": [],
    }


def test_markdown_is_a_table(capsys: Capture) -> None:
    lines = check(capsys, "-f", "m", "-o", "markdown").stdout.splitlines()
    assert lines[:3] == ["# Manifests for kubernetes:1.31", "", "3 objects, 1 error, 1 warning."]
    assert lines[6].startswith("| error | `m/below/bad.yaml:8 (chart/templates/bad.yaml)` | v1 Con")


@pytest.mark.parametrize(
    ("args", "exit_code"),
    [
        (("-f", "m/below/good.yaml"), 0),
        (("-f", "m/below/good.yaml", "-f", "m/below/bad.yaml"), 1),
        (("-f", "m/below/late.yaml"), 1),
        (("-f", "m/below/late.yaml", "--errors-only"), 0),
        (("-f", "missing.yaml"), 2),
        (("-f", "broken.yaml"), 2),
        (("-f", "-", "-f", "-"), 2),
        ((), 2),
    ],
)
def test_exit_code_is_0_for_nothing_1_for_findings_2_for_trouble(
    capsys: Capture, args: tuple[str, ...], exit_code: int
) -> None:
    Path("broken.yaml").write_text("a: [")
    found = check(capsys, *args)
    assert found.exit_code == exit_code, found
    assert bool(found.stderr) == (exit_code == 2)
    assert bool(found.stdout) == (exit_code != 2)


@pytest.mark.parametrize(
    ("against", "problem"),
    [
        ("kubernetes:1.9", "is not recorded"),
        ("kubernetes:9", "is not a known release"),
        ("missing.json", "there is no such file"),
        ("m/below/good.yaml", "it is not JSON"),
        ("ftp://host", "is not a scheme of a server"),
    ],
)
def test_targets_that_cannot_be_read_are_trouble(
    capsys: Capture, against: str, problem: str
) -> None:
    found = check(capsys, "-f", "m", against=against)
    assert (found.exit_code, found.stdout) == (2, "")
    assert problem in found.stderr


def test_a_server_that_does_not_answer_is_trouble(capsys: Capture) -> None:
    assert check(capsys, "-f", "m", against=f"http://127.0.0.1:{free_port()}").exit_code == 2


# --------------------------------------------------------------------------------------------------
# Servers and snapshots.

WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {a: 1}\n"
GROUP: dict[str, object] = {
    "metadata": {"name": "example.com"},
    "versions": [
        {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "widgets",
                    "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
                    "scope": "Namespaced",
                    "singularResource": "widget",
                    "verbs": ["get"],
                }
            ],
        }
    ],
}
KEY = "apis/example.com/v1"


def test_a_server_is_asked_for_definitions(capsys: Capture) -> None:
    Path("w.yaml").write_text(WIDGET)
    with FakeApiServer(served({}, [widget({"a": TEXT})], [GROUP])) as server:
        found = check(capsys, "-f", "w.yaml", against=server.url)
    assert found.stdout.splitlines()[0] == (
        "w.yaml:4: error: example.com/v1 Widget w: spec.a: it is the integer 1; want a string"
        " [invalid-value]"
    )


def test_a_server_is_asked_for_documents_of_what_is_in_the_manifests(capsys: Capture) -> None:
    Path("w.yaml").write_text(WIDGET)
    docs = {
        KEY: components("example.com", "v1", Widget={"a": TEXT}),
        "apis/other.com/v1": components("other.com", "v1"),
    }
    with FakeApiServer(served(docs, groups=[GROUP])) as server:
        found = check(capsys, "-f", "w.yaml", against=server.url)
        asked = [path for path in server.paths if path.startswith("/openapi/v3/")]
    assert found.exit_code == 1
    assert asked == [f"/openapi/v3/{KEY}"]


def test_an_unchecked_object_is_trouble(capsys: Capture) -> None:
    Path("w.yaml").write_text(WIDGET)
    broken = {f"/openapi/v3/{KEY}": status(503, "ServiceUnavailable", "it is down")}
    with FakeApiServer(served({KEY: {}}, groups=[GROUP], broken=broken)) as server:
        found = check(capsys, "-f", "w.yaml", against=server.url)
    assert found.exit_code == 2
    assert found.stdout.startswith("? example.com/v1 Widget: not checked: ")
    assert "it is down" in found.stdout


def test_a_group_version_that_is_stale_is_not_said_to_be_gone(capsys: Capture) -> None:
    Path("w.yaml").write_text(WIDGET)
    stale = {**GROUP, "versions": [{"version": "v1", "freshness": "Stale"}]}
    with FakeApiServer(served({}, groups=[stale])) as server:
        found = check(capsys, "-f", "w.yaml", against=server.url)
    assert found.exit_code == 2
    assert "? example.com/v1: not checked" in found.stdout
    assert "not-served" not in found.stdout


def test_a_snapshot_is_a_target(capsys: Capture) -> None:
    Path("w.yaml").write_text(WIDGET)
    found = snapshot(group("example.com", v1=[resource("widgets", "Widget")]))
    schemas = stored_schemas(GivenSchemas("a", files(widget({"b": TEXT})).definitions))
    Path("a.json").write_bytes(dump(found, schemas=schemas))
    assert "[pruned-field]" in check(capsys, "-f", "w.yaml", against="a.json").stdout


def test_a_snapshot_without_schemas_says_what_to_do(capsys: Capture) -> None:
    Path("a.json").write_bytes(dump(snapshot()))
    found = check(capsys, "-f", "m", against="a.json")
    assert found.exit_code == 2
    assert "snapshot save --schemas" in found.stderr


def test_rules_that_cannot_be_evaluated_are_counted(capsys: Capture) -> None:
    Path("w.yaml").write_text(WIDGET.replace("1}", "x}"))
    schema = {"a": {**TEXT, "format": "uri"}}
    with FakeApiServer(served({}, [widget(schema)], [GROUP])) as server:
        found = check(capsys, "-f", "w.yaml", against=server.url)
        as_json = check(capsys, "-f", "w.yaml", "-o", "json", against=server.url).stdout
    assert found.exit_code == 0
    assert found.stdout.endswith(
        "1 object, nothing found, 1 rule not evaluated (-o json lists them)\n"
    )
    assert [one["rule"] for one in json.loads(as_json)["findings"]] == ["undecided"]


def test_a_server_without_the_group_does_not_serve_it(capsys: Capture) -> None:
    with FakeApiServer(served({})) as server:
        found = check(capsys, "-f", "m/below/good.yaml", against=server.url)
    assert "it is not served" in found.stdout
