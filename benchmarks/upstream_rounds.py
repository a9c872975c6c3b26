"""What it costs to ask a hundred API servers again that have nothing new."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
from plain_http import V2_JSON, get
from processes import Failed, Served, ask, child_command, cpu_s, read_line, running, serving
from report import Clock, Row
from startup import memory_row, read_each_representation

UPSTREAMS, GROUPS = 100, 50
BUDGET_CPU_S = 0.5

_POLL_INTERVAL_S = 1
_ROUNDS = 8
_GIVE_UP_S = 60.0


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield the rows of the first round, of later ones, and of memory."""
    title = f"{UPSTREAMS} upstreams x {GROUPS} groups"
    if clock.out():
        yield Row("upstreams", title, "", skipped="out of time")
        return
    store = f"sqlite:{folder / 'upstreams.sqlite'}"
    with running(child_command("upstreams", str(UPSTREAMS), str(GROUPS)), piped=True) as fake:
        config = _config(folder, read_line(fake)["ports"])
        flags = ("--store", store, "--config", config)
        with serving(folder, *flags) as served:
            began = time.perf_counter() - served.start_s
            yield _first_row(title, served, fake, began)
            yield _documents_row(title, served, fake, began)
            _until(fake, "not_modified", 2 * UPSTREAMS)
            yield _rounds_row(title, served, fake)
            yield memory_row("upstreams", f"memory, {title}", served)
            read_each_representation(served)
            name = f"memory, {title}, each representation served once"
            yield memory_row("upstreams", name, served)
        with serving(folder, *flags) as served:
            yield _restart_row(title, served)


def _config(folder: Path, ports: object) -> Path:
    if not isinstance(ports, list):
        raise Failed(f"want ports, got {ports!r}")
    upstreams = {
        f"u{place:03d}": {
            "url": f"http://127.0.0.1:{port}",
            "poll-interval": f"{_POLL_INTERVAL_S}s",
            "openapi-interval": f"{_POLL_INTERVAL_S}s",
        }
        for place, port in enumerate(ports)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    }
    file = folder / "upstreams.yaml"
    # JSON is YAML.
    file.write_bytes(orjson.dumps({"catalog": "none", "upstreams": upstreams}))
    return file


def _groups(served: Served) -> int:
    answer = get(served.http, "/apis", {"accept": V2_JSON})
    return len(orjson.loads(answer.body)["items"])


def _first_row(title: str, served: Served, fake: subprocess.Popen[bytes], began: float) -> Row:
    """Wait until every group is there."""
    _until(fake, "apis", UPSTREAMS)
    while (found := _groups(served)) < UPSTREAMS * GROUPS:
        if time.perf_counter() - began > _GIVE_UP_S:
            raise Failed(f"{found} groups after {_GIVE_UP_S:.0f} s, want {UPSTREAMS * GROUPS}")
        time.sleep(0.1)
    took = time.perf_counter() - began
    computed = cpu_s(served.pid)
    sent = _counts(fake)["sent"]
    measured = f"all served after {took:.1f} s, {computed:.1f} CPU-s, {sent / 1e6:.1f} MB"
    numbers: dict[str, object] = {"seconds": took, "cpu_s": computed, "bytes": sent}
    return Row("upstreams", f"{title}: start, all new", "", measured, numbers=numbers)


def _documents_row(title: str, served: Served, fake: subprocess.Popen[bytes], began: float) -> Row:
    """Wait until every OpenAPI document has been fetched, and looked for once more."""
    _until(fake, "documents", UPSTREAMS * GROUPS)
    took, computed = time.perf_counter() - began, cpu_s(served.pid)
    _until(fake, "indexes", _counts(fake)["indexes"] + 2 * UPSTREAMS)
    fetched = _counts(fake)["documents"]
    if fetched != UPSTREAMS * GROUPS:
        raise Failed(f"{fetched} documents were fetched, want {UPSTREAMS * GROUPS}")
    measured = f"{fetched} there after {took:.1f} s, {computed:.1f} CPU-s"
    numbers: dict[str, object] = {"seconds": took, "cpu_s": computed, "documents": fetched}
    return Row("upstreams", f"{title}: start, OpenAPI documents", "", measured, numbers=numbers)


def _rounds_row(title: str, served: Served, fake: subprocess.Popen[bytes]) -> Row:
    before, computed_before = _counts(fake), cpu_s(served.pid)
    _until(fake, "apis", before["apis"] + _ROUNDS * UPSTREAMS)
    after, computed_after = _counts(fake), cpu_s(served.pid)
    grown = {name: after[name] - before[name] for name in after}
    # An index of documents is never said to be the same, as by kube-apiserver.
    if grown["not_modified"] + grown["indexes"] != grown["requests"] or not grown["indexes"]:
        raise Failed(f"{title}: {grown} while nothing changed")
    rounds = grown["apis"] / UPSTREAMS
    computed = (computed_after - computed_before) / rounds
    sent, received = grown["received"] / rounds / 1e3, grown["sent"] / rounds / 1e3
    numbers: dict[str, object] = {
        "rounds": rounds,
        "cpu_s": computed,
        "bytes_sent": sent * 1e3,
        "bytes_received": received * 1e3,
        "requests": grown["requests"] / rounds,
        "new_connections": grown["connections"],
    }
    return Row(
        "upstreams",
        f"{title}: a round, all unchanged",
        f"<= {BUDGET_CPU_S} CPU-s",
        f"{computed:.3f} CPU-s; {grown['requests'] / rounds:.0f} requests, {sent:.0f} kB sent, "
        f"{received:.0f} kB received",
        passed=computed <= BUDGET_CPU_S,
        numbers=numbers,
    )


def _restart_row(title: str, served: Served) -> Row:
    """Tell how long it takes until what was last known is served, from the store."""
    found = _groups(served)
    if found != UPSTREAMS * GROUPS:
        raise Failed(f"{found} groups after a restart, want {UPSTREAMS * GROUPS}")
    numbers: dict[str, object] = {"seconds": served.start_s}
    measured = f"{served.start_s:.2f} s"
    return Row("upstreams", f"{title}: restart to ready", "", measured, numbers=numbers)


def _until(fake: subprocess.Popen[bytes], name: str, count: int) -> None:
    deadline = time.monotonic() + _GIVE_UP_S
    while (found := _counts(fake)[name]) < count:
        if time.monotonic() > deadline:
            raise Failed(f"{name}: {found} after {_GIVE_UP_S:.0f} s, want {count}")
        time.sleep(0.05)


def _counts(fake: subprocess.Popen[bytes]) -> dict[str, int]:
    return {name: int(str(value)) for name, value in ask(fake, "count").items()}
