"""What is broken during a round, and mended again."""

import asyncio
import contextlib
import glob
import random
import re
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from etcd import EtcdServer
from small_disk import SmallDisk

from tests.robustness.cluster import START_S, Cluster, Replica
from tests.robustness.history import Fault, History, Note, Outage, Restore
from tests.robustness.upstream import GROUP as UPSTREAM
from tests.robustness.upstream import Upstream

_CLOCKS_S = (-3600, -90, 90, 3600)
_REFUSAL_S = 10.0
_SAMPLE_BYTES = 32


@dataclass
class Scene:
    """What faults can break, and the history that records them."""

    history: History
    cluster: Cluster
    upstream: Upstream
    chance: random.Random

    def replica(self) -> Replica:
        return self.chance.choice(self.cluster.replicas)

    async def last(self, low: float, high: float) -> None:
        """Let it be as it is for a while."""
        await asyncio.sleep(self.chance.uniform(low, high))

    @contextmanager
    def fault(self, name: str, target: str, blinds: Iterable[str] = ()) -> Generator[None]:
        """Record that something is broken while the block runs."""
        began = self.history.now()
        try:
            yield
        finally:
            self.history.add(Fault(name, target, began, self.history.now(), tuple(blinds)))

    async def start(self, replica: Replica) -> None:
        """Start a replica; it has to be ready in time."""
        if not await replica.start():
            text = f"was not ready within {START_S:.0f} s of its start"
            self.history.add(Note(self.history.now(), replica.name, text))


Injection = Callable[[Scene], Awaitable[None]]


# --------------------------------------------------------------------------------------------------
# Replicas.


async def kill(scene: Scene) -> None:
    replica = scene.replica()
    with scene.fault("kill -9 of a replica", replica.name):
        replica.kill()
        await scene.last(0.1, 2)
        await scene.start(replica)


async def kill_all(scene: Scene) -> None:
    with scene.fault("kill -9 of all replicas", "all"):
        for replica in scene.cluster.replicas:
            replica.kill()
        await scene.last(0.1, 1)
        await asyncio.gather(*(scene.start(replica) for replica in scene.cluster.replicas))


async def restart(scene: Scene) -> None:
    replica = scene.replica()
    with scene.fault("restart of a replica", replica.name):
        await _stop(scene, replica)
        await scene.start(replica)


async def freeze(scene: Scene) -> None:
    replica = scene.replica()
    with scene.fault("freeze of a replica", replica.name, [replica.name]):
        replica.freeze()
        try:
            await scene.last(2, 12)
        finally:
            replica.thaw()


async def shift_clock(scene: Scene) -> None:
    replica, by_s = scene.replica(), scene.chance.choice(_CLOCKS_S)
    before = dict(replica.env)
    with scene.fault("wrong clock of a replica", f"{replica.name} by {by_s} s"):
        await _stop(scene, replica)
        replica.env |= {
            "LD_PRELOAD": faketime_library(),
            "FAKETIME": f"{by_s:+}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        await scene.start(replica)
        await scene.last(5, 10)
        await _stop(scene, replica)
        replica.env = before
        await scene.start(replica)


async def _stop(scene: Scene, replica: Replica) -> None:
    if not await replica.stop():
        text = "did not end well after SIGTERM"
        scene.history.add(Note(scene.history.now(), replica.name, text))


def faketime_library() -> str:
    """Return the path of the library that gives a process another clock; empty without."""
    return next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")  # noqa: PTH207


# --------------------------------------------------------------------------------------------------
# The way to etcd, and its members.


async def cut(scene: Scene) -> None:
    replica = scene.replica()
    with scene.fault("cut between a replica and etcd", replica.name, [replica.name]):
        await _without_ways(scene, replica, silently=False)


async def stall(scene: Scene) -> None:
    replica = scene.replica()
    with scene.fault("stall between a replica and etcd", replica.name, [replica.name]):
        await _without_ways(scene, replica, silently=True)


async def _without_ways(
    scene: Scene, replica: Replica, *, silently: bool, lasts: tuple[float, float] = (2, 12)
) -> None:
    ways = scene.cluster.store.ways[replica.name]
    for way in ways:
        if silently:
            way.cut()
        else:
            way.refuse()
    try:
        await scene.last(*lasts)
    finally:
        for way in ways:
            way.mend()


async def freeze_member(scene: Scene) -> None:
    member = scene.chance.choice(scene.cluster.store.members)
    with scene.fault("freeze of one etcd member of three", member.endpoint):
        await _frozen(scene, [member], 16, 18)


async def kill_member(scene: Scene) -> None:
    member = scene.chance.choice(scene.cluster.store.members)
    with scene.fault("kill -9 of one etcd member of three", member.endpoint):
        member.kill()
        await scene.last(1, 6)
        await asyncio.to_thread(member.start)


async def freeze_etcd(scene: Scene) -> None:
    members = scene.cluster.store.members
    frozen = scene.chance.sample(list(members), len(members) // 2 + 1)
    with scene.fault("freeze of etcd's quorum", "etcd", scene.cluster.names):
        await _frozen(scene, frozen, 2, 8)


async def _frozen(scene: Scene, members: Sequence[EtcdServer], low: float, high: float) -> None:
    for member in members:
        await asyncio.to_thread(member.pause)
    try:
        await scene.last(low, high)
    finally:
        for member in members:
            member.resume()


async def kill_etcd(scene: Scene) -> None:
    with scene.fault("kill -9 of all etcd members", "etcd", scene.cluster.names):
        scene.cluster.store.stop()
        await scene.last(0.1, 3)
        await scene.cluster.store.start()


async def restore_etcd(scene: Scene) -> None:
    """Put etcd's folders back to what they were some seconds before, under running replicas."""
    with scene.fault("restore of etcd", "etcd", scene.cluster.names):
        await _restore_etcd(scene)


async def restore_etcd_unseen(scene: Scene) -> None:
    """The same while a replica is cut off, which sees etcd again when it has grown past it."""
    unaware = scene.replica()
    with scene.fault("restore of etcd that a replica did not see", "etcd", scene.cluster.names):
        await _restore_etcd(scene, unaware)


async def _restore_etcd(scene: Scene, unaware: Replica | None = None) -> None:
    store, history = scene.cluster.store, scene.history
    ways = store.ways[unaware.name] if unaware else []
    store.stop()
    backup, copy = history.now(), store.folder.with_name("backup")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store.folder, copy)
    await store.start()
    await scene.last(2, 3)
    for way in ways:
        way.refuse()
    store.stop()
    for member in copy.iterdir():
        shutil.rmtree(store.folder / member.name / "data")
        shutil.copytree(member / "data", store.folder / member.name / "data")
    await store.start()
    if unaware:
        await scene.last(12, 14)  # long enough to write more than was lost
    history.add(Restore(backup, history.now()))
    for way in ways:
        way.mend()


# --------------------------------------------------------------------------------------------------
# SQLite and its disk.


async def restore_sqlite(scene: Scene) -> None:
    """Do as docs/store.md tells: a backup while servers run, put in place once they stopped."""
    history, replicas = scene.history, scene.cluster.replicas
    file, copy = scene.cluster.store.folder / "store.sqlite", scene.cluster.store.folder / "backup"
    with scene.fault("restore of SQLite", "sqlite", scene.cluster.names):
        copy.unlink(missing_ok=True)
        backup = history.now()
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("VACUUM INTO ?", [str(copy)])
        await scene.last(2, 4)
        for replica in replicas:
            await _stop(scene, replica)
        for path in (file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
            path.unlink(missing_ok=True)
        copy.replace(file)
        file.chmod(0o600)
        await asyncio.gather(*(scene.start(replica) for replica in replicas))
        history.add(Restore(backup, history.now()))


async def damage_sqlite(scene: Scene) -> None:
    """Flip a bit of what is stored while no replica runs; none may serve on that."""
    replicas, file = scene.cluster.replicas, scene.cluster.store.folder / "store.sqlite"
    with scene.fault("damaged byte of SQLite", "sqlite", scene.cluster.names):
        for replica in replicas:
            await _stop(scene, replica)
        key, value = _part_of_an_entry(file, scene.chance)
        sound = file.read_bytes()
        damaged = bytearray(sound)
        for found in re.finditer(re.escape(key + value), sound):  # pages may have older ones
            damaged[found.end() - scene.chance.randint(1, len(value))] ^= 1
        file.write_bytes(damaged)
        replica = scene.replica()
        replica.launch()
        if await replica.is_ready(_REFUSAL_S):
            text = "was ready with a file of which a byte is damaged"
            scene.history.add(Note(scene.history.now(), replica.name, text))
        replica.kill()
        file.write_bytes(sound)
        await asyncio.gather(*(scene.start(replica) for replica in replicas))


def _part_of_an_entry(file: Path, chance: random.Random) -> tuple[bytes, bytes]:
    """Return the key of a registration and how its value begins, which stand side by side."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT key, value FROM entries WHERE key LIKE 'registrations/%'"
        key, value = chance.choice(connection.execute(query).fetchall())
    return key.encode(), value[:_SAMPLE_BYTES]


async def fill_disk(scene: Scene) -> None:
    with scene.fault("full disk of SQLite", "sqlite"), _full(scene):
        await scene.last(3, 8)


async def start_on_full_disk(scene: Scene) -> None:
    replica = scene.replica()
    with scene.fault("start on a full disk of SQLite", replica.name):
        with _full(scene):
            replica.kill()
            replica.launch()
            await replica.is_ready(8)
            if replica.has_ended:
                text = "ended instead of serving what a full disk holds"
                scene.history.add(Note(scene.history.now(), replica.name, text))
        if replica.has_ended:
            await scene.start(replica)
        elif not await replica.is_ready(START_S):
            text = f"was not ready within {START_S:.0f} s of there being room"
            scene.history.add(Note(scene.history.now(), replica.name, text))


@contextmanager
def _full(scene: Scene) -> Generator[None]:
    disk = SmallDisk(scene.cluster.store.folder)
    disk.fill()
    try:
        yield
    finally:
        disk.free()


# --------------------------------------------------------------------------------------------------
# The upstream.


async def upstream_dies(scene: Scene) -> None:
    with scene.fault("death of an upstream", "upstream"):
        scene.upstream.die()
        await scene.last(3, 10)
        scene.upstream.live()


async def upstream_hangs(scene: Scene) -> None:
    with scene.fault("an upstream that answers nothing", "upstream"):
        scene.upstream.hang()
        await scene.last(3, 10)
        scene.upstream.live()


async def upstream_is_empty(scene: Scene) -> None:
    with scene.fault("one empty answer of an upstream", "upstream"):
        scene.upstream.be_empty(1)
        await scene.last(3, 4)


async def upstream_dies_unheard(scene: Scene) -> None:
    """A replica that is cut off cannot hear of it, and has to say that it does not know."""
    replica = scene.replica()
    with scene.fault("death of an upstream, unheard", replica.name, [replica.name]):
        scene.upstream.die()
        began = scene.history.now()
        await _without_ways(scene, replica, silently=scene.chance.random() < 0.5, lasts=(80, 85))
        scene.history.add(Outage(UPSTREAM, began, scene.history.now()))
        scene.upstream.live()


async def upstream_dies_with_poller(scene: Scene) -> None:
    """Whoever starts meanwhile has to know the groups of the dead from the store."""
    with scene.fault("kill -9 of all replicas while an upstream is dead", "all"):
        scene.upstream.die()
        for replica in scene.cluster.replicas:
            replica.kill()
        await asyncio.gather(*(scene.start(replica) for replica in scene.cluster.replicas))
        await scene.last(1, 4)
        scene.upstream.live()


# --------------------------------------------------------------------------------------------------

_ANYWHERE: Sequence[Injection] = (
    kill,
    kill_all,
    restart,
    freeze,
    upstream_dies,
    upstream_hangs,
    upstream_is_empty,
    upstream_dies_with_poller,
)
_ETCD: Sequence[Injection] = (cut, stall, freeze_etcd, kill_etcd, restore_etcd, restore_etcd_unseen)
_ETCD_OF_THREE: Sequence[Injection] = (freeze_member, kill_member)
_DISK: Sequence[Injection] = (fill_disk, start_on_full_disk)


def injections(kind: str, *, disk: bool, long: bool = False) -> list[Injection]:
    """Return what can be broken with a kind of store.

    Args:
        kind: Of store.
        disk: Whether it has a small disk of its own.
        long: Whether that may take minutes.
    """
    found = [*_ANYWHERE, *([shift_clock] if faketime_library() else [])]
    if kind == "sqlite":
        return [*found, restore_sqlite, damage_sqlite, *(_DISK if disk else ())]
    unheard = [upstream_dies_unheard] if long else []
    return [*found, *_ETCD, *(_ETCD_OF_THREE if kind == "etcd-3" else ()), *unheard]
