"""Servers that several tests share."""

import gc
import signal
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from heap import freeze_heap
from hypothesis import settings
from markers import IS_LONG, markers_of
from scheduling import UnitScheduling, mixed
from server import Serve, Server, serving

# Started by a shell in the background, tests and their processes would ignore what tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing where several tests run at once; pytest limits each test.
settings.register_profile("apidiscovery", deadline=None, max_examples=500 if IS_LONG else 50)
settings.load_profile("apidiscovery")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the thousands of tests, of which none is garbage, out of collections of garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        freeze_heap()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test by what it takes its time for, so that `make test-fast` can leave it out."""
    if isinstance(item, pytest.Function):
        for marker in sorted(markers_of(item)):
            item.add_marker(marker)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what takes minutes unless it is asked for; mix the tests that workers share."""
    if not IS_LONG:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip("APIDISCOVERY_LONG_TESTS is not set"))
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        items[:] = mixed(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> UnitScheduling:
    """Share out the tests as they were mixed."""
    return UnitScheduling(config)


@pytest.fixture(scope="session", autouse=True)
def _cache_of_these_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what commands know of servers out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECACHEDIR", str(tmp_path_factory.mktemp("kube-cache")))
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of the built-in catalogue with every default."""
    with serving(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="session")
def no_beta_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server without v2beta1, as kube-apiserver is since 1.33."""
    gate = "AggregatedDiscoveryRemoveBetaType=true"
    with serving(tmp_path_factory.mktemp("no-beta"), "--feature-gates", gate) as started:
        yield started


@pytest.fixture(scope="session")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server without aggregated discovery, as kube-apiserver was up to 1.26."""
    gate = "AggregatedDiscoveryEndpoint=false"
    with serving(tmp_path_factory.mktemp("old"), "--feature-gates", gate) as started:
        yield started


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return what starts a server with these flags and variables."""
    with ExitStack() as stack:

        def start(
            *flags: str, env: Mapping[str, str] | None = None, addresses: bool = True
        ) -> Server:
            folder = tmp_path / f"server-{len(list(tmp_path.glob('server-*')))}"
            folder.mkdir()
            return stack.enter_context(serving(folder, *flags, env=env, addresses=addresses))

        yield start
