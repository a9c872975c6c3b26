"""Fixtures of the tests of commands over gRPC, and of clients of a scripted server."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
from apidiscovery_client._grpc import calls
from command_line import Outcome
from fake_registry import FakeRegistry
from registry_commands import Capture, CliIn, cli
from scripted_client import Scene, scene
from scripted_transport import ScriptedServer, SetClock, group

_CACHES = count()


@pytest.fixture(autouse=True)
def _cache_of_this_test(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give each test a cache of its own; the folder is made when something is written."""
    folder = tmp_path_factory.getbasetemp() / "kube-caches" / str(next(_CACHES))
    monkeypatch.setenv("KUBECACHEDIR", str(folder))


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


@pytest.fixture(params=["async", "sync"])
async def at(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """Return a scene of either client, with a server of `widgets` in `example.com/v1`."""
    async with scene(is_async=request.param == "async") as made:
        made.script.serve(group("example.com", "v1"))
        yield made


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    """Return the same server alone."""
    made = ScriptedServer(SetClock(), group("example.com", "v1"))
    yield made
    made.release()
