"""Sides of a comparison: every form of their names, and errors."""

import asyncio
import io
import sys
from pathlib import Path

import pytest
from apidiscovery_cli.sides import connector, is_server, open_side
from apidiscovery_client import InvalidConfiguration, ServerUnreachable
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots.file import dump
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.testing import FakeApiServer, group, resource
from client_snapshots import snapshot
from grpc_contributions import APPS, CORE
from grpc_server import serving
from kubectl_config import config, write
from programs import free_port
from snapshot_samples import golden

WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])


def no_server(target: str | None, context: str | None) -> Snapshot:
    raise AssertionError((target, context))


def names(found: Snapshot) -> list[str]:
    return [one.name for one in found.resources]


def test_saved_snapshot_is_opened(tmp_path: Path) -> None:
    saved = snapshot(WIDGETS)
    (tmp_path / "saved.json").write_bytes(dump(saved))
    assert open_side(str(tmp_path / "saved.json"), no_server) == saved


def test_aggregated_document_is_opened_and_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "apis.json"
    path.write_bytes(golden("builtin/apis.v2.json"))
    found = open_side(str(path), no_server)
    assert "deployments" in names(found)
    assert list(found.failures) == ["/api"]


def test_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(dump(snapshot(WIDGETS)))))
    assert names(open_side("-", no_server)) == ["widgets"]


def test_error_in_standard_input_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InvalidConfiguration, match=r"^standard input: .*not JSON"):
        open_side("-", no_server)


def test_release_is_opened_without_a_server() -> None:
    assert open_side("kubernetes:v1.30.4", no_server) == release("1.30")


def test_url_is_asked_without_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "config", "not: [yaml")
    monkeypatch.setenv("KUBECONFIG", path)
    with FakeApiServer([WIDGETS]) as server:
        connect = connector({"kubeconfig": path})
        assert names(open_side(server.url, connect)) == ["widgets"]


def test_context_of_the_kubeconfig_is_asked(tmp_path: Path) -> None:
    with FakeApiServer([WIDGETS]) as server:
        path = write(tmp_path / "config", config({"server": server.url}, current_context="other"))
        connect = connector({"kubeconfig": path})
        assert names(open_side("context:c", connect)) == ["widgets"]


def test_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config())
    with pytest.raises(InvalidConfiguration, match="nowhere"):
        open_side("context:nowhere", connector({"kubeconfig": path}))


async def test_grpc_server_is_asked() -> None:
    async with serving(CORE, APPS) as served:
        side = await asyncio.to_thread(open_side, f"grpc://{served.target}", connector({}))
    assert "deployments" in names(side)


def test_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ServerUnreachable):
        open_side(f"http://127.0.0.1:{free_port()}", connector({"request_timeout_s": 5}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("missing.json", "no such file"),
        (".", "cannot be read"),
        ("", "no such file"),
        ("a\0b", "cannot be read"),
        ("ftp://host", "'ftp' is not a scheme"),
        ("context:", "name of a context is missing"),
        ("kubernetes:", "not a known release"),
        ("kubernetes:9.9", "not a known release"),
        ("grpc://host", "want a gRPC server"),
    ],
)
def test_malformed_side_is_an_error_with_its_reason(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfiguration, match=told):
        open_side(text, connector({}))


@pytest.mark.parametrize("text", ["context:c", "https://h", "grpc://h:1"])
def test_servers_are_distinguished_from_files(text: str) -> None:
    assert is_server(text)
    assert not any(map(is_server, ("-", "file.json", "kubernetes:1.30", "./context")))
