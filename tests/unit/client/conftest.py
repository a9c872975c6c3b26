"""What the tests of the commands over gRPC share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_client._grpc import calls
from command_line import Outcome
from fake_registry import FakeRegistry
from registry_commands import Capture, CliIn, cli


@pytest.fixture(autouse=True)
def _cache_of_this_test(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep what commands know of servers out of the user's cache, and of that of other tests."""
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path_factory.mktemp("kube-cache")))


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        yield registry


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "RETRY_WAITS_S", (0.0, 0.0, 0.0, 0.01))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that relative paths are of."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli_in(capsys: Capture, registry: FakeRegistry, folder: Path) -> CliIn:
    def call(*args: str) -> Outcome:
        return cli(capsys, registry, *args)

    return CliIn(call, registry, folder)
