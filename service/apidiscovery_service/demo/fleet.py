"""Runs the demo: the clusters, the server over them, and their changes."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from apidiscovery_service.app.settings import Address
from apidiscovery_service.demo.clusters import (
    BACKUPS,
    CLUSTERS,
    UNSTEADY,
    DemoCluster,
    changes,
    install,
)
from apidiscovery_service.demo.past import write_past
from apidiscovery_service.demo.servers import DemoServer, ServerEnded, free_address
from apidiscovery_service.history.history import history_path
from apidiscovery_service.store.urls import StoreUrl
from apidiscovery_service.waiting import run_until_one_ends

_CHANGE_EVERY_S = 5.0
_UP_S, _DOWN_S = 40.0, 20.0
# Clusters are polled often, so that a change is seen at once.
_TIMING = {"poll-interval": "1s", "openapi-interval": "2s", "timeout": "5s"}


async def run(folder: Path, http: Address, show: Callable[[str], None]) -> None:
    """Run the demo until SIGINT or SIGTERM.

    Args:
        folder: For the files of all servers.
        http: Where the server over the clusters listens.
        show: Called with its `host:port` once it answers.

    Raises:
        ServerEnded: A server does not start, or ends by itself.
        OSError: The folder cannot be written.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    running = asyncio.create_task(_run(folder, http, show))
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not running.done():
        running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def _run(folder: Path, http: Address, show: Callable[[str], None]) -> None:
    addresses = {each.name: free_address() for each in CLUSTERS}
    servers = {each.name: _cluster(folder, each, addresses[each.name]) for each in CLUSTERS}
    store = folder / "store.db"
    gateway = DemoServer(folder / "server", *_gateway_flags(folder, http, store, addresses))
    try:
        await asyncio.gather(*(server.start() for server in servers.values()))
        past = history_path(StoreUrl.parse(f"sqlite:{store}"))
        if past is not None:
            await write_past(past, folder, addresses)
        show(await gateway.start())
        works = (_end_with(gateway), _change(folder), _come_and_go(servers[UNSTEADY]))
        await run_until_one_ends(*works)
    finally:
        ending = (server.stop() for server in (gateway, *servers.values()))
        await asyncio.shield(asyncio.gather(*ending))


def _cluster(folder: Path, cluster: DemoCluster, address: str) -> DemoServer:
    manifests = _manifests(folder, cluster.name)
    manifests.mkdir(parents=True)
    for package in cluster.installed:
        install(manifests, package)
    return DemoServer(
        folder / f"server-{cluster.name}",
        *("--http", address, "--grpc", "off", "--store", "memory", "--history", "off"),
        *("--web", "off", "--catalog", f"kubernetes:{cluster.release}"),
        *("--manifests", str(manifests)),
    )


def _manifests(folder: Path, name: str) -> Path:
    return folder / "manifests" / name


def _gateway_flags(
    folder: Path, http: Address, store: Path, addresses: Mapping[str, str]
) -> tuple[str, ...]:
    upstreams = {
        each.name: {
            "url": f"http://{addresses[each.name]}",
            "labels": dict(each.labels),
            **_TIMING,
        }
        for each in CLUSTERS
    }
    config = folder / "config.yaml"
    config.write_text(json.dumps({"upstreams": upstreams}), encoding="utf-8")
    return (
        *("--config", str(config), "--http", str(http), "--grpc", "off"),
        *("--store", f"sqlite:{store}", "--history", "30d,256MiB", "--web", "on"),
    )


async def _end_with(gateway: DemoServer) -> None:
    await gateway.ended()
    raise ServerEnded("the server over the clusters has ended")


async def _change(folder: Path) -> None:
    """Change a definition every few seconds."""
    for name, definition in changes():
        await asyncio.sleep(_CHANGE_EVERY_S)
        file = _manifests(folder, name) / f"{BACKUPS}.yaml"
        if definition:
            # In one step, as a file that is half written is not valid.
            unfinished = file.with_name(f".{file.name}")
            unfinished.write_text(definition, encoding="utf-8")
            unfinished.replace(file)
        else:
            file.unlink(missing_ok=True)


async def _come_and_go(server: DemoServer) -> None:
    """Stop and start a cluster, again and again."""
    while True:
        await asyncio.sleep(_UP_S)
        await server.stop()
        await asyncio.sleep(_DOWN_S)
        await server.start()
