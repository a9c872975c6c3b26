"""Runs rounds: replicas under traffic and faults, whose histories are checked afterwards."""

import asyncio
import random
import re
import shutil
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
from small_disk import NoSmallDisk, mounted_disk

from tests.robustness import cluster, documents, faults, fleet, traffic
from tests.robustness.checker import Violation, check
from tests.robustness.faults import Injection, Scene
from tests.robustness.history import Calm, Fault, History, Note, Read, Write
from tests.robustness.upstream import GROUP, Upstream

# How long after the last fault replicas may take to serve the same.
PATIENCE_S = 30.0

REPLICAS = {"etcd-3": 3, "sqlite": 2, "etcd-1": 2}
_FIXED = "fixed.robust.test"
_FIXED_VALUE = "opfixed"
_DISK_SIZE = "24m"
_LEASE = (4.0, 4.0, 14.0)
_LOOK_EVERY_S = 0.1
_LOG_LIMIT = 2000
_TRACEBACK = re.compile(r"^Traceback .*\n(?:[ \t].*\n)*.*", re.MULTILINE)
_CALLER_HAS_GONE = re.compile(
    r"Traceback .*\n"
    r'(?:  File "src/python/grpcio/grpc/_cython/.*\n)+'
    r"(?:asyncio\.exceptions\.CancelledError|grpc\._cython\.cygrpc\.ExecuteBatchError: .*)"
)


@dataclass(frozen=True, slots=True)
class Round:
    """What a round was and what came of it.

    Attributes:
        kept: Where its history and logs are, when they were kept.
        failed: Why it could not be carried out.
    """

    kind: str
    seed: int
    history: History
    violations: Sequence[Violation]
    kept: Path | None = None
    failed: str = ""


def run_round(
    kind: str, seed: int, seconds: float, only: Sequence[Injection] = (), *, long: bool = False
) -> Round:
    """Run one round in a temporary folder, which is kept if anything is wrong.

    Args:
        kind: Of store: `sqlite`, or `etcd-N`.
        seed: Chooses the faults and what clients do.
        seconds: About how long; a fault that has begun is carried out.
        only: What to break, if not anything.
        long: Whether to break also what takes minutes to be noticed.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"robustness-{kind}-{seed}-"))
    history = History({"kind": kind, "seed": seed, "replicas": REPLICAS[kind]})
    failed = ""
    with ExitStack() as stack:
        data = folder / "store"
        data.mkdir()
        disk = kind == "sqlite"
        if disk:
            try:
                stack.enter_context(mounted_disk(data, _DISK_SIZE))
            except NoSmallDisk as error:
                disk = False
                print(f"no full disk in this round: {error}")  # noqa: T201
        possible = [*only] or faults.injections(kind, disk=disk, long=long)
        try:
            asyncio.run(_carry_out(folder, kind, history, seed, seconds, possible))
        except Exception:  # noqa: BLE001 - whatever it was, the history has to be kept
            failed = traceback.format_exc()
    violations = check(history)
    history.save(folder / "history.jsonl")
    if violations or failed:
        return Round(kind, seed, history, violations, folder, failed)
    shutil.rmtree(folder)
    return Round(kind, seed, history, violations)


async def _carry_out(  # noqa: PLR0913, PLR0917 - what `run_round` has made ready
    folder: Path,
    kind: str,
    history: History,
    seed: int,
    seconds: float,
    possible: Sequence[Injection],
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    with Upstream() as upstream:
        async with (
            fleet.flapping(history) as clusters,
            cluster.running(
                folder, kind, REPLICAS[kind], _config(folder, upstream, clusters)
            ) as replicas,
            traffic.targets_of(replicas.replicas) as targets,
            httpx2.AsyncClient(trust_env=False, timeout=traffic.CALL_S) as http,
        ):
            scene = Scene(history, replicas, upstream, chance)
            shared = traffic.Traffic(history, targets, seed)
            await _calm(scene, shared, http, clusters, "start")
            _begin(history)
            load = [*_load(shared), clusters.flap(seed)]
            load.append(fleet.read(history, replicas.replicas, seed, 30))
            load.append(fleet.look(history, replicas.replicas, seed, 10))
            async with traffic.clients(load):
                order, until = list[Injection](), history.now() + seconds
                while history.now() < until:
                    order = order or chance.sample(list(possible), len(possible))
                    await asyncio.sleep(chance.uniform(1, 2))
                    upstream.value = shared.value()
                    history.add(_told(upstream.value, history.now()))
                    await order.pop()(scene)
                    await _calm(scene, shared, http, clusters, _last_fault(history))
            _look_into_logs(history, replicas.replicas)


def _config(folder: Path, upstream: Upstream, clusters: fleet.Fleet) -> Path:
    manifests = folder / "manifests"
    manifests.mkdir()
    (manifests / "fixed.json").write_bytes(documents.definition(_FIXED, _FIXED_VALUE))
    config = folder / "config.yaml"
    config.write_text(upstream.config([manifests], others=clusters.config), encoding="utf-8")
    return config


def _begin(history: History) -> None:
    """Record what was there before anybody wrote: it has to stay."""
    for client, group, value in (
        ("file", _FIXED, _FIXED_VALUE),
        ("upstream", GROUP, documents.value(0)),
    ):
        history.add(Write(client, "", "put", group, value, 0.0, history.now(), "ok"))


def _told(value: str, now: float) -> Write:
    """Return the record of an upstream that says something else, which nobody acknowledges."""
    return Write("upstream", "", "put", GROUP, value, now, now, "unknown")


def _load(shared: traffic.Traffic) -> list[traffic.Work]:
    work = list[traffic.Work]()
    together = [traffic.Key(f"k{k}.all.robust.test", is_definition=k % 2 == 0) for k in range(2)]
    for number in range(3):
        own = [
            traffic.Key(f"k{k}.w{number}.robust.test", is_definition=k % 2 == 0) for k in range(6)
        ]
        work.append(traffic.write(shared, f"w{number}", own, 6))
        same = [traffic.Key(key.group, is_definition=key.is_definition) for key in together]
        work.append(traffic.write(shared, f"c{number}", same, 1))
    for target in shared.targets:
        work.append(traffic.read(shared, f"reader of {target.name}", target, 10))
        work.append(traffic.watch(shared, f"watcher of {target.name}", [target]))
    for number in range(2):
        work.append(traffic.watch(shared, f"hopper {number}", shared.targets, lasts_s=7))
        work.append(traffic.get(shared, f"getter {number}", 5))
    work.append(traffic.renew(shared, "lease.robust.test", *_LEASE))
    return work


async def _calm(
    scene: Scene,
    shared: traffic.Traffic,
    http: httpx2.AsyncClient,
    clusters: fleet.Fleet,
    after: str,
) -> None:
    """Stop writing, and wait until all replicas serve the same."""
    clusters.calm()
    history = scene.history
    traffic.see_ends(history, scene.cluster.replicas)
    for replica in scene.cluster.replicas:
        if replica.has_ended:
            await scene.start(replica)
    began = history.now()
    await shared.quiet()
    detail = "?"
    while detail and history.now() < began + PATIENCE_S:
        answers = [
            await traffic.ask(history, "calm", http, replica, traffic.AGGREGATED)
            for replica in scene.cluster.replicas
        ]
        detail = history.difference(answers) or _about_upstream(history, answers, scene.upstream)
        await asyncio.sleep(_LOOK_EVERY_S if detail else 0)
    history.add(Calm(after, began, history.now(), not detail, detail))
    shared.writes.set()
    clusters.resume()


def _about_upstream(history: History, answers: Sequence[Read], upstream: Upstream) -> str:
    """Return what is wrong with the upstream's group, which lives: the same everywhere."""
    content = history.contents[answers[0].content]
    shown = content.values.get(GROUP)
    if shown != upstream.value:
        return f"{GROUP} shows {shown}, its upstream says {upstream.value}"
    return f"{GROUP} is Stale, its upstream lives" if GROUP in content.stale else ""


def _last_fault(history: History) -> str:
    return history.of(Fault)[-1].name


def _look_into_logs(history: History, replicas: Sequence[cluster.Replica]) -> None:
    for replica in replicas:
        text = replica.log.read_text(encoding="utf-8", errors="replace")
        for found in tracebacks(text)[:1]:
            words = f"a traceback in the log:\n{found[:_LOG_LIMIT]}"
            history.add(Note(history.now(), replica.name, words))


def tracebacks(log: str) -> list[str]:
    """Return the tracebacks in a log, without those that grpc writes when a caller has gone.

    It has two for that, without a line of ours: a call is cancelled before it began, and an answer
    finds nobody who has not said so yet (grpc/_cython/_cygrpc/aio/server.pyx.pxi,
    `_schedule_rpc_coro` and `_handle_exceptions`).
    """
    found = [match.group() for match in _TRACEBACK.finditer(log)]
    return [one for one in found if not _CALLER_HAS_GONE.fullmatch(one)]
