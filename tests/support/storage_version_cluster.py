"""Replicas of the service, API servers and migrations, as processes that tests kill and isolate."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery_service.storage_versions.leases import identity
from programs import Restartable, free_port
from proxies import TcpProxy
from recording_service import RecordingService, Steps
from repository import EXAMPLES
from server import COMMAND, START_S, environment
from storage_version_checks import Run
from storage_version_history import History, connected
from waiting import until

EXTENSION_SERVER = EXAMPLES / "extension_server.py"
COMPONENT = "widget-server"
STOP_S = 20.0
MIGRATED_S = 30.0
_SUPPORT = Path(__file__).parent


class Program(Restartable):
    """A process that can be killed, and started again with other arguments.

    Args:
        folder: The working directory, with the log.
        name: The name of the log.
    """

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.name = name
        self.life_began = 0.0
        self._output = folder / f"{name}.log"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Return the output of all its runs."""
        return self._output.read_text(encoding="utf-8") if self._output.exists() else ""

    def run(self, *command: str) -> None:
        assert not self.runs
        self.life_began = time.monotonic()
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=environment(self.folder, {"PYTHONPATH": str(_SUPPORT)}),
            )

    async def stop(self) -> None:
        """Send SIGTERM, and expect exit code 0."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} does not stop:\n{self.log()}") from None
        assert process.returncode == 0, self.log()


class Replica(Program):
    """A replica of the service, at the same address after each start.

    Args:
        folder: The working directory.
        name: The name of the replica.
        store: The URL of the store.
        shift_s: How many seconds its clock is ahead.
    """

    def __init__(self, folder: Path, name: str, store: str, shift_s: float = 0) -> None:
        super().__init__(folder, name)
        self.address = f"127.0.0.1:{free_port()}"
        self.shift_s = shift_s
        self._store = store
        self._ready = folder / f"{name}.ready"

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._ready.unlink(missing_ok=True)
        shifted = [str(_SUPPORT / "shifted_clock.py"), str(self.shift_s)] if self.shift_s else []
        self.run(
            *(sys.executable, *shifted, str(COMMAND), "serve", "--catalog", "none"),
            *("--feature-gates", "StorageVersionAPI=true", "--store", self._store),
            *("--http", "127.0.0.1:0", "--grpc", self.address, "--ready-file", str(self._ready)),
        )
        await until(lambda: self._ready.exists() or not self.runs, self.name, START_S)
        assert self.runs, self.log()


class ApiServer(Program):
    """The example of an extension API server.

    Args:
        folder: The working directory; all servers share its file of widgets.
        name: The host name.
        services: Addresses of the service.
        lease_s: The duration of its lease.
    """

    def __init__(self, folder: Path, name: str, services: Sequence[str], lease_s: int) -> None:
        super().__init__(folder, name)
        self.server_id = identity(name, COMPONENT)
        self.address = f"127.0.0.1:{free_port()}"
        self._services = services
        self._lease_s = lease_s

    @property
    def data(self) -> Path:
        return self.folder / "widgets.db"

    def start(self, encode: str) -> None:
        """Start it; it writes objects in the version `encode`."""
        services = [word for address in self._services for word in ("--service", address)]
        self.run(
            *(sys.executable, str(EXTENSION_SERVER), *services, "--http", self.address),
            *("--hostname", self.name, "--encode", encode, "--data", str(self.data)),
            *("--lease-seconds", str(self._lease_s)),
        )


class Migrations(Program):
    """A process that runs guarded migrations one after the other."""

    def start(self, seed: int, address: str, *names: str) -> None:
        script = str(_SUPPORT / "guarded_migrations.py")
        self.run(sys.executable, script, str(seed), address, *names)

    def outcome(self) -> tuple[list[Run], list[str]]:
        """Return the finished migrations, and the reasons why others were interrupted."""
        lines = self.log().split("\n")[:-1]
        assert all(line.startswith("{") for line in lines), self.log()[-5000:]
        told = [cast("dict[str, Any]", json.loads(line)) for line in lines]
        return [Run(**one) for one in told if "uid" in one], [o["why"] for o in told if "why" in o]

    async def until_done(self, version: str) -> None:
        """Wait until one more migration to this version is finished."""
        since = time.monotonic()

        def is_done() -> bool:
            runs, _ = self.outcome()
            return any(run.version == version and run.began > since for run in runs)

        await until(is_done, f"a migration to {version}", MIGRATED_S)


class Collector(Program):
    """A garbage collector that does not ask whether another one is at work."""

    def start(self, store: str) -> None:
        self.run(sys.executable, str(_SUPPORT / "garbage_collector.py"), store)


ProgramT = TypeVar("ProgramT", bound=Program)


class Cluster:
    """Replicas on one store, the programs beside them, and the recorded history.

    Args:
        folder: The working directory of programs.
        store: The URL of the store, without a proxy.
        seed: The seed of all random numbers.

    Attributes:
        dice: The random numbers.
        history: The recorded history.
        steps: Steps at which calls of API servers can be held.
        replicas: The processes.
        networks: The proxies between each replica and etcd; empty for SQLite.
        services: Addresses for API servers, one for each replica.
    """

    def __init__(self, folder: Path, store: str, seed: int) -> None:
        self.folder = folder
        self.store = store
        self.seed = seed
        self.dice = random.Random(seed)  # noqa: S311 - to be repeated
        self.history = History()
        self.steps = Steps(random.Random(seed))  # noqa: S311
        self.replicas: list[Replica] = []
        self.networks: list[TcpProxy] = []
        self.services: list[str] = []
        self._programs: list[Program] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
        for one in ended:
            if isinstance(one, Exception):
                raise one

    @property
    def is_etcd(self) -> bool:
        return self.store.startswith("etcd:")

    def keep(self, program: ProgramT) -> ProgramT:
        """Return a program, which is killed at the end of the test at the latest."""
        self._programs.append(program)
        return program

    def beside(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine in a task, until the end of the test at the latest."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    def migrating(self, *names: str) -> Migrations:
        """Start a process that migrates these resources through the last replica."""
        migrations = self.keep(Migrations(self.folder, "migrations"))
        migrations.start(self.seed, self.replicas[-1].address, *names)
        return migrations

    def api_server(self, name: str, services: Sequence[str] = (), lease_s: int = 10) -> ApiServer:
        """Return an API server, which is not started yet."""
        services = services or self.services
        return self.keep(ApiServer(self.folder, name, services, lease_s))

    async def start(self, *shifts_s: float) -> None:
        """Start a replica for each of these clock offsets."""
        for shift_s in shifts_s:
            url = await self._network()
            name = f"replica-{len(self.replicas)}"
            replica = self.keep(Replica(self.folder, name, url, shift_s))
            service = RecordingService(self.history, self.steps, replica.address)
            self.services.append((await self._stack.enter_async_context(service)).address)
            self.replicas.append(replica)
            self.beside(self.history.watch(replica.address))
        await asyncio.gather(*(replica.start() for replica in self.replicas))

    async def _network(self) -> str:
        """Return the URL of the store; of etcd, behind a proxy that can be cut."""
        if not self.is_etcd:
            return self.store
        scheme, _, rest = self.store.partition("//")
        endpoint, _, prefix = rest.partition("/")
        network = await self._stack.enter_async_context(TcpProxy(endpoint))
        self.networks.append(network)
        return f"{scheme}//{network.address}/{prefix}"

    async def network_to(self, address: str) -> TcpProxy:
        """Return another proxy that can be cut."""
        return await self._stack.enter_async_context(TcpProxy(address))

    async def list(self, replica: Replica) -> pb.ListStorageVersionsResponse:
        async with connected(replica.address) as channel:
            return await storage_version_pb2_grpc.StorageVersionServiceStub(
                channel
            ).ListStorageVersions(pb.ListStorageVersionsRequest(), timeout=2)

    async def converge(self, wanted: "Callable[[Listed], bool]", within_s: float) -> "Listed":
        """Wait until all replicas have the same wanted state; return that state."""
        deadline = time.monotonic() + within_s
        while True:
            said = [await self._listed(replica) for replica in self.replicas]
            views = [self.history.views[replica.address] for replica in self.replicas]
            first = said[0]
            if (
                first is not None
                and all(one == first for one in said)
                and all(view == first.revisions for view in views)
                and wanted(first)
            ):
                return first
            if time.monotonic() > deadline:
                logs = "\n".join(replica.log()[-3000:] for replica in self.replicas)
                raise AssertionError(f"not within {within_s} s: {said}\n{views}\n{logs}")
            await asyncio.sleep(0.1)

    async def _listed(self, replica: Replica) -> "Listed | None":
        try:
            return Listed.of(await self.list(replica))
        except grpc.aio.AioRpcError:
            return None


@dataclass(frozen=True, slots=True)
class Listed:
    """The state of a replica.

    Attributes:
        members: Identities of the API servers.
        entries: The version that each server writes, by object.
        revisions: The revision of each object.
        common: The common version of each object that has one.
    """

    members: frozenset[str]
    entries: Mapping[str, Mapping[str, str]]
    revisions: Mapping[str, int]
    common: Mapping[str, str]

    @classmethod
    def of(cls, answer: pb.ListStorageVersionsResponse) -> Self:
        items = {item.metadata.name: item for item in answer.list.items}
        return cls(
            frozenset(lease.metadata.name for lease in answer.members),
            {
                name: {e.api_server_id: e.encoding_version for e in one.status.storage_versions}
                for name, one in items.items()
            },
            {name: int(one.metadata.resource_version) for name, one in items.items()},
            {
                name: one.status.common_encoding_version
                for name, one in items.items()
                if one.status.common_encoding_version
            },
        )
