"""An API server that answers as a test wants it, in the event loop of the test; also wrongly."""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

AGG = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class Seen:
    """A request. Names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]

    @property
    def is_plain(self) -> bool:
        """Whether only unaggregated JSON is accepted."""
        return self.headers.get("accept") == "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent.

    Attributes:
        length: Content-Length when it is to be wrong.
        raw: Sent in place of everything else.
        hangs: After how many bytes of the body nothing more comes, -1 for not even the head.
    """

    body: bytes = b""
    content_type: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    length: int | None = None
    raw: bytes | None = None
    hangs: int | None = None

    def bytes(self) -> bytes:
        if self.raw is not None:
            return self.raw
        length = len(self.body) if self.length is None else self.length
        lines = [f"HTTP/1.1 {self.status} Something", f"Content-Length: {length}"]
        if self.content_type:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + (b"" if self.status == 304 else self.body)


NOT_FOUND = Reply(b"404 page not found\n", "text/plain", 404)
NOT_ACCEPTABLE = Reply(b"{}", status=406)
DOWN = Reply(b"service unavailable\n", "text/plain", 503)

Answers: TypeAlias = Mapping[str, Reply] | Callable[[Seen], Reply]


def document(content: object, etag: str = "", content_type: str = "application/json") -> Reply:
    headers = {"ETag": etag} if etag else {}
    return Reply(json.dumps(content).encode(), content_type, headers=headers)


def aggregated(*items: object, etag: str = "") -> Reply:
    content: dict[str, object] = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
    return document(content, etag, AGG)


def always(reply: Reply) -> Callable[[Seen], Reply]:
    """Return what answers everything in the same way."""

    def answer(_: Seen) -> Reply:
        return reply

    return answer


def conditional(reply: Reply) -> Callable[[Seen], Reply]:
    """Return what answers 304 to whoever has the ETag of a reply."""
    not_modified = Reply(b"", "", 304, {"ETag": reply.headers["ETag"]})

    def answer(seen: Seen) -> Reply:
        return not_modified if seen.headers.get("if-none-match") == reply.headers["ETag"] else reply

    return answer


class MisbehavingServer:
    """Answers until it is closed.

    Attributes:
        answers: By path, or by whatever the request says; may be replaced at any time.
        requests: All that came in, in order.
    """

    def __init__(
        self,
        answers: Answers,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.answers = answers
        self._host = host
        self.requests: list[Seen] = []
        self._tls = tls
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self.requests]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, ssl=self._tls
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            while (seen := await _request(reader)) is not None:
                self.requests.append(seen)
                await self._reply(self._answer(seen), writer)
        except (OSError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            self._connections.discard(task)
            writer.close()

    def _answer(self, seen: Seen) -> Reply:
        if callable(self.answers):
            return self.answers(seen)
        return self.answers.get(seen.path, NOT_FOUND)

    async def _reply(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        sent = reply.bytes()
        if reply.hangs is not None:
            head = sent.index(b"\r\n\r\n") + 4
            writer.write(sent[: max(0, head + reply.hangs) if reply.hangs >= 0 else 0])
            await asyncio.Event().wait()
        # In pieces: the buffer of a transport is moved up after each bit that is sent.
        for start in range(0, len(sent), _PIECE):
            writer.write(sent[start : start + _PIECE])
            await writer.drain()
        if reply.raw is not None or reply.length is not None:
            raise ConnectionAbortedError("nothing more comes")


async def _request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    line, *lines = head.decode("latin-1").split("\r\n")
    pairs = (header.split(": ", 1) for header in lines if header)
    return Seen(line.split(" ")[1], {name.lower(): value for name, value in pairs})
