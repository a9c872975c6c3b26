"""A cluster whose schemas change: `history --fields`, and the cluster at a time as a side."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, run
from fake_api_server import Answer, FakeApiServer, aggregated, openapi_routes
from raw_http import get
from server import Server, serving
from upstream_setup import item
from waiting import eventually

GROUP, KEY = "a.example.com", "apis/a.example.com/v1"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
GVK = "x-kubernetes-group-version-kind"


def routes(*versions: str, **properties: object) -> dict[str, Answer]:
    """Return what a server answers whose kind Widget has these fields in its spec."""
    gvk = {"group": GROUP, "version": "v1", "kind": "Widget"}
    widget = {
        "type": "object",
        "properties": {
            "metadata": {"$ref": f"#/components/schemas/{META}"},
            "spec": {"type": "object", "properties": properties},
        },
        GVK: [gvk],
    }
    document = {
        "openapi": "3.0.0",
        "info": {},
        "paths": {f"/{KEY}/namespaces/{{namespace}}/sprockets": {"get": {GVK: gvk}}},
        "components": {"schemas": {"test.Widget": widget, META: {"type": "object"}}},
    }
    return {
        "/api": aggregated(),
        "/apis": aggregated(item(GROUP, *versions)),
        **openapi_routes({KEY: json.dumps(document).encode()}),
    }


@dataclass(frozen=True, slots=True)
class Remembered:
    """A server, and the time between the two states of its cluster."""

    server: Server
    between: str
    capsys: pytest.CaptureFixture[str]

    def run(self, *args: str) -> Outcome:
        return run(self.capsys, *args)

    def history(self, *flags: str) -> str:
        done = self.run("history", "--grpc-server", self.server.grpc, "--fields", *flags)
        assert (done.exit_code, done.stderr) == (0, ""), done
        return done.stdout

    def changes(self, *flags: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.history("-o", "json", *flags))["changes"]
        return found


@pytest.fixture(scope="module", name="served")
def fixture_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    folder = tmp_path_factory.mktemp("kept")
    quick = {"poll-interval": "200ms", "openapi-interval": "200ms"}
    with FakeApiServer(routes("v1", size={"type": "integer"}, name={"type": "string"})) as east:
        (folder / "config.json").write_text(
            json.dumps({"upstreams": {"east": {"url": east.url, **quick}}})
        )
        own = ("--catalog", "none", "--store", "memory", "--config", str(folder / "config.json"))
        with serving(folder, *own) as server:
            between = eventually(lambda: remembered(server, b'"integer"', b"v1"), "as it was")
            east.answers = routes("v1", "v2", size={"type": "string"})
            eventually(lambda: remembered(server, b'{"size": {"type": "string"', b"v2"), "as it is")
            yield server, between


@pytest.fixture(name="kept")
def fixture_kept(served: tuple[Server, str], capsys: pytest.CaptureFixture[str]) -> Remembered:
    return Remembered(*served, capsys)


def remembered(server: Server, schema: bytes, version: bytes) -> str | None:
    """Return the current time if the history has these texts by now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    document = get(server.http_port, f"/clusters/east/openapi/v3/{KEY}?at={now}")
    groups = get(server.http_port, f"/clusters/east/apis/{GROUP}?at={now}")
    return now if schema in document.body and version in groups.body else None


def test_changes_of_fields_stand_below_the_change_of_the_document(kept: Remembered) -> None:
    lines = kept.history("--cluster", "east", "--kind", "Widget").splitlines()
    place = next(n for n, line in enumerate(lines) if KEY in line)
    assert lines[place].endswith(f"{KEY}: schemas changed: 2 breaking in 1 kind")
    assert lines[place + 1 : place + 4] == [
        "    a.example.com Widget",
        "    ! v1 spec.name: property-removed; writer pruned; reader absent; stored pruned",
        '    ! v1 spec.size: type-changed "integer" -> "string"; writer rejected; reader different',
    ]


def test_documents_that_come_or_go_have_no_changes_of_fields(kept: Remembered) -> None:
    found = [one for one in kept.changes("--cluster", "east") if one["type"] == "openapi"]
    assert [one["changes"] for one in found] == [
        [f"{KEY}: schemas changed: 2 breaking in 1 kind"],
        [f"{KEY}: schemas added"],
    ]
    assert "fields" not in found[1]
    (name, _size) = found[0]["fields"]["changes"]
    assert (name["path"], name["change"], name["writer"]) == (
        "spec.name",
        "property-removed",
        "pruned",
    )


@pytest.mark.parametrize(("kind", "count"), [("widget", 1), ("sprockets", 1), ("gadget", 0)])
def test_kinds_and_names_of_resources_select_changes_of_fields(
    kept: Remembered, kind: str, count: int
) -> None:
    found = [one for one in kept.changes("--kind", kind) if one["type"] == "openapi"]
    assert len(found) == count


def test_markdown_has_the_changes_of_fields_in_the_cell(kept: Remembered) -> None:
    table = kept.history("--cluster", "east", "-o", "markdown")
    assert re.search(r"schemas changed: .*<br>a\.example\.com Widget<br>\! v1 spec\.name", table)


MANIFEST = f"""
apiVersion: {GROUP}/v1
kind: Widget
metadata: {{name: w}}
spec: {{size: 3}}
"""


def diff(kept: Remembered, *args: str) -> Outcome:
    return kept.run("diff", "--server", kept.server.url, *args)


def test_a_cluster_is_compared_with_itself_at_a_time(kept: Remembered) -> None:
    before = f"cluster:east@{kept.between}"
    done = diff(kept, before, "cluster:east")
    assert (done.exit_code, done.stderr) == (1, "")
    first, *found = done.stdout.splitlines()
    assert first.startswith(f"{before} -> cluster:east: ")
    assert any(f"{GROUP}/v2" in line for line in found)
    fields = diff(kept, "--fields", before, "cluster:east")
    assert (fields.exit_code, fields.stderr) == (1, "")
    assert "! v1 spec.name: property-removed" in fields.stdout
    same = diff(kept, "--fields", before, before.replace("Z", ""))  # without a time zone: UTC
    assert same.exit_code == 0, same
    assert diff(kept, before, before, "cluster:east").exit_code == 2  # two of one name
    table = diff(kept, f"old={before}", f"older={before}", "cluster:east")
    assert (table.exit_code, table.stderr) == (1, "")
    assert "Widget" in table.stdout


def test_a_cluster_is_the_same_over_grpc(kept: Remembered) -> None:
    sides = (f"cluster:east@{kept.between}", "cluster:east")
    over_grpc = kept.run("diff", *sides, "--server", f"grpc://{kept.server.grpc}")
    assert over_grpc == diff(kept, *sides)
    fields = kept.run("diff", "--fields", *sides, "--server", f"grpc://{kept.server.grpc}")
    assert fields.exit_code == 2
    assert "want --server with the service's http:// URL" in fields.stderr


def test_a_time_that_cannot_be_shown_says_why(kept: Remembered) -> None:
    early = diff(kept, "cluster:east@2020-01-01", "cluster:east")
    assert early.exit_code == 2
    assert "the history of cluster east begins" in early.stderr
    wrong = diff(kept, "cluster:east@2026-13-01", "cluster:east")
    assert wrong.exit_code == 2
    assert "'2026-13-01' is not a time; want one such as 2026-11-20" in wrong.stderr
    unknown = diff(kept, "cluster:west@2026-11-20", "cluster:east")
    assert unknown.exit_code == 2
    assert "west: the service knows no such cluster; it knows east" in unknown.stderr


def test_manifests_are_checked_against_a_cluster_of_a_service(
    kept: Remembered, tmp_path: Path
) -> None:
    file = tmp_path / "widget.yaml"
    file.write_text(MANIFEST)

    def check(against: str) -> Outcome:
        flags = ("--against", against, "--server", kept.server.url)
        return kept.run("check", "-f", str(file), *flags)

    now = check("cluster:east")
    assert (now.exit_code, now.stderr) == (1, "")
    assert "spec.size: it is the integer 3; want a string [invalid-value]" in now.stdout
    assert now.stdout.splitlines()[-1].startswith("cluster:east: 1 object, 1 error")
    then = check(f"cluster:east@{kept.between}")
    assert (then.exit_code, then.stderr) == (0, "")
    nowhere = kept.run("check", "-f", str(file), "--against", "cluster:east")
    assert nowhere.exit_code == 2
    assert "cluster:east: which service knows it? want --server URL" in nowhere.stderr
