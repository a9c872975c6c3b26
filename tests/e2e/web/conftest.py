"""A browser for each module, and servers for the pages."""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from browsing import chromium
from fake_api_server import FakeApiServer, builtin
from playwright.sync_api import Browser
from repository import GOLDEN
from server import Server, serving

_CRDS = GOLDEN / "crds" / "manifests" / "cert-manager.yaml.gz"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Server]]:
    """Return servers of the built-in catalogue, of definitions, and of a half dead fleet."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("served")
        definitions = folder / "manifests"
        definitions.mkdir()
        (definitions / "crds.yaml").write_bytes(gzip.decompress(_CRDS.read_bytes()))
        alive = stack.enter_context(FakeApiServer(builtin()))
        flags = {
            "catalogue": ("--store", "memory"),
            "definitions": ("--store", "memory", "--manifests", str(definitions)),
            "fleet": (
                *("--store", "memory", "--upstream", f"east={alive.url}"),
                *("--upstream", "gone=http://127.0.0.1:1"),
            ),
        }
        yield {
            name: stack.enter_context(serving(_made(folder / name), *each))
            for name, each in flags.items()
        }


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
