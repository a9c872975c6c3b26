"""The YAML extension's own server, from npm, reads the schemas of a server as the guide says."""

import json
import os
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from crd_manifests import simple
from repository import ROOT
from server import Server, environment, serving

from tools import find_tool

PACKAGE = "yaml-language-server@2.0.0"
PAGE = ROOT / "docs" / "how-to" / "vscode-schemas.md"
_LIMIT_S = 240.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * _LIMIT_S)]


class Editor:
    """An editor that is connected with a language server.

    Args:
        process: The language server.
        settings: What it is told when it asks for `yaml`.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", settings: dict[str, Any]) -> None:
        self._process = process
        self._settings = settings

    def send(self, method: str, params: object, number: int | None = None) -> None:
        request = {"method": method, "params": params}
        self._write(request if number is None else {**request, "id": number})

    def _write(self, message: dict[str, object]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def next(self) -> dict[str, Any]:
        """Return the next message, after answering what the language server asks."""
        assert self._process.stdout is not None
        while True:
            length = 0
            while (line := self._process.stdout.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            assert length, "the language server has ended"
            message: dict[str, Any] = json.loads(self._process.stdout.read(length))
            if "id" not in message or "method" not in message:
                return message
            answers: list[object] | None = None
            if message["method"] == "workspace/configuration":
                sections = [item.get("section") for item in message["params"]["items"]]
                answers = [self._settings if name == "yaml" else None for name in sections]
            self._write({"id": message["id"], "result": answers})

    def problems(self, path: Path) -> list[str]:
        """Open a file; return what is wrong with it."""
        document = {
            "uri": path.as_uri(),
            "languageId": "yaml",
            "version": 1,
            "text": path.read_text("utf-8"),
        }
        self.send("textDocument/didOpen", {"textDocument": document})
        while True:
            message = self.next()
            if (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"]["uri"] == path.as_uri()
            ):
                return [one["message"] for one in message["params"]["diagnostics"]]


def settings_of_the_page(server: Server) -> dict[str, Any]:
    """Return the settings below `yaml` that the guide shows."""
    (block,) = re.findall(
        r"```json file=settings.json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    flat: dict[str, Any] = json.loads(block.replace("http://127.0.0.1:8080", server.url))
    found: dict[str, Any] = {"validate": True}
    for name, value in flat.items():
        _, first, *rest = name.split(".")
        if rest:
            found.setdefault(first, {})[rest[0]] = value
        else:
            found[first] = value
    return found


@contextmanager
def editing(folder: Path, program: Path, server: Server) -> Generator[Editor]:
    with subprocess.Popen(  # noqa: S603 - our own arguments
        [find_tool("node"), str(program), "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment(folder)},
    ) as process:
        try:
            editor = Editor(process, settings_of_the_page(server))
            can = {"workspace": {"configuration": True, "workspaceFolders": True}}
            workspace = [{"uri": folder.as_uri(), "name": "w"}]
            editor.send(
                "initialize",
                {
                    "processId": os.getpid(),
                    "rootUri": folder.as_uri(),
                    "workspaceFolders": workspace,
                    "capabilities": can,
                },
                1,
            )
            while editor.next().get("id") != 1:
                pass
            editor.send("initialized", {})
            editor.send("workspace/didChangeConfiguration", {"settings": {}})
            yield editor
        finally:
            process.kill()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language-server")
    (folder / "package.json").write_text('{"private": true}')
    subprocess.run(  # noqa: S603 - our own arguments
        [find_tool("npm"), "install", "--no-audit", "--no-fund", PACKAGE],
        check=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=_LIMIT_S,
    )
    return folder / "node_modules" / ".bin" / "yaml-language-server"


def test_manifests_are_checked_as_the_guide_says(tmp_path: Path, program: Path) -> None:
    spec = {"type": "object", "properties": {"schedule": {"type": "string"}}}
    definition = simple("crontabs", "stable.example.com", kind="CronTab")
    whole = {"type": "object", "properties": {"spec": spec}}
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": whole}
    (tmp_path / "crontabs.json").write_text(json.dumps(definition))
    own = ("--store", "memory", "--manifests", str(tmp_path / "crontabs.json"))
    manifest = "apiVersion: stable.example.com/v1\nkind: CronTab\nspec: {schedule: 5}\n"
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    with serving(tmp_path, *own) as server, editing(tmp_path, program, server) as editor:
        named = tmp_path / "named.yaml"
        schema = f"{server.url}/schemas/stable.example.com/crontab_v1.json"
        named.write_text(f"# yaml-language-server: $schema={schema}\n{manifest}")
        (problem,) = editor.problems(named)
        assert "Incorrect type" in problem
        found = manifests / "found.yaml"
        found.write_text(manifest)
        (problem,) = editor.problems(found)
        assert "Incorrect type" in problem
        right = manifests / "right.yaml"
        right.write_text(manifest.replace("5", '"* * * * *"'))
        assert editor.problems(right) == []
