"""Both clients do the same over HTTP and gRPC, with either stubs, against the real service."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import pytest
from apidiscovery_client._errors import NotServed, NotYetServed, ServerUnreachable
from apidiscovery_client._sans_io.options import ClientOptions
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.cache import DiskCache
from apidiscovery_client.changes import Change
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import CURRENT, Stale
from either_client import Either, InThreads, waited
from fake_api_server import aggregated, served_group
from proxies import TcpProxy
from server import Server, serving
from waiting import WITHIN_S, eventually, until

QUICK = ClientOptions(miss_recheck_s=0.0, negative_ttl_s=0.0, first_retry_s=0.05)


Protocol: TypeAlias = Literal["http", "grpc"]
Stubs: TypeAlias = Literal["grpcio", "betterproto"]
# The blocking client is generated from the other, and has its own transports.
HOW: tuple[tuple[bool, Protocol, Stubs], ...] = (
    (True, "http", "grpcio"),
    (True, "grpc", "grpcio"),
    (True, "grpc", "betterproto"),
    (False, "http", "grpcio"),
    (False, "grpc", "grpcio"),
)


class Way(NamedTuple):
    """A client and how it asks."""

    is_async: bool
    protocol: Protocol
    stubs: Stubs

    def address(self, server: Server) -> str:
        return server.http if self.protocol == "http" else server.grpc

    def connect(
        self,
        server: Server | str,
        *,
        cache: DiskCache | Literal[False] = False,
        options: ClientOptions | None = None,
    ) -> Either:
        """Return a client of a server, or of an address."""
        options = options or ClientOptions()
        target = self.target(server)
        if self.is_async:
            return AsyncDiscoveryClient(target, stubs=self.stubs, cache=cache, options=options)
        return InThreads(DiscoveryClient(target, stubs=self.stubs, cache=cache, options=options))

    def target(self, server: Server | str) -> str:
        address = server if isinstance(server, str) else self.address(server)
        return f"{self.protocol}://{address}"

    @property
    def cold(self) -> int:
        """The number of requests for the first answer."""
        return 2 if self.protocol == "http" else 1


WAYS = [
    pytest.param(Way(*how), id="-".join(("async" if how[0] else "sync", *how[1:]))) for how in HOW
]
pytestmark = pytest.mark.parametrize("way", WAYS)


class Manifests:
    """A folder that a server serves, with a file for each group."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, *plurals: str) -> None:
        """Serve these resources in `NAME.example.com`."""
        file = self.folder / f"{name}.json"
        partial = file.with_suffix(".partial")
        partial.write_bytes(aggregated(served_group(f"{name}.example.com", *plurals)).body)
        partial.replace(file)

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.json").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    made = Manifests(tmp_path_factory.mktemp("manifests"))
    made.put("widgets", "widgets")
    return made


@pytest.fixture(scope="module")
def changing(folder: Manifests, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of nothing but the manifests."""
    flags = ("--catalog", "none", "--manifests", str(folder.folder))
    with serving(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


@pytest.fixture
def manifests(folder: Manifests, changing: Server) -> Manifests:
    """Return the manifests of `changing`, which serves only widgets again."""
    folder.remove("gadgets")
    folder.put("widgets", "widgets")
    with DiscoveryClient(changing.url, cache=False) as client:
        eventually(
            lambda: [found.name for found in client.refresh().groups] == ["widgets.example.com"],
            "only widgets are served",
        )
    return folder


async def some(changes: AsyncGenerator[Change], count: int) -> list[str]:
    async with asyncio.timeout(WITHIN_S):
        return [str(await anext(changes)) for _ in range(count)]


# --------------------------------------------------------------------------------------------------


async def test_the_first_snapshot_is_fetched_once(way: Way, server: Server) -> None:
    async with way.connect(server) as client:
        first = await client.snapshot()
        assert first.server == client.server
        assert first.freshness == CURRENT
        assert [found.name for found in first.groups[:2]] == ["", "apiregistration.k8s.io"]
        assert (await client.resolve("deploy")).resource.gvr.group_resource == "deployments.apps"
        assert (await client.resolve_kind("Pod")).resource.name == "pods"
        assert "pods" in {found.name for found in await client.category("all")}
        assert "deployments" in str(await client.explain_resolution("deploy"))
        assert await client.snapshot() is first
        assert client.traffic.requests == way.cold


async def test_asking_again_is_conditional(way: Way, server: Server) -> None:
    async with way.connect(server) as client:
        first = await client.snapshot()
        received = client.traffic.body_bytes
        again = await client.refresh()
        assert again.groups is first.groups
        assert again.checked_at > first.checked_at
        assert client.traffic.requests == 2 * way.cold
        assert client.traffic.not_modified == way.cold
        # Over gRPC the order of the groups is told again.
        assert client.traffic.body_bytes - received < received / 10


async def test_the_cache_saves_all_requests_of_the_next_process(
    way: Way, server: Server, tmp_path: Path
) -> None:
    async with way.connect(server, cache=DiskCache(tmp_path)) as client:
        first = await client.snapshot()
    async with way.connect(server, cache=DiskCache(tmp_path)) as client:
        assert (await client.snapshot()).groups == first.groups
        assert client.traffic.requests == 0
        await client.refresh()
        assert client.traffic.not_modified == client.traffic.requests == way.cold


async def test_a_watch_reports_changes_and_saves_other_requests(
    way: Way, changing: Server, manifests: Manifests
) -> None:
    async with (
        way.connect(changing, options=QUICK) as client,
        # After two intervals without an answer it would ask again.
        aclosing(client.watch(interval_s=1.0, initial=True)) as changes,
    ):
        assert await some(changes, 1) == ["group widgets.example.com added: v1"]
        manifests.put("gadgets", "gadgets")
        assert await some(changes, 1) == ["group gadgets.example.com added: v1"]
        asked = client.traffic.requests
        assert (await client.resolve("gadgets")).resource.kind == "Gadget"
        with pytest.raises(NotServed):
            await client.resolve("gidgets")
        await client.snapshot()
        assert client.traffic.requests == asked
        manifests.put("gadgets", "gadgets", "gizmos")
        manifests.remove("widgets")
        assert sorted(await some(changes, 2)) == [
            "group widgets.example.com removed",
            "resource gizmos.v1.gadgets.example.com added: Gizmo",
        ]


async def test_clients_and_their_watches_survive_an_outage(
    way: Way, changing: Server, manifests: Manifests
) -> None:
    async with (
        TcpProxy(way.address(changing)) as network,
        way.connect(network.address, options=QUICK) as client,
        way.connect(network.address, options=QUICK) as watcher,
        aclosing(watcher.watch(interval_s=0.2, initial=True)) as changes,
    ):
        first = await client.snapshot()
        await some(changes, 1)
        network.refuse()
        with pytest.raises(ServerUnreachable):
            await client.refresh()
        stale = await client.snapshot(max_age_s=0)
        assert stale.groups == first.groups
        assert isinstance(stale.freshness, Stale)
        assert (await client.resolve("widgets")).resource.kind == "Widget"
        manifests.put("gadgets", "gadgets")
        network.mend()
        await client.wait_for("gadgets", timeout_s=WITHIN_S)
        assert (await client.snapshot()).freshness == CURRENT
        told: list[str] = []
        while "group gadgets.example.com added: v1" not in told:
            told += await some(changes, 1)
        assert all("server" in line for line in told[:-1])


async def test_every_replica_must_serve_what_is_waited_for(
    way: Way, server: Server, changing: Server
) -> None:
    async with way.connect(server) as client, way.connect(changing) as other:
        await waited(client, "pods", timeout_s=WITHIN_S, replicas=[way.target(server)])
        with pytest.raises(NotYetServed) as caught:
            await waited(client, "pods", timeout_s=3.0, replicas=[other])
        assert list(caught.value.missing) == [other.server]


# --------------------------------------------------------------------------------------------------
# Nothing is left.


def sockets() -> int:
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            count += str(link.readlink()).startswith("socket:")
        except OSError:  # closed meanwhile, by whatever library
            continue
    return count


async def test_closing_leaves_no_task_thread_or_socket(way: Way, server: Server) -> None:
    async def use() -> None:
        async with way.connect(server) as client:
            await client.snapshot()
            async with aclosing(client.watch(interval_s=0.05, initial=True)) as changes:
                await some(changes, 3)
            await client.wait_for("pods", timeout_s=WITHIN_S)

    await use()  # what libraries keep for good is there after this
    before, threads = sockets(), {thread.name for thread in threading.enumerate()}
    for _ in range(3):
        await use()
    # gRPC closes connections in threads of its own, and has a task for each call that ends then.
    await until(lambda: sockets() <= before, "no socket is left")
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task is left")
    await until(lambda: not _new(threads), "no thread is left")


def _new(before: set[str]) -> list[str]:
    """Return the names of new threads, without those in which the test itself waits."""
    names = {thread.name for thread in threading.enumerate()} - before
    return [name for name in names if not name.startswith("asyncio_")]
