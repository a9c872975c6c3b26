# pyright: reportUnknownMemberType=false
"""Mixed load on one server for as long as is wanted, while its resident memory is measured."""

import asyncio
import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import click
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.robustness import traffic
from tests.robustness.cluster import Replica, rss_bytes, running
from tests.robustness.documents import Told
from tests.robustness.history import History, Record, Values
from tests.robustness.upstream import Upstream

_EVERY_S = 5.0
_MB = 1e6
_PROTOBUF = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"


def _nothing(_body: bytes) -> Told:
    return Told({})


class _Forgetting(History):
    """Keeps nothing: only the server's memory is looked at."""

    def add(self, record: Record) -> None:
        """Forget it."""

    def content(self, values: Values, stale: tuple[str, ...] = ()) -> str:
        del values, stale
        return ""


async def soak(folder: Path, kind: str, minutes: float, table: Path) -> None:
    """Run one server under mixed load and write its memory to a table, line by line.

    Args:
        folder: Where the server keeps its store and log.
        kind: `sqlite`, or `etcd-N` for etcd of N members.
        minutes: How long.
        table: CSV of seconds and megabytes of 10^6.
    """
    with Upstream() as upstream:
        config = folder / "config.yaml"
        config.write_text(upstream.config(catalog="kubernetes"), encoding="utf-8")
        async with (
            running(folder, kind, 1, config) as cluster,
            traffic.targets_of(cluster.replicas) as targets,
        ):
            shared = traffic.Traffic(_Forgetting(), targets, seed=1)
            async with traffic.clients(_load(shared, upstream)):
                await _measure(cluster.replicas[0], minutes * 60, table)


# What is asked for rarely, and costs most.
_LARGE = (
    traffic.Form("OpenAPI v2", "/openapi/v2", "application/json", _nothing),
    traffic.Form("a document", "/openapi/v3/apis/apps/v1", "application/json", _nothing),
    traffic.Form("a protobuf document", "/openapi/v3/api/v1", _PROTOBUF, _nothing),
)


def _load(shared: traffic.Traffic, upstream: Upstream) -> list[traffic.Work]:
    (target,) = shared.targets
    work = list[traffic.Work]()
    for number in range(4):
        keys = [
            traffic.Key(f"k{k}.w{number}.robust.test", is_definition=k % 2 == 0) for k in range(25)
        ]
        work += [
            traffic.write(shared, f"w{number}", keys, 2),
            traffic.read(shared, f"h{number}", target, 5),
            traffic.get(shared, f"g{number}", 2),
            traffic.watch(shared, f"s{number}", [target], lasts_s=20 * (number + 1)),
        ]
    work.append(traffic.read(shared, "large", target, 0.3, _LARGE))
    work.append(traffic.renew(shared, "lease.robust.test", 4, 4, 12))
    work.append(upstream.change_forever(30))
    return work


async def _measure(replica: Replica, seconds: float, table: Path) -> None:
    began = time.monotonic()
    with table.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["seconds", "megabytes"])
        while (passed := time.monotonic() - began) < seconds:
            if replica.has_ended:
                raise click.ClickException(f"the server has ended; its log is {replica.log}")
            rows.writerow([f"{passed:.0f}", f"{rss_bytes(replica.pid) / _MB:.1f}"])
            stream.flush()
            await asyncio.sleep(_EVERY_S)


async def soak_all(folder: Path, kinds: Sequence[str], minutes: float) -> None:
    """Run one server on each kind of store, at the same time; `KIND.csv` has what was measured."""
    for kind in kinds:
        (folder / kind).mkdir()
    await asyncio.gather(
        *(soak(folder / kind, kind, minutes, folder / f"{kind}.csv") for kind in kinds)
    )


Curve: TypeAlias = Sequence[tuple[float, float]]


def read_table(table: Path) -> Curve:
    """Return seconds and megabytes, in order."""
    with table.open(encoding="utf-8", newline="") as stream:
        return [(float(row["seconds"]), float(row["megabytes"])) for row in csv.DictReader(stream)]


def levels(curves: Mapping[str, Curve]) -> str:
    """Return in words how memory grew in each tenth of the time."""
    lines = list[str]()
    for kind, curve in curves.items():
        tenth = max(1, -(-len(curve) // 10))
        means = [
            sum(size for _, size in part) / len(part)
            for part in (curve[place : place + tenth] for place in range(0, len(curve), tenth))
        ]
        lines.append(f"{kind}, MB in each tenth: " + " ".join(f"{mean:.0f}" for mean in means))
    return "\n".join(lines)


def draw(curves: Mapping[str, Curve], picture: Path) -> None:
    """Draw resident memory over time."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes: Axes = figure.subplots()
    for kind, curve in curves.items():
        minutes, sizes = [at / 60 for at, _ in curve], [size for _, size in curve]
        axes.plot(minutes, sizes, linewidth=0.8, label=kind)
    axes.set_xlabel("minutes of mixed load")
    axes.set_ylabel("resident memory, MB")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(picture, dpi=110, metadata={"Software": None})
