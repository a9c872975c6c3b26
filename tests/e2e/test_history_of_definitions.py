"""Definitions of this server whose schemas change: their former documents, and changed fields."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from raw_http import get
from real_cluster import definition
from server import Server, serving
from waiting import eventually

Capture = pytest.CaptureFixture[str]

KEY = "apis/example.com/v1"
SCHEMA = "/schemas/example.com/widget_v1.json"


def write(path: Path, size: str) -> None:
    crd = definition("widgets", "Widget", "v1")
    crd["spec"]["group"] = "example.com"
    crd["metadata"]["name"] = "widgets.example.com"
    (version,) = crd["spec"]["versions"]
    spec = {"type": "object", "properties": {"size": {"type": size}}}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    beside = path.with_name(".new")  # nothing is read that is half written
    beside.write_text(json.dumps(crd))
    beside.replace(path)


def size_of(server: Server, path: str) -> str:
    """Return the type of the field in a schema; empty text where there is none."""
    answer = get(server.http_port, path)
    if answer.status != 200:
        return ""
    properties: Any = answer.json()["properties"]
    return str(properties["spec"]["properties"]["size"]["type"])


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def changes(server: Server, capsys: Capture) -> list[dict[str, Any]]:
    flags = ("--grpc-server", server.grpc, "--cluster", "-", "--fields", "-o", "json")
    done = run(capsys, "history", *flags)
    assert (done.exit_code, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)["changes"]
    return [one for one in found if KEY in " ".join(one["changes"])]


def test_a_changed_schema_is_told_field_by_field_and_was_what_it_was(
    capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "widgets.json"
    write(path, "integer")
    own = ("--catalog", "none", "--store", f"sqlite:{tmp_path}/state.db", "--manifests", str(path))
    with serving(tmp_path, *own) as server:
        nothing = get(server.http_port, f"{SCHEMA}?at={now()}")
        assert nothing.status == 404  # nobody has asked for documents, so none are remembered
        eventually(lambda: size_of(server, SCHEMA) == "integer", "as it was")

        def as_it_was() -> str | None:
            time = now()
            return time if size_of(server, f"{SCHEMA}?at={time}") == "integer" else None

        then = eventually(as_it_was, "it is remembered")
        write(path, "string")
        eventually(lambda: size_of(server, SCHEMA) == "string", "as it is")
        eventually(lambda: len(changes(server, capsys)) == 2, "it is told")
        last, first = changes(server, capsys)
        assert first["changes"] == [f"{KEY}: schemas added"]
        assert last["changes"] == [f"{KEY}: schemas changed: 1 breaking in 1 kind"]
        (field,) = last["fields"]["changes"]
        assert (field["path"], field["change"], field["writer"]) == (
            "spec.size",
            "type-changed",
            "rejected",
        )
        assert size_of(server, f"{SCHEMA}?at={then}") == "integer"
        document = get(server.http_port, f"/openapi/v3/{KEY}?at={then}")
        assert b'"integer"' in document.body
        assert document.values("memento-datetime")
        page = get(
            server.http_port,
            f"/ui/diff?from=served@{then}&to=served&fields=1",
            "text/html",
        )
        assert page.status == 200
        assert b"spec.size" in page.body
    with serving(tmp_path, *own) as server:
        eventually(lambda: size_of(server, SCHEMA) == "string", "it serves again")
        assert len(changes(server, capsys)) == 2
        assert size_of(server, f"{SCHEMA}?at={then}") == "integer"
