"""What a fleet of a thousand clusters costs, and the API servers that it is made of.

The API servers run in one process, each on a port of its own, and answer what kube-apiservers of
ten releases were recorded to answer. One in twenty has a group of its own. Nothing is merged, and
OpenAPI documents are not polled: those of a thousand clusters are several gigabytes.

Clusters with many definitions are measured once more, until all are served. Their lists, which are
read then, are 130,000 requests: some minutes.
"""

import asyncio
import hashlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import cast

import orjson
from apidiscovery_releases import Release, releases
from children import lines, say
from documents import group, manifest
from plain_http import Connection as Client
from plain_http import get
from processes import (
    SERVER,
    Failed,
    Served,
    ask,
    child_command,
    cpu_s,
    memory_mb,
    read_line,
    running,
    serving,
)
from report import Clock, Row
from upstreams import (
    GROUP_LIST,
    RESOURCES,
    Connection,
    Counts,
    Page,
    list_page,
    listed_groups,
    plain_page,
)

CLUSTERS, KINDS, OWN_EVERY = 1000, 10, 20
# Of clusters with many definitions; the recorded releases have between 20 and 30.
GROUP_VERSIONS = 130
CONTEXTS, LATENCY_S = 200, 0.02

# The first cluster, which changes, is polled more often than the others.
_POLL_S, _FIRST_POLL_S = 60, 1
# Jitter makes rounds shorter by a twentieth.
_WINDOW_S = 57.0
_ROUNDS = _WINDOW_S / (_POLL_S * 0.95)
_LIMIT_S = 120.0
_CHANGES = 8
_QUIET_S, _QUIET_SHARE = 5, 0.2
_WARM_S = 1.0
# After each change the dialect of the cluster is asked for, also at `/apis`: the answer to that is
# not the one from which the next change is measured.
_DETAILS_S = 0.3
_TITLE = f"{CLUSTERS} clusters"
_LARGE_TITLE = f"{_TITLE} of {GROUP_VERSIONS} group-versions"
_MERGED_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Delayed(Connection):
    """A connection whose answers come later."""

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(LATENCY_S, super().data_received, data)


class Watched(dict[bytes, Page]):
    """Pages that note when `/apis` was first requested after a change."""

    taken_at = 0.0

    def get(self, key: bytes, default: Page | None = None) -> Page | None:  # type: ignore[override] # of one type
        if key == b"/apis" and not self.taken_at:
            self.taken_at = time.monotonic()
        return super().get(key, default)


def _aggregated(items: list[object]) -> Page:
    etag = hashlib.sha512(orjson.dumps(items)).hexdigest().upper()
    kind = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    body = orjson.dumps({**kind, "metadata": {}, "items": items})
    fields = f'etag: "{etag}"\r\nvary: Accept\r\ncache-control: public\r\n'
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {_MERGED_V2}\r\ncontent-length: {len(body)}\r\n"
    return Page(
        f'"{etag}"'.encode(),
        f"{head}{fields}\r\n".encode() + body,
        f"HTTP/1.1 304 Not Modified\r\n{fields}\r\n".encode(),
    )


def _group(name: str) -> dict[str, object]:
    resource = {
        "resource": "widgets",
        "responseKind": {"group": name, "version": "v1", "kind": "Widget"},
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": ["get", "list"],
    }
    versions = [{"version": "v1", "resources": [resource], "freshness": "Current"}]
    return {"metadata": {"name": name}, "versions": versions}


def _list_of(name: str) -> Page:
    """Return the unaggregated list of such a group."""
    resource = {"name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget"}
    content = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{name}/v1"}
    return plain_page(
        orjson.dumps({**content, "resources": [{**resource, "verbs": ["get", "list"]}]})
    )


def _pages(
    release: Release, kind: int, group_versions: int
) -> tuple[dict[bytes, Page], list[object]]:
    """Return what a kube-apiserver of a release answers, and the groups in its `/apis`.

    Args:
        release: The release.
        kind: Definitions of another kind of cluster differ in a category.
        group_versions: How many there are at least, with those of definitions.
    """
    version = release.aggregated_versions[0]
    defined = [
        group(number, RESOURCES, kind) for number in range(group_versions - len(release.list_paths))
    ]
    items = cast("list[object]", orjson.loads(release.aggregated("/apis", version))["items"])
    items += orjson.loads(manifest(defined))["items"]
    listed = orjson.loads(release.plain("/apis"))
    listed["groups"] += listed_groups(defined)
    pages = {
        b"/apis": _aggregated(items),
        b"/api": _aggregated(orjson.loads(release.aggregated("/api", version))["items"]),
        GROUP_LIST: plain_page(orjson.dumps(listed)),
        b"/version": plain_page(release.version_text),
        **{path.encode(): plain_page(release.plain(path)) for path in release.list_paths},
        **{f"/apis/{one.name}/v1".encode(): list_page(one) for one in defined},
    }
    return pages, items


async def serve(count: int, group_versions: int = 0, *, is_delayed: bool = False) -> None:
    """Serve until stdin ends; print the ports.

    Each has so many group-versions at least, or those of its release.

    For each line, which is a number, add a group of that number to the first cluster, and print the
    time on the monotonic clock at which that was first asked for; for `null` print the counts.
    """
    loop, counts = asyncio.get_running_loop(), Counts()
    kinds = [
        _pages(Release.read(name), kind, group_versions)
        for kind, name in enumerate(releases()[-KINDS:])
    ]
    ports: list[int] = []
    first, first_items = Watched(kinds[0][0]), list(kinds[0][1])
    for number in range(count):
        pages, items = kinds[number % KINDS]
        if number % OWN_EVERY == OWN_EVERY - 1:
            name = f"own-{number}.test"
            listed = {f"/apis/{name}/v1".encode(): _list_of(name)}
            pages = {**pages, b"/apis": _aggregated([*items, _group(name)]), **listed}
        of_one: Mapping[bytes, Page] = pages if number else first

        def connection(pages: Mapping[bytes, Page] = of_one) -> Connection:
            return (Delayed if is_delayed else Connection)(pages, counts)

        server = await loop.create_server(connection, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
    say(ports=ports)
    stdin = await lines()
    while line := await stdin.readline():
        number = orjson.loads(line)
        if number is None:
            say(**asdict(counts))
            continue
        name = f"new-{number}.test"
        first_items.append(_group(name))
        first[f"/apis/{name}/v1".encode()] = _list_of(name)
        first.taken_at = 0.0
        first[b"/apis"] = _aggregated(first_items)
        while not first.taken_at:  # noqa: ASYNC110 - another connection sets it
            await asyncio.sleep(0.001)
        say(at=first.taken_at)


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield the rows of a thousand clusters, and of the command over two hundred contexts."""
    if clock.out():
        yield Row("fleet", f"{CLUSTERS} clusters", "", skipped="out of time")
        return
    with running(child_command("fleet", str(CLUSTERS)), piped=True) as fake:
        file = config(folder, cast("list[int]", read_line(fake)["ports"]))
        with serving(folder, "--config", file) as served:
            yield _start(served, _TITLE)
            yield _round(served, fake)
            yield from _matrix(served)
            yield from _visible(served, fake)
            yield _memory(served, _TITLE)
    large = child_command("fleet", str(CLUSTERS), str(GROUP_VERSIONS))
    with running(large, piped=True) as fake:
        file = config(folder, cast("list[int]", read_line(fake)["ports"]))
        with serving(folder, "--config", file) as served:
            yield _start(served, _LARGE_TITLE)
            yield _memory(served, _LARGE_TITLE)
    with running(child_command("fleet-delayed", str(CONTEXTS)), piped=True) as fake:
        yield _command(folder, cast("list[int]", read_line(fake)["ports"]))


def config(folder: Path, ports: list[int], catalog: str = "none") -> Path:
    """Write a configuration with a cluster at each port, of which nothing is merged."""
    options = {"openapi": False, "merge": False}
    upstreams = {
        f"c{place:04d}": {
            "url": f"http://127.0.0.1:{port}",
            "poll-interval": f"{_POLL_S if place else _FIRST_POLL_S}s",
            **options,
        }
        for place, port in enumerate(ports)
    }
    file = folder / "fleet.json"
    file.write_bytes(orjson.dumps({"catalog": catalog, "upstreams": upstreams}))
    return file


def _until(condition: Callable[[], bool], what: str) -> float:
    """Wait until something holds; return the time on the monotonic clock."""
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {_LIMIT_S:.0f} s: {what}")
        time.sleep(0.002)
    return time.monotonic()


def _json(served: Served, path: str) -> dict[str, list[dict[str, object]]]:
    answer = get(served.http, path, {"accept": "application/json"})
    return cast("dict[str, list[dict[str, object]]]", orjson.loads(answer.body))


def until_known(served: Served) -> float:
    """Wait until every cluster has answered; return the time on the monotonic clock."""

    def is_known() -> bool:
        time.sleep(0.2)  # the question costs as well
        return all(
            one["freshness"] == "Current" for one in _json(served, "/fleet/clusters")["clusters"]
        )

    return _until(is_known, "every cluster is known")


def _start(served: Served, title: str) -> Row:
    began = time.monotonic() - served.start_s
    took = until_known(served) - began
    computed = cpu_s(served.pid)
    numbers: dict[str, object] = {"seconds": took, "cpu_s": computed}
    measured = f"all served after {took:.1f} s, {computed:.1f} CPU-s"
    return Row("fleet", f"{title}: start", "", measured, numbers=numbers)


def _is_settled(served: Served) -> bool:
    """Return whether the server has computed little for some seconds."""
    before = cpu_s(served.pid)
    time.sleep(_QUIET_S)
    return cpu_s(served.pid) - before < _QUIET_S * _QUIET_SHARE


def _round(served: Served, fake: subprocess.Popen[bytes]) -> Row:
    """Return the cost of one round of polls of all clusters, measured for a while."""
    _until(lambda: _is_settled(served), "every list is read")
    before, computed = ask(fake, None), cpu_s(served.pid)
    time.sleep(_WINDOW_S)
    after = ask(fake, None)
    grown = {name: int(str(after[name])) - int(str(before[name])) for name in after}
    spent = (cpu_s(served.pid) - computed) / _ROUNDS
    moved = (grown["received"] + grown["sent"]) / _ROUNDS / 1e6
    measured = f"{spent:.2f} CPU-s, {grown['requests'] / _ROUNDS:.0f} requests, {moved:.1f} MB"
    numbers: dict[str, object] = {"cpu_s": spent, "bytes": moved * 1e6}
    return Row(
        "fleet",
        f"{CLUSTERS} clusters: a round, all unchanged",
        "<= 5 CPU-s",
        measured,
        passed=spent <= 5,  # noqa: PLR2004 - the budget in the line above
        numbers=numbers,
    )


def _matrix(served: Served) -> Iterator[Row]:
    first = get(served.http, "/fleet/matrix", {"accept-encoding": "gzip"})
    etag = first.header("etag")
    client = Client(served.http)
    for name, headers in (
        ("200", {"accept-encoding": "gzip"}),
        ("304", {"accept-encoding": "gzip", "if-none-match": etag}),
    ):
        times: list[float] = []
        end = time.perf_counter() + _WARM_S
        while time.perf_counter() < end:
            began = time.perf_counter()
            client.get("/fleet/matrix", headers)
            times.append(time.perf_counter() - began)
        median = sorted(times)[len(times) // 2] * 1000
        measured = f"median {median:.2f} ms, {len(times) / _WARM_S:.0f}/s from one client"
        if name == "200":
            measured += f", {len(first.body) / 1e6:.2f} MB gzip"
        yield Row(
            "fleet",
            f"{CLUSTERS} clusters: /fleet/matrix, {name}",
            "<= 20 ms",
            measured,
            passed=median <= 20,  # noqa: PLR2004 - the budget in the line above
            numbers={"median_ms": median},
        )


def _visible(served: Served, fake: subprocess.Popen[bytes]) -> Iterator[Row]:
    """Add a group to one cluster; measure from its answer to the matrix and the view."""
    lags: dict[str, list[float]] = {"/fleet/matrix?group=%s": [], "/views/union/apis": []}
    for number in range(_CHANGES):
        path = list(lags)[number % 2]
        name = f"new-{number}.test"
        asked = path % name if "%s" in path else path
        client = Client(served.http)
        etag = client.get(asked, {"accept": _MERGED_V2}).header("etag")
        conditional = {"accept": _MERGED_V2, "if-none-match": etag}
        time.sleep(_DETAILS_S)
        answered = cast("float", ask(fake, number)["at"])

        def is_there(
            client: Client = client,
            asked: str = asked,
            name: str = name,
            conditional: Mapping[str, str] = conditional,
        ) -> bool:
            return f'"{name}"'.encode() in client.get(asked, conditional).body

        lags[path].append((_until(is_there, f"{name} is in {asked}") - answered) * 1000)
    for path, found in lags.items():
        median = sorted(found)[len(found) // 2]
        shown = path.partition("?")[0]
        yield Row(
            "fleet",
            f"{CLUSTERS} clusters: a definition in one, answered by it to visible in {shown}",
            "<= 20 ms",
            f"median {median:.1f} ms, largest {max(found):.1f} ms",
            passed=median <= 20,  # noqa: PLR2004 - the budget in the line above
            numbers={"lags_ms": found},
        )


def _memory(served: Served, title: str) -> Row:
    resident = memory_mb(served.pid)["Rss"]
    return Row(
        "fleet",
        f"{title}: memory",
        "<= 500 MB",
        f"{resident:.0f} MB",
        passed=resident <= 500,  # noqa: PLR2004 - the budget in the line above
        numbers={"mb": resident},
    )


def _command(folder: Path, ports: list[int]) -> Row:
    names = [f"c{place:03d}" for place in range(len(ports))]
    config: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": f"http://127.0.0.1:{port}"}}
            for name, port in zip(names, ports, strict=True)
        ],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in names],
    }
    file = folder / "kubeconfig"
    file.write_bytes(orjson.dumps(config))
    flags = ("--kubeconfig", str(file), "--all-contexts", "-o", "name")
    command = [str(SERVER), "fleet", *flags]
    times: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        environment = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
        times.append(time.perf_counter() - began)
        if done.returncode != 1:  # they differ
            raise Failed(f"fleet: exit code {done.returncode}: {done.stderr.decode()[-500:]}")
    median = sorted(times)[1]
    return Row(
        "fleet",
        f"fleet --all-contexts, {CONTEXTS} contexts that answer after {LATENCY_S * 1000:.0f} ms",
        "<= 3 s",
        f"median {median:.2f} s, first {times[0]:.2f} s",
        passed=median <= 3,  # noqa: PLR2004 - the budget in the line above
        numbers={"seconds": times},
    )
