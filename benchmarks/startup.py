"""From the start of the process to ready, and the memory that it then takes."""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import orjson
import yaml
from apidiscovery.service.v1 import discovery_pb2
from children import METHOD, UNLIMITED
from documents import groups, manifest
from plain_http import V2_JSON, Connection
from processes import Served, memory_mb, serving
from report import Clock, Point, Row

GROUPS = 3000
MEMORY_MB = 150.0

_SERIALIZERS = ("json", "yaml", "vnd.kubernetes.protobuf")
_CODINGS = ("identity", "gzip", "zstd")


def measure(folder: Path, repeats: int, clock: Clock) -> Iterator[Row]:
    """Yield the rows of start-up, then those of memory."""
    content = groups(GROUPS, 1)
    json_file, yaml_file = folder / "3000.json", folder / "3000.yaml"
    json_file.write_bytes(manifest(content))
    document = orjson.loads(json_file.read_bytes())
    yaml_file.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), encoding="utf-8")
    title = f"start to ready, {GROUPS} groups x 1"
    starts: tuple[tuple[str, list[str | Path]], ...] = (
        (f"{title}, one JSON file", ["--manifests", json_file]),
        (f"{title}, one YAML file", ["--manifests", yaml_file]),
        ("start to ready, catalogue alone", ["--catalog", "kubernetes"]),
    )
    for name, flags in starts:
        if clock.out():
            yield Row("start", name, "", skipped="out of time")
            continue
        yield _start_row(folder, name, flags, repeats)
    yield from _memory_rows(folder, json_file)


def _start_row(folder: Path, name: str, flags: list[str | Path], repeats: int) -> Row:
    times: list[float] = []
    for _ in range(repeats):
        with serving(folder, *flags) as served:
            times.append(served.start_s)
    measured = f"best {min(times):.2f} s, median {statistics.median(times):.2f} s"
    return Row("start", name, "", measured, numbers={"seconds": times})


def _memory_rows(folder: Path, file: Path) -> Iterator[Row]:
    title = f"memory, {GROUPS} groups x 1"
    with serving(folder, "--manifests", file) as served:
        yield memory_row("start", f"{title}, when ready", served, budget=True)
        read_each_representation(served)
        name = f"{title}, each representation served once"
        yield memory_row("start", name, served, budget=True)
        _read_as_a_legacy_client(served)
        yield memory_row("start", f"{title}, and each group's resource list", served)


def memory_row(
    section: str, name: str, served: Served, *, budget: bool = False, point: Point | None = None
) -> Row:
    """Return the row of what a server takes now."""
    memory = memory_mb(served.pid)
    return Row(
        section,
        name,
        f"< {MEMORY_MB:.0f} MB" if budget else "",
        f"RSS {memory['Rss']:.0f} MB, PSS {memory['Pss']:.0f} MB",
        passed=memory["Rss"] < MEMORY_MB if budget else None,
        numbers=dict(memory),
        point=replace(point, value=memory["Rss"]) if point else None,
    )


def read_each_representation(served: Served) -> None:
    """Ask once for everything that can be asked of the named groups."""
    connection = Connection(served.http)
    for coding in _CODINGS:
        for serializer in _SERIALIZERS:
            plain = f"application/{serializer}"
            v2 = V2_JSON.replace("application/json", plain)
            for accept in (v2, v2.replace("v=v2", "v=v2beta1"), plain):
                connection.get("/apis", {"accept": accept, "accept-encoding": coding})
        connection.get("/apis?pretty=1", {"accept": V2_JSON, "accept-encoding": coding})
    connection.close()
    with grpc.insecure_channel(served.grpc, options=UNLIMITED) as channel:
        call = channel.unary_unary(
            METHOD,
            discovery_pb2.GetDiscoveryRequest.SerializeToString,
            discovery_pb2.GetDiscoveryResponse.FromString,
        )
        call(discovery_pb2.GetDiscoveryRequest())


def _read_as_a_legacy_client(served: Served) -> None:
    connection = Connection(served.http)
    for group in groups(GROUPS, 1):
        connection.get(f"/apis/{group.name}/v1", {"accept": "application/json"})
    connection.close()
