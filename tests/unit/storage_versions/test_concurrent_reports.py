"""Several replicas at once, each with many servers, over one store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path

import pytest
from apidiscovery_service.store import Store
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.sqlite import SqliteStore
from storage_version_replicas import Replica, ticking, written
from waiting import until

Replicas = Callable[[], Awaitable[Replica]]

RESOURCES = [f"r{number}" for number in range(6)]
SERVERS = 6


@pytest.fixture(params=["memory", "sqlite"])
async def open_replica(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Replicas]:
    """Return what makes one more replica of one store, as another process would."""
    memory = MemoryStore()
    stores: list[Store] = [memory]

    async def make() -> Replica:
        if request.param == "sqlite":
            stores.append(await SqliteStore.open(tmp_path / "store.sqlite"))
        return Replica(stores[-1], now=ticking())

    yield make
    for store in stores:
        await store.close()


async def test_reports_of_all_replicas_at_once_are_all_there(open_replica: Replicas) -> None:
    replicas = [await open_replica() for _ in range(3)]
    servers = [await replicas[0].join(f"node-{number}") for number in range(SERVERS)]

    async def report(replica: Replica, server: str, version: str) -> None:
        await replica.says(server, **dict.fromkeys(RESOURCES, version))

    for version in ("v1", "v2"):
        chosen = zip(cycle(replicas), servers, strict=False)
        await asyncio.gather(*(report(replica, server, version) for replica, server in chosen))
        for name in RESOURCES:
            status = await replicas[0].status(f"apps.{name}")
            assert status is not None
            assert written(status) == dict.fromkeys(servers, f"apps/{version}")
            assert status.common_encoding_version == f"apps/{version}"


async def test_servers_come_and_go_while_two_collect(open_replica: Replicas) -> None:
    """Each server lives several lives; what the last of them acknowledged is left."""
    replicas = [await open_replica() for _ in range(2)]
    guards = [await replica.take_claim() for replica in replicas]

    async def live(replica: Replica, host: str) -> None:
        for version in ("v1", "v2", "v3"):
            server = await replica.join(host)
            await replica.says(server, **dict.fromkeys(RESOURCES, version))
            for name in RESOURCES:
                assert (await replica.written(f"apps.{name}") or {})[server] == f"apps/{version}"
            if version != "v3" or host == "leaves":
                await replica.members.depart(server)

    hosts = ["a", "b", "c", "leaves"]
    async with AsyncExitStack() as stack:
        collecting: list[asyncio.Future[None]] = []
        for replica, guard in zip(replicas, guards, strict=True):
            await stack.enter_async_context(replica.following())
            collecting.append(await stack.enter_async_context(replica.collecting(guard)))
        async with asyncio.timeout(60):
            await asyncio.gather(*map(live, cycle(replicas), hosts))
        left = [await replicas[0].join(host) for host in hosts[:3]]
        await until(lambda: are_left(replicas[0], left))
        assert not [task.exception() for task in collecting if task.done()]


async def are_left(replica: Replica, servers: list[str]) -> bool:
    """Tell whether these servers have entries everywhere, and no others have."""
    found = [await replica.written(f"apps.{name}") or {} for name in RESOURCES]
    assert all(each.keys() >= set(servers) for each in found)
    return all(each == dict.fromkeys(servers, "apps/v3") for each in found)
