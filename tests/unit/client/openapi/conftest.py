"""What the tests of OpenAPI in the client share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import Outcome, run
from explained_cluster import cluster
from fake_api_server import FakeApiServer

Ask = Callable[..., Outcome]


@pytest.fixture(scope="session")
def real() -> Iterator[FakeApiServer]:
    """Return a server of recorded documents; what was asked of it before is in `requests`."""
    with FakeApiServer(cluster()) as server:
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], cache: Path) -> Ask:
    """Return what runs `apidiscovery ARGS` against a server, with a cache of this test."""

    def call(server: FakeApiServer, *args: str) -> Outcome:
        return run(capsys, *args, "--server", server.url, "--cache-dir", str(cache))

    return call
