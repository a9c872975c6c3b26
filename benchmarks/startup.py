"""From start to ready, memory, and how long commands take beside kubectl."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import grpc
import orjson
import yaml
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from apidiscovery_client.testing import FakeApiServer
from children import UNLIMITED
from documents import groups, manifest
from plain_http import V2_JSON, Connection
from processes import Failed, Served, cpu_s, memory_mb, serving
from report import Clock, Point, Row

GROUPS = 3000
MEMORY_MB = 150.0

_IDLE_S = 20.0

_SERIALIZERS = ("json", "yaml", "vnd.kubernetes.protobuf")
_CODINGS = ("identity", "gzip", "zstd")

_COMMAND = Path(sys.executable).with_name("apidiscovery")
_COMMAND_RATIO = 2.0  # times that of kubectl
_COMMANDS = (("api-resources",), ("api-resources", "-o", "wide"), ("api-versions",))


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
    yield _idle_row(folder)
    yield from _memory_rows(folder, json_file)


def _start_row(folder: Path, name: str, flags: list[str | Path], repeats: int) -> Row:
    times: list[float] = []
    for _ in range(repeats):
        with serving(folder, *flags) as served:
            times.append(served.start_s)
    measured = f"best {min(times):.2f} s, median {statistics.median(times):.2f} s"
    return Row("start", name, "", measured, numbers={"seconds": times})


def _idle_row(folder: Path) -> Row:
    with serving(folder, "--store", f"sqlite:{folder / 'idle.sqlite'}") as served:
        time.sleep(_IDLE_S / 4)  # what follows the start is no idling
        before_s = cpu_s(served.pid)
        time.sleep(_IDLE_S)
        share = (cpu_s(served.pid) - before_s) / _IDLE_S
    name = "CPU of a server that nobody asks, catalogue alone"
    return Row("start", name, "", f"{share:.1%} of a core", numbers={"share": share})


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
    """Return the row of a server's current memory."""
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
    """Request each representation of the named groups once."""
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
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest())


def _read_as_a_legacy_client(served: Served) -> None:
    connection = Connection(served.http)
    for group in groups(GROUPS, 1):
        connection.get(f"/apis/{group.name}/v1", {"accept": "application/json"})
    connection.close()


def measure_commands(folder: Path, repeats: int, clock: Clock) -> Iterator[Row]:
    """Yield a row for each command: ours and kubectl's run in turns, with warm caches."""
    kubectl = shutil.which("kubectl")
    environment = _environment(folder)
    with FakeApiServer() as server:
        for command in _COMMANDS:
            name = f"{' '.join(command)}, start to end"
            if kubectl is None or clock.out():
                yield Row("command", name, "", skipped="out of time" if kubectl else "no kubectl")
                continue
            args = (*command, "--server", server.url)
            both = [(str(_COMMAND), *args), (kubectl, *args)]
            ours, theirs = _taken(both, environment, repeats)
            yield _command_row(name, ours, theirs)


def _command_row(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    mine, kubectls = statistics.median(ours), statistics.median(theirs)
    ratio = mine / kubectls
    return Row(
        "command",
        name,
        f"<= {_COMMAND_RATIO} x kubectl",
        f"{mine:.0f} ms, kubectl {kubectls:.0f} ms: {ratio:.2f} x",
        passed=ratio <= _COMMAND_RATIO,
        numbers={"milliseconds": list(ours), "kubectl_milliseconds": list(theirs)},
    )


def _taken(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], repeats: int
) -> list[list[float]]:
    """Return the times of each command in milliseconds, without the first, which fills caches."""
    times: list[list[float]] = [[] for _ in commands]
    for turn in range(repeats + 1):
        for command, taken in zip(commands, times, strict=True):
            milliseconds = _run(command, environment)
            if turn:
                taken.append(milliseconds)
    return times


def _run(command: Sequence[str], environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    milliseconds = (time.perf_counter() - began) * 1e3
    if done.returncode:
        raise Failed(f"{command[0]}: {done.stderr.decode(errors='replace').strip()}")
    return milliseconds


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with separate caches for both, and with Python's bytecode cache."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    unwanted = ("PYTHONDONTWRITEBYTECODE", "KUBECONFIG", "KUBECACHEDIR")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    prefix = str(folder / f"bytecode-{sys.version_info[0]}.{sys.version_info[1]}")
    return {**kept, "HOME": str(home), "PYTHONPYCACHEPREFIX": prefix}
