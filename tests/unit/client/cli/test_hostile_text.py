"""Nothing that a server names or describes makes a terminal do more than show it."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_client._terminal import printable, printable_lines
from command_line import run
from fake_api_server import FakeApiServer, aggregated, document, openapi_routes
from programs import on_a_terminal

# Clears the screen, sets the title, turns the direction of text, hides, breaks lines otherwise.
EVIL = "\x1b[2J\x1b]0;owned\x07\u202egnp\u2066\u200b\u00ad\u2028\x9b31m\U000e0041"
KIND = f"Pod{EVIL}"


def is_obeyed(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.fixture
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


COMMANDS = (
    "api-resources",
    "api-resources -o wide",
    "api-resources -o name",
    "api-versions",
    "explain pods.evil.example --api-version evil.example/v1",
    "explain pods.evil.example --api-version evil.example/v1 --recursive",
    "explain pods.evil.example --api-version evil.example/v1 -o json",
    "resolve pods",
    "resolve --explain pods",
    "resolve nothing",
    "openapi get",
    "openapi get evil.example/v1",
    "openapi get evil.example/v1 -o yaml",
    "openapi bundle",
    "openapi validate",
    "export helm-api-versions",
    "export kubeconform FOLDER",
    "conformance",
)


def words(command: str, folder: Path) -> list[str]:
    return [str(folder / "out") if word == "FOLDER" else word for word in command.split()]


def obeyed(text: str) -> set[str]:
    return {character for character in text if is_obeyed(character)} - {"\n", "\t"}


@pytest.mark.parametrize(
    "command",
    [
        "api-resources",
        "explain pods.evil.example --api-version evil.example/v1",
        "explain pods.evil.example --api-version evil.example/v1 -o json",
        "openapi get evil.example/v1",
        "openapi get evil.example/v1 -o yaml",
        "openapi bundle",
    ],
)
def test_a_terminal_shows_what_it_would_obey(tmp_path: Path, url: str, command: str) -> None:
    shown = on_a_terminal(tmp_path, *words(command, tmp_path), "--server", url)
    shown = re.sub(r"\x1b\[K|\x1b\[\?25[hl]|\r", "", shown)  # how far long work is, by us
    assert shown
    assert not obeyed(shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_pipes_get_text_as_terminals_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str, command: str
) -> None:
    """But for documents, which are data: who reads them wants what the server has sent."""
    done = run(capsys, *words(command, tmp_path), "--server", url)
    is_data = "json" in command or command.startswith(("openapi get", "openapi bundle"))
    written = done.stderr if is_data else done.stdout + done.stderr
    assert not obeyed(written)


def test_no_file_has_a_name_that_no_kind_can_have(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str
) -> None:
    folder = tmp_path / "schemas"
    done = run(capsys, "export", "kubeconform", str(folder), "--server", url)
    assert list(folder.iterdir()) == []
    assert "Warning: no file for Pod\\x1b[2J" in done.stderr


def test_whatever_unicode_calls_a_control_or_a_format_is_written_out() -> None:
    every = "".join(map(chr, range(0x110000)))
    unsafe = {character for character in every if is_obeyed(character)}
    assert not unsafe & set(printable(every))
    assert unsafe & set(printable_lines(every)) == {"\n", "\t"}
