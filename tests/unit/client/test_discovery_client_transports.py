"""Both clients do the same over HTTP and gRPC, with either stubs, against the real service."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import pytest
from apidiscovery_client._errors import (
    ClientClosed,
    NotServed,
    NotYetServed,
    ServerUnreachable,
)
from apidiscovery_client._sans_io.options import ClientOptions
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.cache import DiskCache
from apidiscovery_client.changes import Change, GroupAdded
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import CURRENT, GroupVersion, GroupVersionKind, Stale
from either_client import Either, InThreads, waited
from server import Serve, Server

WITHIN_S = 20.0
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

    def target(self, server: Server) -> str:
        return server.url if self.protocol == "http" else f"grpc://{server.grpc}"

    def connect(
        self,
        target: str,
        *,
        cache: DiskCache | Literal[False] = False,
        options: ClientOptions | None = None,
    ) -> Either:
        options = options or ClientOptions()
        if self.is_async:
            return AsyncDiscoveryClient(target, stubs=self.stubs, cache=cache, options=options)
        return InThreads(DiscoveryClient(target, stubs=self.stubs, cache=cache, options=options))

    @property
    def cold(self) -> int:
        """How many requests the first answer takes."""
        return 2 if self.protocol == "http" else 1


WAYS = [
    pytest.param(Way(*how), id="-".join(("async" if how[0] else "sync", *how[1:]))) for how in HOW
]
pytestmark = pytest.mark.parametrize("way", WAYS)


class Place:
    """A server and the manifests from which it serves."""

    def __init__(self, serve: Serve, folder: Path) -> None:
        folder.mkdir()
        self._serve = serve
        self._folder = folder
        self.put("widgets", "Current", kinds=("Widget",))
        self.server = self.start("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")

    def start(self, *addresses: str) -> Server:
        flags = ("--catalog", "none", "--manifests", str(self._folder))
        return self._serve(*flags, *addresses, addresses=False)

    def restart(self) -> None:
        """Start it again where it was."""
        self.server = self.start("--http", self.server.http, "--grpc", self.server.grpc)

    def put(self, name: str, freshness: str, kinds: tuple[str, ...]) -> None:
        """Serve a group `NAME.example.com` from now on."""
        file = self._folder / f"{name}.json"
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(_group(f"{name}.example.com", freshness, kinds)))
        partial.replace(file)

    def remove(self, name: str) -> None:
        (self._folder / f"{name}.json").unlink()


def _group(name: str, freshness: str, kinds: tuple[str, ...]) -> object:
    resources = [
        {
            "resource": f"{kind.lower()}s",
            "responseKind": {"group": name, "version": "v1", "kind": kind},
            "scope": "Namespaced",
            "singularResource": kind.lower(),
            "verbs": ["get", "list"],
        }
        for kind in kinds
    ]
    version = {"version": "v1", "resources": resources, "freshness": freshness}
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "items": [{"metadata": {"name": name}, "versions": [version]}],
    }


@pytest.fixture
def place(serve: Serve, tmp_path: Path) -> Place:
    return Place(serve, tmp_path / "manifests")


async def eventually(client: Either, is_so: Callable[[], object]) -> None:
    """Ask until it is so."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        await client.refresh()
        if is_so():
            return
        assert time.monotonic() < deadline


async def some(changes: AsyncGenerator[Change], count: int) -> list[str]:
    async with asyncio.timeout(WITHIN_S):
        return [str(await anext(changes)) for _ in range(count)]


# --------------------------------------------------------------------------------------------------


async def test_what_is_served_is_known_and_asked_for_once(way: Way, server: Server) -> None:
    async with way.connect(way.target(server)) as client:
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
    async with way.connect(way.target(server)) as client:
        first = await client.snapshot()
        received = client.traffic.body_bytes
        again = await client.refresh()
        assert again.groups is first.groups
        assert again.checked_at > first.checked_at
        assert client.traffic.requests == 2 * way.cold
        assert client.traffic.not_modified == way.cold
        # Over gRPC the order of the groups is told again.
        assert client.traffic.body_bytes - received < received / 10


async def test_a_typo_costs_as_much_as_asking_again_once(way: Way, server: Server) -> None:
    options = ClientOptions(miss_recheck_s=0.0, negative_ttl_s=3600)
    async with way.connect(way.target(server), options=options) as client:
        await client.snapshot()
        for _ in range(5):
            with pytest.raises(NotServed) as caught:
                await client.resolve("depoyments")
            assert caught.value.suggestions == ("deployments",)
        assert client.traffic.requests == 2 * way.cold
        assert client.traffic.not_modified == way.cold


async def test_the_cache_spares_the_next_process_all_requests(
    way: Way, server: Server, tmp_path: Path
) -> None:
    async with way.connect(way.target(server), cache=DiskCache(tmp_path)) as client:
        first = await client.snapshot()
    async with way.connect(way.target(server), cache=DiskCache(tmp_path)) as client:
        assert (await client.snapshot()).groups == first.groups
        assert client.traffic.requests == 0
        await client.refresh()
        assert client.traffic.not_modified == client.traffic.requests == way.cold


async def test_what_was_just_created_is_found(way: Way, place: Place) -> None:
    async with (
        way.connect(way.target(place.server), options=QUICK) as client,
        way.connect(way.target(place.server)) as other,
    ):
        await client.snapshot()
        with pytest.raises(NotServed):
            await client.resolve("gadgets")
        place.put("gadgets", "Current", ("Gadget",))
        await other.wait_for("gadgets", timeout_s=WITHIN_S)
        assert (await client.resolve("gadgets")).resource.kind == "Gadget"


async def test_a_dead_group_keeps_what_was_known_of_it(
    way: Way, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    gv = GroupVersion("widgets.example.com", "v1")
    async with way.connect(way.target(place.server)) as client:
        await client.snapshot()
        place.put("widgets", "Stale", ())
        await eventually(client, lambda: "is stale" in caplog.text)
        found = await client.resolve("widgets")
        assert isinstance(found.freshness, Stale)
        assert found.freshness.retained
        with pytest.raises(NotYetServed, match="not current"):
            await client.wait_for(gv, timeout_s=0.3)
        place.put("widgets", "Current", ("Widget",))
        await client.wait_for(gv, timeout_s=WITHIN_S)
        assert not (await client.snapshot()).troubled


async def test_a_server_may_be_away_and_come_back(way: Way, place: Place) -> None:
    async with way.connect(way.target(place.server), options=QUICK) as client:
        first = await client.snapshot()
        place.server.stop()
        with pytest.raises(ServerUnreachable):
            await client.refresh()
        stale = await client.snapshot(max_age_s=0)
        assert stale.groups == first.groups
        assert isinstance(stale.freshness, Stale)
        assert (await client.resolve("widgets")).resource.kind == "Widget"
        place.restart()
        await client.wait_for("widgets", timeout_s=WITHIN_S)
        assert (await client.snapshot()).freshness == CURRENT


async def test_a_watch_tells_what_changes_and_spares_others_requests(
    way: Way, place: Place
) -> None:
    async with (
        way.connect(way.target(place.server), options=QUICK) as client,
        aclosing(client.watch(interval_s=0.2, initial=True)) as changes,
    ):
        assert await some(changes, 1) == ["group widgets.example.com added: v1"]
        place.put("gadgets", "Current", ("Gadget",))
        assert await some(changes, 1) == ["group gadgets.example.com added: v1"]
        asked = client.traffic.requests
        assert (await client.resolve("gadgets")).resource.kind == "Gadget"
        with pytest.raises(NotServed):
            await client.resolve("gidgets")
        await client.snapshot()
        assert client.traffic.requests == asked
        place.put("gadgets", "Current", ("Gadget", "Gizmo"))
        place.remove("widgets")
        assert sorted(await some(changes, 2)) == [
            "group widgets.example.com removed",
            "resource gizmos.v1.gadgets.example.com added: Gizmo",
        ]


async def test_a_watch_outlives_the_server(way: Way, place: Place) -> None:
    async with (
        way.connect(way.target(place.server), options=QUICK) as client,
        aclosing(client.watch(interval_s=0.2, initial=True)) as changes,
    ):
        await some(changes, 1)
        place.server.stop()
        place.put("gadgets", "Current", ("Gadget",))
        place.restart()
        told: list[str] = []
        while "group gadgets.example.com added: v1" not in told:
            told += await some(changes, 1)
        assert all("server" in line for line in told[:-1])


async def test_it_is_waited_for_every_replica(
    way: Way, place: Place, serve: Serve, tmp_path: Path
) -> None:
    other = Place(serve, tmp_path / "other")
    wanted = GroupVersionKind("gadgets.example.com", "v1", "Gadget")
    async with (
        way.connect(way.target(place.server)) as client,
        way.connect(way.target(other.server)) as replica,
    ):
        place.put("gadgets", "Current", ("Gadget",))
        await client.wait_for(wanted, timeout_s=WITHIN_S)
        replicas = [replica]
        with pytest.raises(NotYetServed) as caught:
            await waited(client, wanted, timeout_s=0.5, replicas=replicas)
        assert list(caught.value.missing) == [replica.server]
        other.put("gadgets", "Current", ("Gadget",))
        await waited(client, wanted, timeout_s=WITHIN_S, replicas=replicas)
        assert (await replica.resolve("gadgets")).resource.kind == "Gadget"


async def test_a_replica_may_be_named_by_its_address(way: Way, server: Server) -> None:
    async with way.connect(way.target(server)) as client:
        targets = [way.target(server)]
        await waited(client, "pods", timeout_s=WITHIN_S, replicas=targets)


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
        async with way.connect(way.target(server)) as client:
            await client.snapshot()
            async with aclosing(client.watch(interval_s=0.05, initial=True)) as changes:
                await some(changes, 3)
            await client.wait_for("pods", timeout_s=WITHIN_S)

    await use()  # what libraries keep for good is there after this
    before, threads = sockets(), {thread.name for thread in threading.enumerate()}
    for _ in range(3):
        await use()
    deadline = time.monotonic() + WITHIN_S
    # gRPC closes connections in threads of its own, and has a task for each call that ends then.
    while sockets() > before or asyncio.all_tasks() != {asyncio.current_task()}:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    names = {thread.name for thread in threading.enumerate()} - threads
    assert not [name for name in names if not name.startswith("asyncio_")]


async def test_closing_wakes_who_reads_changes(way: Way, server: Server) -> None:
    client = way.connect(way.target(server))
    watch = client.watch(interval_s=3600, initial=True)
    assert isinstance(await anext(watch), GroupAdded)

    async def read() -> list[Change]:
        return [change async for change in watch]

    reading = asyncio.create_task(read())
    await client.close()
    async with asyncio.timeout(WITHIN_S):
        assert all(isinstance(change, GroupAdded) for change in await reading)
    with pytest.raises(ClientClosed):
        await client.snapshot()
