"""The processes of a round: replicas of `apidiscovery serve`, their store, and the ways between."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from etcd import EtcdServer, etcd_cluster
from programs import Restartable, free_port
from proxies import TcpProxy
from server import COMMAND, environment

# Start-up has no guaranteed limit.
START_S = 60.0
_STOP_S = 15.0
_POLL_S = 0.05


class Replica(Restartable):
    """One server, which keeps its addresses from one life to the next.

    Attributes:
        life: How often it was started.
        log: What all its lives wrote.
        env: Variables of its next life.
    """

    def __init__(self, name: str, folder: Path, config: Path, store: str) -> None:
        self.name = name
        self.http = f"127.0.0.1:{free_port()}"
        self.grpc = f"127.0.0.1:{free_port()}"
        self.life = 0
        self.env = dict[str, str]()
        self.folder = folder
        self.log = folder / "stderr"
        self._ready = folder / "ready.json"
        self._flags = ["--config", str(config), "--store", store, "--ready-file", str(self._ready)]
        folder.mkdir()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise AssertionError(f"{self.name} does not run")
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it ended though nobody has ended it."""
        return self._process is not None and self._process.poll() is not None

    async def start(self) -> bool:
        """Start it and wait; tell whether it was ready in time."""
        self.launch()
        return await self.is_ready(START_S)

    def launch(self) -> None:
        """Start it."""
        self._ready.unlink(missing_ok=True)
        self.life += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [str(COMMAND), "serve", "--http", self.http, "--grpc", self.grpc, *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self.folder, {"PYTHONFAULTHANDLER": "1", **self.env}),
                cwd=self.folder,
            )

    async def is_ready(self, within_s: float) -> bool:
        """Wait until it says that it is ready; tell whether it did in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._ready.exists() and not self.has_ended:  # noqa: ASYNC110 - a file
                    await asyncio.sleep(_POLL_S)
        return self._ready.exists()

    async def stop(self) -> bool:
        """End it as an operator would; tell whether it ended well."""
        process = self._process
        if process is None:
            return True
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler says in the log where it is
            process.wait()
        self._process = None
        return process.returncode == 0

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Store:
    """What replicas keep things in: how each reaches it, and what can be done to it.

    Attributes:
        ways: By replica the proxies between it and the members of the store.
        members: The processes of etcd, if it is that.
        folder: Where its data is.
    """

    def __init__(self, folder: Path, members: Sequence[EtcdServer] = ()) -> None:
        self.folder = folder
        self.members = members
        self.ways = dict[str, list[TcpProxy]]()

    async def url(self, replica: int, stack: AsyncExitStack) -> str:
        """Return what a replica is to use; with etcd it has a way of its own to each member."""
        if not self.members:
            return f"sqlite:{self.folder / 'store.sqlite'}"
        first = replica % len(self.members)  # so each talks to another member
        members = [*self.members[first:], *self.members[:first]]
        proxies = [await stack.enter_async_context(TcpProxy(one.endpoint)) for one in members]
        self.ways[f"r{replica}"] = proxies
        return f"etcd://{','.join(proxy.address for proxy in proxies)}/robust"

    def stop(self) -> None:
        for member in self.members:
            member.kill()

    async def start(self) -> None:
        """Start the members of etcd, which become healthy together."""
        await asyncio.gather(*(asyncio.to_thread(member.start) for member in self.members))


class Cluster:
    """Replicas on one store.

    Attributes:
        store: Of all of them.
        replicas: In the order of their names.
    """

    def __init__(self, store: Store, replicas: Sequence[Replica]) -> None:
        self.store = store
        self.replicas = replicas

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(replica.name for replica in self.replicas)


@asynccontextmanager
async def running(
    folder: Path, kind: str, replicas: int, config: Path, env: Mapping[str, str] | None = None
) -> AsyncGenerator[Cluster]:
    """Run replicas on a store, until the block ends.

    Args:
        folder: Where everything is kept.
        kind: `sqlite`, or `etcd-N` for etcd of N members.
        replicas: How many.
        config: The configuration file of all replicas, without addresses and store.
        env: More variables for them.
    """
    data = folder / "store"
    data.mkdir(exist_ok=True)
    members = list[EtcdServer]()
    if kind != "sqlite":
        # A slow heartbeat, so that a busy machine does not cause elections all the time.
        members = etcd_cluster(data, int(kind.removeprefix("etcd-")), heartbeat_ms=100)
    store = Store(data, members)
    async with AsyncExitStack() as stack:
        stack.callback(store.stop)
        await store.start()
        made = list[Replica]()
        for number in range(replicas):
            url = await store.url(number, stack)
            replica = Replica(f"r{number}", folder / f"r{number}", config, url)
            replica.env.update(env or {})
            stack.callback(replica.kill)
            made.append(replica)
        ready = await asyncio.gather(*(replica.start() for replica in made))
        if not all(ready):
            logs = "\n".join(replica.log.read_text(encoding="utf-8") for replica in made)
            raise AssertionError(f"the replicas were not ready in {START_S} s:\n{logs}")
        yield Cluster(store, made)


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process: proc(5), the second number of statm, in pages."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if sys.platform != "linux":
    raise SystemExit("faults need Linux: signals, /proc and mounts")
