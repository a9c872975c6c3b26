"""Many API servers in one process, each on a port of its own, as cheap as they can be.

They answer `/apis` with a document that never changes and `/api` with an empty one, both
aggregated, 304 to whoever has them, and count what goes over their connections. The index of their
OpenAPI documents has no ETag, as that of kube-apiserver, so it is sent whole every time.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

import orjson
from apidiscovery_service.core.model import Group
from children import lines, say
from documents import group, manifest
from plain_http import V2_JSON

RESOURCES = 5
INDEX = "/openapi/v3"

_END = b"\r\n\r\n"
_IF_NONE_MATCH = re.compile(rb"^if-none-match:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)


@dataclass(slots=True)
class Counts:
    """What was asked and answered; bytes with the heads of requests and answers."""

    apis: int = 0
    indexes: int = 0
    documents: int = 0
    requests: int = 0
    not_modified: int = 0
    received: int = 0
    sent: int = 0
    connections: int = 0


@dataclass(frozen=True, slots=True)
class _Page:
    """What is answered to a path: with another ETag, and with the same; an empty one is none."""

    etag: bytes
    whole: bytes
    not_modified: bytes


_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


def _page(body: bytes, etag: str) -> _Page:
    fields = f'etag: "{etag}"\r\nvary: Accept\r\ncache-control: public\r\n'
    whole = f"HTTP/1.1 200 OK\r\ncontent-type: {V2_JSON}\r\ncontent-length: {len(body)}\r\n{fields}"
    return _Page(
        f'"{etag}"'.encode(),
        whole.encode() + b"\r\n" + body,
        f"HTTP/1.1 304 Not Modified\r\n{fields}\r\n".encode(),
    )


def _openapi_pages(groups: list[Group]) -> dict[bytes, _Page]:
    """Return the index of the groups' documents, and the documents."""
    paths: dict[str, dict[str, str]] = {}
    pages: dict[bytes, _Page] = {}
    for one in groups:
        document = _document(one)
        url = f"{INDEX}/apis/{one.name}/v1"
        named = f"{url}?hash={hashlib.sha512(document).hexdigest().upper()}"
        paths[f"apis/{one.name}/v1"] = {"serverRelativeURL": named}
        pages[named.encode()] = _plain_page(document)
    return {INDEX.encode(): _plain_page(orjson.dumps({"paths": paths})), **pages}


def _document(one: Group) -> bytes:
    """Return a small document, for it is how often one is asked for that is looked at."""
    schemas = {
        resource.resource: {"type": "object", "description": resource.singular_resource}
        for resource in one.versions[0].resources
    }
    info = {"title": one.name, "version": one.versions[0].version}
    content = {"openapi": "3.0.0", "info": info, "paths": {}, "components": {"schemas": schemas}}
    return orjson.dumps(content)


def _plain_page(body: bytes) -> _Page:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return _Page(b"", f"{head}\r\n\r\n".encode() + body, b"")


class _Connection(asyncio.Protocol):
    """One connection; requests have no bodies."""

    def __init__(self, pages: Mapping[bytes, _Page], counts: Counts) -> None:
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
        self._counts.requests += 1
        self._counts.apis += path == b"/apis"
        self._counts.indexes += path == INDEX.encode()
        self._counts.documents += path.startswith(f"{INDEX}/".encode())
        page = self._pages.get(path)
        if page is None:
            return _NOT_FOUND
        had = _IF_NONE_MATCH.search(head)
        if had is None or had[1] != page.etag:
            return page.whole
        self._counts.not_modified += 1
        return page.not_modified


async def serve(count: int, groups: int) -> None:
    """Serve until stdin ends; print the ports, then the counts for each line."""
    loop, counts = asyncio.get_running_loop(), Counts()
    core = _page(manifest([]), "core")
    ports: list[int] = []
    for number in range(count):
        content = [group(number * groups + place, RESOURCES) for place in range(groups)]
        pages = {
            b"/api": core,
            b"/apis": _page(manifest(content), f"upstream-{number}"),
            **_openapi_pages(content),
        }

        def connection(pages: Mapping[bytes, _Page] = pages) -> _Connection:
            return _Connection(pages, counts)

        server = await loop.create_server(connection, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
    say(ports=ports)
    told = await lines()
    while await told.readline():
        say(**asdict(counts))
