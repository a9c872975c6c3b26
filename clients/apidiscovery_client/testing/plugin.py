"""The pytest plugin.

Every run of pytest imports it, so it imports almost nothing before a fixture is used.
"""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from apidiscovery_client.testing.server import FakeApiServer

MakeFakeApiServer: TypeAlias = "Callable[..., FakeApiServer]"

_LAST = 20  # how many requests a report shows
_SERVERS = pytest.StashKey["list[FakeApiServer]"]()


@pytest.fixture
def make_fake_apiserver(request: pytest.FixtureRequest) -> Iterator[MakeFakeApiServer]:
    """Return a function that starts a `FakeApiServer`; the servers stop with the test."""
    from apidiscovery_client.testing.server import FakeApiServer  # noqa: PLC0415 - see above

    servers: list[FakeApiServer] = []
    request.node.stash[_SERVERS] = servers
    with ExitStack() as stack:

        def make(*args: object, **options: object) -> FakeApiServer:
            made = FakeApiServer(*args, **options)  # type: ignore[arg-type]  # it checks them
            servers.append(stack.enter_context(made))
            return made

        yield make


@pytest.fixture
def fake_apiserver(make_fake_apiserver: MakeFakeApiServer) -> "FakeApiServer":
    """Return a running `FakeApiServer` with the built-in APIs of Kubernetes."""
    return make_fake_apiserver()


@pytest.fixture
def fake_apiserver_kubeconfig(
    fake_apiserver: "FakeApiServer", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a kubeconfig for `fake_apiserver`; the test has it as `KUBECONFIG`."""
    path = tmp_path / "fake-apiserver.kubeconfig"
    path.write_text(json.dumps(fake_apiserver.kubeconfig(), indent=2), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last requests to the servers of a failed test."""
    report = yield
    if report.failed:
        nothing: list[FakeApiServer] = []
        for server in item.stash.get(_SERVERS, nothing):
            report.sections.append((f"Requests to {server.url}", _last_requests(server)))
    return report


def _last_requests(server: "FakeApiServer") -> str:
    answered = server.requests
    lines = [str(request) for request in answered[-_LAST:]] or ["none"]
    if len(answered) > _LAST:
        lines.insert(0, f"({len(answered) - _LAST} before these)")
    return "\n".join(lines)
