"""Names and descriptions of servers cannot control a terminal."""

import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_client._terminal import printable, printable_lines
from command_line import run
from fake_api_server import FakeApiServer, aggregated, document, openapi_routes
from programs import on_a_terminal

Capture = pytest.CaptureFixture[str]

# Clears the screen, sets the title, turns the direction of text, hides, breaks lines otherwise.
EVIL = "\x1b[2J\x1b]0;owned\x07\u202egnp\u2066\u200b\u00ad\u2028\x9b31m\U000e0041"
KIND = f"Pod{EVIL}"


def is_obeyed(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    gvk = {"group": "evil.example", "version": "v1", "kind": KIND}
    resource = {
        "resource": "pods",
        "responseKind": gvk,
        "scope": "Namespaced",
        "singularResource": f"pod{EVIL}",
        "shortNames": [f"po{EVIL}"],
        "categories": [f"all{EVIL}"],
        "verbs": ["get", "list", f"get{EVIL}"],
    }
    versions = [
        {"version": "v1", "resources": [resource], "freshness": "Current"},
        {"version": f"v2{EVIL}", "resources": [resource], "freshness": EVIL},
    ]
    named = {"metadata": {"name": "evil.example"}, "versions": versions}
    properties = {
        f"field{EVIL}": {"type": f"string{EVIL}", "description": EVIL, "enum": [EVIL]},
        "spec": {"description": f"What\tis {EVIL} wanted", "type": "object"},
    }
    schema = {
        "type": "object",
        "description": f"Says\n{EVIL}",
        "properties": properties,
        "required": [f"field{EVIL}"],
        "x-kubernetes-group-version-kind": [gvk],
    }
    get = {"get": {"x-kubernetes-group-version-kind": gvk, "responses": {}}}
    openapi = document(
        {
            "openapi": "3.0.0",
            "info": {"title": EVIL, "version": "v1"},
            "paths": {"/apis/evil.example/v1/pods": get},
            "components": {"schemas": {f"example.Pod{EVIL}": schema}},
        }
    )
    routes = {
        "/api": aggregated(),
        "/apis": aggregated(named),
        **openapi_routes({"apis/evil.example/v1": openapi.body}),
        "/version": document({"major": "1", "minor": EVIL, "gitVersion": EVIL}),
    }
    with FakeApiServer(routes) as server:
        yield server.url


TEXT = (
    "api-resources",
    "api-resources -o wide",
    "api-resources -o name",
    "api-versions",
    "explain pods --api-version evil.example/v1",
    "explain pods --api-version evil.example/v1 --recursive",
    "resolve pods",
    "resolve --explain pods",
    "resolve nothing",
    "openapi get",
    "openapi validate",
    "export helm-api-versions",
    "export kubeconform FOLDER",
    "conformance",
)
DATA = (
    "explain pods --api-version evil.example/v1 -o json",
    "openapi get evil.example/v1",
    "openapi get evil.example/v1 -o yaml",
    "openapi bundle",
)


def obeyed(text: str) -> set[str]:
    return {character for character in text if is_obeyed(character)} - {"\n", "\t"}


@pytest.mark.parametrize("command", ["api-resources", "openapi get evil.example/v1"])
def test_a_terminal_gets_no_control_characters(tmp_path: Path, url: str, command: str) -> None:
    shown = on_a_terminal(tmp_path, *command.split(), "--server", url)
    shown = re.sub(r"\x1b\[K|\x1b\[\?25[hl]|\r", "", shown)  # our own progress
    assert shown
    assert not obeyed(shown)


@pytest.mark.parametrize("command", DATA)
def test_documents_are_escaped_on_a_terminal(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, url: str, command: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = run(capsys, *command.split(), "--server", url)
    assert done.stdout
    assert not obeyed(done.stdout)


@pytest.mark.parametrize("command", [*TEXT, *DATA])
def test_pipes_get_escaped_text_and_unchanged_documents(
    capsys: Capture, tmp_path: Path, url: str, command: str
) -> None:
    args = command.replace("FOLDER", str(tmp_path / "out")).split()
    done = run(capsys, *args, "--server", url)
    assert not obeyed(done.stderr)
    assert command in DATA or not obeyed(done.stdout)


def test_no_file_has_a_name_that_no_kind_can_have(
    capsys: Capture, tmp_path: Path, url: str
) -> None:
    folder = tmp_path / "schemas"
    done = run(capsys, "export", "kubeconform", str(folder), "--server", url)
    assert list(folder.iterdir()) == []
    assert "Warning: no file for Pod\\x1b[2J" in done.stderr


def test_every_control_and_format_character_is_escaped() -> None:
    unsafe = "".join(filter(is_obeyed, map(chr, range(0x110000))))
    assert len(unsafe) > 2000
    assert set(unsafe).isdisjoint(printable(unsafe))
    assert set(unsafe) & set(printable_lines(unsafe)) == {"\n", "\t"}
