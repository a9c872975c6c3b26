"""What it costs to poll a hundred API servers that have nothing new, and these API servers.

They run in one process, each on a port of its own, as cheap as they can be: `/apis` answers a
constant document, `/api` an empty one, both aggregated and with 304, and they count the bytes of
their connections. As with kube-apiserver, the index of OpenAPI documents has no ETag.
"""

import asyncio
import hashlib
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import orjson
from apidiscovery_service.core.model import Group
from apidiscovery_service.encoding.plain import resource_list
from children import lines, say
from documents import group, manifest
from plain_http import V2_JSON, get
from processes import Failed, Served, ask, child_command, cpu_s, read_line, running, serving
from report import Clock, Row
from startup import memory_row, read_each_representation

RESOURCES = 5
INDEX = "/openapi/v3"

VERSION = b"/version"
GROUP_LIST = b"unaggregated /apis"
_END = b"\r\n\r\n"
_IF_NONE_MATCH = re.compile(rb"^if-none-match:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)

UPSTREAMS, GROUPS = 100, 50
BUDGET_CPU_S = 0.5

_POLL_INTERVAL_S = 1
_ROUNDS = 8
_ROUNDS_LIMIT_S = 120.0
# Without a write for so long the history is there.
_WRITTEN_S = 2.0


@dataclass(slots=True)
class Counts:
    """Requests and responses; bytes include headers."""

    apis: int = 0
    indexes: int = 0
    documents: int = 0
    lists: int = 0
    versions: int = 0
    requests: int = 0
    not_modified: int = 0
    received: int = 0
    sent: int = 0
    connections: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """The responses of a path: the whole one, and 304 for its ETag (empty for none)."""

    etag: bytes
    whole: bytes
    not_modified: bytes


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


def page(body: bytes, etag: str) -> Page:
    fields = f'etag: "{etag}"\r\nvary: Accept\r\ncache-control: public\r\n'
    whole = f"HTTP/1.1 200 OK\r\ncontent-type: {V2_JSON}\r\ncontent-length: {len(body)}\r\n{fields}"
    return Page(
        f'"{etag}"'.encode(),
        whole.encode() + b"\r\n" + body,
        f"HTTP/1.1 304 Not Modified\r\n{fields}\r\n".encode(),
    )


def _openapi_pages(groups: list[Group]) -> dict[bytes, Page]:
    """Return the index of the groups' documents, and the documents."""
    paths: dict[str, dict[str, str]] = {}
    pages: dict[bytes, Page] = {}
    for one in groups:
        document = _small_document(one)
        url = f"{INDEX}/apis/{one.name}/v1"
        named = f"{url}?hash={hashlib.sha512(document).hexdigest().upper()}"
        paths[f"apis/{one.name}/v1"] = {"serverRelativeURL": named}
        pages[named.encode()] = plain_page(document)
    return {INDEX.encode(): plain_page(orjson.dumps({"paths": paths})), **pages}


def listed_groups(groups: list[Group]) -> list[object]:
    """Return the groups as the unaggregated list of groups has them."""
    return [
        {"name": one.name, "versions": [version], "preferredVersion": version}
        for one in groups
        for version in [{"groupVersion": f"{one.name}/v1", "version": "v1"}]
    ]


def _group_list_page(groups: list[Group]) -> Page:
    """Return the unaggregated list of groups."""
    content = {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed_groups(groups)}
    return plain_page(orjson.dumps(content))


def list_page(one: Group) -> Page:
    """Return the unaggregated list of a group's version; lists have no ETag."""
    listed = resource_list(one, one.versions[0])
    head = {"kind": listed.kind, "apiVersion": listed.api_version}
    return plain_page(orjson.dumps({**head, **listed.fields}))


def _small_document(one: Group) -> bytes:
    """Return a small document, since only requests are counted."""
    schemas = {
        resource.resource: {"type": "object", "description": resource.singular_resource}
        for resource in one.versions[0].resources
    }
    info = {"title": one.name, "version": one.versions[0].version}
    content = {"openapi": "3.0.0", "info": info, "paths": {}, "components": {"schemas": schemas}}
    return orjson.dumps(content)


def plain_page(body: bytes) -> Page:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return Page(b"", f"{head}\r\n\r\n".encode() + body, b"")


class Connection(asyncio.Protocol):
    """One connection; requests have no bodies."""

    def __init__(self, pages: Mapping[bytes, Page], counts: Counts) -> None:
        self._pages = pages
        self._counts = counts
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._counts.connections += 1

    def data_received(self, data: bytes) -> None:
        self._counts.received += len(data)
        self._received += data
        while _END in self._received:
            head, _, self._received = self._received.partition(_END)
            answer = self._answer(head)
            self._counts.sent += len(answer)
            if self._transport is not None:
                self._transport.write(answer)

    def _answer(self, head: bytes) -> bytes:
        path = head.split(b" ", 2)[1]
        if path == b"/apis" and b"as=APIGroupDiscoveryList" not in head:
            path = GROUP_LIST
        self._counts.requests += 1
        self._counts.apis += path == b"/apis"
        self._counts.indexes += path == INDEX.encode()
        self._counts.documents += path.startswith(f"{INDEX}/".encode())
        self._counts.lists += path.startswith((b"/apis/", GROUP_LIST))
        self._counts.versions += path == VERSION
        page = self._pages.get(path)
        if page is None:
            return NOT_FOUND
        had = _IF_NONE_MATCH.search(head)
        if had is None or had[1] != page.etag:
            return page.whole
        self._counts.not_modified += 1
        return page.not_modified


async def serve(count: int, groups: int) -> None:
    """Serve until stdin ends; print the ports, then the counts for each line."""
    loop, counts = asyncio.get_running_loop(), Counts()
    core = page(manifest([]), "core")
    ports: list[int] = []
    for number in range(count):
        content = [group(number * groups + place, RESOURCES) for place in range(groups)]
        pages = {
            b"/api": core,
            b"/apis": page(manifest(content), f"upstream-{number}"),
            GROUP_LIST: _group_list_page(content),
            VERSION: plain_page(orjson.dumps({"gitVersion": "v1.36.0"})),
            **_openapi_pages(content),
            **{f"/apis/{one.name}/v1".encode(): list_page(one) for one in content},
        }

        def connection(pages: Mapping[bytes, Page] = pages) -> Connection:
            return Connection(pages, counts)

        server = await loop.create_server(connection, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
    say(ports=ports)
    stdin = await lines()
    while await stdin.readline():
        say(**asdict(counts))


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
            _until_written(folder)
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
    """Return how many groups are served; none until an upstream has answered (503)."""
    answer = get(served.http, "/apis", {"accept": V2_JSON})
    return len(orjson.loads(answer.body).get("items", ()))


def _first_row(title: str, served: Served, fake: subprocess.Popen[bytes], began: float) -> Row:
    """Wait until every group is there."""
    _until(fake, "apis", UPSTREAMS)
    while (found := _groups(served)) < UPSTREAMS * GROUPS:
        if time.perf_counter() - began > _ROUNDS_LIMIT_S:
            raise Failed(f"{found} groups after {_ROUNDS_LIMIT_S:.0f} s, want {UPSTREAMS * GROUPS}")
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
    # As with kube-apiserver, the index of documents, the lists and the version have no ETag.
    whole = grown["indexes"] + grown["lists"] + grown["versions"]
    if grown["not_modified"] + whole != grown["requests"] or not grown["indexes"]:
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
    """Return the time until the last known state is served from the store."""
    found = _groups(served)
    if found != UPSTREAMS * GROUPS:
        raise Failed(f"{found} groups after a restart, want {UPSTREAMS * GROUPS}")
    numbers: dict[str, object] = {"seconds": served.start_s}
    measured = f"{served.start_s:.2f} s"
    return Row("upstreams", f"{title}: restart to ready", "", measured, numbers=numbers)


def _until(fake: subprocess.Popen[bytes], name: str, count: int) -> None:
    deadline = time.monotonic() + _ROUNDS_LIMIT_S
    while (found := _counts(fake)[name]) < count:
        if time.monotonic() > deadline:
            raise Failed(f"{name}: {found} after {_ROUNDS_LIMIT_S:.0f} s, want {count}")
        time.sleep(0.05)


def _until_written(folder: Path) -> None:
    """Wait until the history has all documents, which it writes after they are served."""
    deadline = time.monotonic() + _ROUNDS_LIMIT_S
    while time.time() - max(f.stat().st_mtime for f in folder.glob("*.history.*")) < _WRITTEN_S:
        if time.monotonic() > deadline:
            raise Failed(f"the history is written for more than {_ROUNDS_LIMIT_S:.0f} s")
        time.sleep(0.1)


def _counts(fake: subprocess.Popen[bytes]) -> dict[str, int]:
    return {name: int(str(value)) for name, value in ask(fake, "count").items()}
