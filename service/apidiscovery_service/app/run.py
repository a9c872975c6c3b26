"""Wires the parts together, runs them, and drains them when told to stop."""

import asyncio
import contextlib
import gc
import json
import os
import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import structlog
import uvloop

from apidiscovery_service.app.settings import Address, Settings
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.grpc_api import DiscoveryService, GrpcServer
from apidiscovery_service.health import Checks
from apidiscovery_service.http_gateway import Gateway, HttpServer, Site
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.registry import Registry
from apidiscovery_service.snapshot import Snapshot
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.sources.manifests import Manifests

# How long requests may go on after SIGTERM; the longest honest one takes a fraction of a second.
DRAIN_S = 5.0

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        InvalidManifests: A manifest cannot be read at the start.
        OSError: An address cannot be listened on, or the ready file cannot be written.
    """
    uvloop.run(_Process(settings).serve())


def software_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return version("apidiscovery")
    except PackageNotFoundError:
        return "0"


class _Process:
    """Everything that runs, once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ready = False
        self._stopping = asyncio.Event()
        self._metrics = Metrics()
        self._registry = Registry()
        self._encoding = CurrentEncoding(self._registry)
        self._manifests = Manifests(settings.manifests, self._registry, self._metrics)
        self._checks = self._make_checks()
        self._registry.subscribe(_Observer(self._metrics, self._registry.snapshot))

    def _make_checks(self) -> Checks:
        checks = Checks(self._metrics.observe_check)
        checks.add("ping", lambda: None)
        checks.add("log", lambda: None)
        checks.add(
            "local-sources",
            lambda: None if self._ready else "catalogue and manifests are still being read",
            ["readyz"],
        )
        checks.add(
            "shutdown",
            lambda: "process is shutting down" if self._stopping.is_set() else None,
            ["readyz"],
        )
        checks.add_warnings(self._manifests.warnings)
        return checks

    async def serve(self) -> None:
        """Listen, read the sources, say so, and serve until told to stop."""
        loop = asyncio.get_running_loop()
        # Bodies are made in threads; more of them would only wait for each other.
        loop.set_default_executor(ThreadPoolExecutor(2))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        http, grpc = self._http(), self._grpc()
        failure: Exception | None = None
        async with asyncio.TaskGroup() as tasks:
            if http is not None:
                tasks.create_task(http.serve())
            try:
                await self._serve(tasks, http, grpc)
            except (DiscoveryError, OSError) as error:
                failure = error
            finally:
                await self._drain(http, grpc)
        if failure is not None:
            raise failure

    async def _serve(
        self, tasks: asyncio.TaskGroup, http: HttpServer | None, grpc: GrpcServer | None
    ) -> None:
        grpc_port = await grpc.start(str(self._settings.grpc)) if grpc else 0
        if not await self._load():
            return
        if grpc is not None:
            await grpc.set_ready()
        addresses = {
            "http": _actual(self._settings.http, http.port if http else 0),
            "grpc": _actual(self._settings.grpc, grpc_port),
        }
        with _announced(self._settings.ready_file, addresses):
            _log.info("serving", **addresses, groups=self._registry.snapshot.named.size)
            watching = tasks.create_task(self._manifests.watch())
            await self._stopping.wait()
            watching.cancel()
        _log.info("stopping", drain_s=DRAIN_S)

    async def _load(self) -> bool:
        """Read the local sources; False if told to stop before the end."""
        loading = asyncio.create_task(self._read_sources())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not loading.done():
            loading.cancel()
            return False
        await loading
        self._ready = True
        return True

    async def _read_sources(self) -> None:
        with _no_collections():
            await self._manifests.load()
            if self._settings.catalog == "kubernetes":
                self._registry.publish(await asyncio.to_thread(kubernetes_catalog))

    async def _drain(self, http: HttpServer | None, grpc: GrpcServer | None) -> None:
        """Stop both servers side by side."""
        self._stopping.set()
        stops = [server.stop(DRAIN_S) for server in (http, grpc) if server is not None]
        await asyncio.gather(*stops)

    def _http(self) -> HttpServer | None:
        address = self._settings.http
        if address is None:
            return None
        site = Site(self._checks, self._metrics, self._settings.gates, version=software_version())
        gateway = Gateway(self._encoding, site, lambda: self._ready)
        server = HttpServer(gateway, address.host, address.port)
        # Port 0 has become a number only now.
        site.server_address = _actual(address, server.port) or ""
        return server

    def _grpc(self) -> GrpcServer | None:
        if self._settings.grpc is None:
            return None
        return GrpcServer(
            DiscoveryService(
                self._registry,
                self._encoding,
                self._settings.gates,
                self._metrics,
                lambda: self._ready,
            )
        )


@contextlib.contextmanager
def _no_collections() -> Generator[None]:
    """Load without garbage collections, then keep what is there out of later ones.

    What is loaded stays; going through it took 20 ms a time with 3 000 groups.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    gc.collect()
    gc.freeze()


class _Observer:
    """Counts what the registry publishes."""

    def __init__(self, metrics: Metrics, snapshot: Snapshot) -> None:
        self._metrics = metrics
        self._before = snapshot

    def __call__(self, snapshot: Snapshot) -> None:
        for now, before in (
            (snapshot.core, self._before.core),
            (snapshot.named, self._before.named),
        ):
            if now is not before:
                self._metrics.aggregations.inc()
        self._before = snapshot
        self._metrics.groups.set(snapshot.core.size + snapshot.named.size)


def _actual(address: Address | None, port: int) -> str | None:
    return None if address is None else str(Address(address.host, port))


@contextlib.contextmanager
def _announced(path: Path | None, addresses: dict[str, str | None]) -> Generator[None]:
    """Keep a file with the addresses; a reader never sees half of it."""
    if path is None:
        yield
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(json.dumps(addresses) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise OSError(f"--ready-file {path}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
