"""The servers that clients are measured with: a process of its own each, on loopback.

    client_servers.py http SECONDS            answers as kube-apiserver, so long after each request
    client_servers.py proxy HOST:PORT SECONDS  passes bytes on to a server, so much later

Each prints its address. A line on stdin, `"count"` or for the first what is to be served from then
on, `"usual"`, `"gadget"` or `"dead"`, is answered by what was counted so far. It ends when its
stdin does.
"""

import asyncio
import contextlib
import gzip
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus

import client_groups
from apidiscovery_client._writing import (
    core_versions_fields,
    document_json,
    etag_of,
    group_fields,
    group_list_fields,
    resource_list_fields,
    write_aggregated,
    write_protobuf,
)
from apidiscovery_client.model import CURRENT, Group, Version
from children import lines, say

# Smaller answers are sent as they are, and gzip has its fastest level. Source: k8s.io/apiserver
# pkg/endpoints/handlers/responsewriters/writers.go `defaultGzipThresholdBytes`.
_GZIP_FROM_BYTES = 128 * 1024
_GZIP_LEVEL = 1
_PIECE_BYTES = 65536
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JSON, _PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
_AGGREGATED = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_CONTENTS: Mapping[str, Callable[[], tuple[Group, ...]]] = {
    "usual": client_groups.usual,
    "gadget": client_groups.with_gadget,
    "dead": client_groups.with_dead,
}


@dataclass(slots=True)
class Counts:
    """What was asked and answered.

    Attributes:
        requests: For discovery; those for objects are answered at once, and not counted.
        not_modified: How many of them were answered with 304.
        body_bytes: Sent in bodies, compressed where they were.
        sent_bytes: The same with status lines and headers.
        objects: The paths of objects that were asked for, one after the other.
    """

    requests: int = 0
    not_modified: int = 0
    body_bytes: int = 0
    sent_bytes: int = 0
    objects: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; the body is not compressed yet."""

    status: int
    body: bytes = b""
    content_type: str = _JSON
    etag: str = ""


_NO_OBJECTS = Answer(
    200, b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'
)


class Pages:
    """Every document of a server, as kube-apiserver 1.30 and later give them."""

    def __init__(self, groups: tuple[Group, ...]) -> None:
        core = [group for group in groups if not group.name]
        named = [group for group in groups if group.name]
        self._aggregated = {"/api": _documents(core), "/apis": _documents(named)}
        self._plain = {"/api": document_json(core_versions_fields(core[0], "127.0.0.1:6443"))}
        self._plain["/apis"] = document_json(group_list_fields(named))
        self._plain |= {
            f"/apis/{group.name}": document_json(group_fields(group)) for group in named
        }
        self._plain["/version"] = b'{"major":"1","minor":"32","gitVersion":"v1.32.4"}\n'
        self._plain[_DEFINITIONS] = _definitions(named)
        self._versions = {
            version.gv.path: version for group in groups for version in group.versions
        }

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a question for discovery."""
        if path in self._versions:
            return _resource_list(self._versions[path])
        if path in self._aggregated:
            found = _negotiated(self._aggregated[path], headers.get("accept", ""))
            if found is not None:
                is_held = headers.get("if-none-match") == found.etag
                return Answer(304, etag=found.etag) if is_held else found
        if path not in self._plain:
            return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
        return Answer(200, self._plain[path])


def _documents(groups: list[Group]) -> dict[str, Answer]:
    """Return the representations of an aggregated document by media type."""
    body = write_aggregated(groups)
    etag = f'"{etag_of(body)}"'
    protobuf = write_protobuf(groups)
    return {
        kind + _AGGREGATED: Answer(200, content, kind + _AGGREGATED, etag)
        for kind, content in ((_JSON, body), (_PROTOBUF, protobuf))
    }


def _negotiated(found: Mapping[str, Answer], accept: str) -> Answer | None:
    """Return the first that is accepted, by the order of the header; None for a plain one."""
    for clause in accept.split(","):
        wanted = clause.replace(" ", "")
        if wanted in found:
            return found[wanted]
        if wanted in (_JSON, "*/*"):
            return None
    return None


def _resource_list(version: Version) -> Answer:
    if version.freshness != CURRENT:
        return Answer(503, b"service unavailable\n", "text/plain; charset=utf-8")
    return Answer(200, document_json(resource_list_fields(version)))


def _definitions(groups: list[Group]) -> bytes:
    """Return those of all custom resources; the group that may be dead is of another server."""
    items = [
        client_groups.definition(resource)
        for group in groups
        if "." in group.name and group.name != client_groups.GHOST.group
        for resource in group.versions[0].resources
    ]
    kept = {"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1"}
    return json.dumps({**kept, "metadata": {"resourceVersion": "1"}, "items": items}).encode()


class ApiServer:
    """Serves connections, one request after the other on each."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._pages = Pages(client_groups.usual())
        self.counts = Counts()

    def serve(self, content: str) -> None:
        """Serve something else from now on."""
        self._pages = Pages(_CONTENTS[content]())

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the other end hangs up."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *fields = head.decode("latin-1").strip().split("\r\n")
                path = first.split()[1].partition("?")[0].rstrip("/")
                pairs = (field.partition(":") for field in fields)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                writer.write(await self._answer(path, headers))
                await writer.drain()

    async def _answer(self, path: str, headers: Mapping[str, str]) -> bytes:
        if is_of_objects(path):
            self.counts.objects += f"{path}\n"
            return b"".join(_encoded(_NO_OBJECTS, headers))
        answer = self._pages.answer(path, headers)
        head, body = _encoded(answer, headers)
        await asyncio.sleep(self._delay_s)
        self.counts.requests += 1
        self.counts.not_modified += answer.status == HTTPStatus.NOT_MODIFIED
        self.counts.body_bytes += len(body)
        self.counts.sent_bytes += len(head) + len(body)
        return head + body


def is_of_objects(path: str) -> bool:
    """Tell whether a path is that of objects, and not of discovery.

    Definitions are objects, but for a client that learns from them what is served.

    >>> is_of_objects("/api/v1/pods"), is_of_objects("/apis/apps/v1")
    (True, False)
    """
    root, *parts = path.strip("/").split("/")
    names = {"api": 1, "apis": 2}.get(root)
    return names is not None and len(parts) > names and path != _DEFINITIONS


def _encoded(answer: Answer, headers: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Return the head and the body of a response."""
    body = answer.body
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    if answer.etag:
        lines += [f"Etag: {answer.etag}", "Vary: Accept", "Cache-Control: public"]
    else:
        lines.append("Cache-Control: no-cache, private")
    codings = [coding.strip() for coding in headers.get("accept-encoding", "").split(",")]
    if "gzip" in codings and len(body) >= _GZIP_FROM_BYTES:
        body = gzip.compress(body, _GZIP_LEVEL)
        lines += ["Content-Encoding: gzip", "Vary: Accept-Encoding"]
    if answer.status != HTTPStatus.NOT_MODIFIED:
        lines += [f"Content-Type: {answer.content_type}", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode(), body


class LateProxy:
    """Relays requests after a delay, and responses at once.

    The delay is the same for all pieces; it does not add up.
    """

    def __init__(self, target: str, delay_s: float) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._delay_s = delay_s
        self.counts = Counts()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on until one end hangs up."""
        with contextlib.suppress(OSError), contextlib.closing(writer):
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            with contextlib.closing(far_writer):
                pumps = [
                    asyncio.ensure_future(self._late(reader, far_writer)),
                    asyncio.ensure_future(self._counted(far_reader, writer)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)

    async def _counted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(_PIECE_BYTES):
            self.counts.sent_bytes += len(piece)
            writer.write(piece)
            await writer.drain()

    async def _late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while piece := await reader.read(_PIECE_BYTES):
            # The loop calls them in the order of their times.
            loop.call_later(self._delay_s, writer.write, piece)
        await asyncio.sleep(self._delay_s)


async def _told() -> AsyncGenerator[str]:
    reader = await lines()
    while line := await reader.readline():
        yield json.loads(line)


async def run(server: ApiServer | LateProxy) -> None:
    """Serve until stdin ends, and answer its lines."""
    listening = await asyncio.start_server(server.connection, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    say(address=f"127.0.0.1:{port}")
    async for line in _told():
        if isinstance(server, ApiServer) and line in _CONTENTS:
            server.serve(line)
        say(**asdict(server.counts))
    listening.close()


def main() -> None:
    match sys.argv[1:]:
        case ["http", seconds]:
            asyncio.run(run(ApiServer(float(seconds))))
        case ["proxy", target, seconds]:
            asyncio.run(run(LateProxy(target, float(seconds))))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
