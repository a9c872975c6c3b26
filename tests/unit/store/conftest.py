"""The three stores, each empty."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from apidiscovery_service.store import Store
from apidiscovery_service.store.etcd import EtcdStore
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.sqlite import SqliteStore
from etcd import EtcdServer

# Opens a store on what all of one test share, as another process would.
Open = Callable[[], Awaitable[Store]]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """Return an etcd that is never interrupted; while it runs, it takes 2 % of a core."""
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return each kind of store."""
    kind: str = request.param
    return kind


@pytest.fixture
async def open_another(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Open]:
    """Return a function that opens the same store again; in memory that is the only one."""
    opened: list[Store] = []
    prefix = uuid.uuid4().hex
    memory = MemoryStore()

    async def open_store() -> Store:
        if kind == "memory":
            store: Store = memory
        elif kind == "sqlite":
            store = await SqliteStore.open(tmp_path / "store.sqlite")
        else:
            etcd: EtcdServer = request.getfixturevalue("etcd")
            store = EtcdStore([etcd.endpoint], prefix, EtcdOptions())
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        await store.close()


@pytest.fixture
def ttl_s() -> float:
    """Return a short time to live, though longer than a busy machine may stop this process."""
    return 2.0


@pytest.fixture
async def store(open_another: Open) -> Store:
    """Return an empty store of each kind."""
    return await open_another()
