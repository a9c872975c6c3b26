"""A fake Kubernetes API server with fixed answers, right or wrong, on a loopback socket."""

import asyncio
import hashlib
import json
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self, cast

import h2.config
import h2.connection
import h2.events
from certificates import KeyPair
from legacy_clusters import recorded
from media_types import JSON_V2, aggregated_type
from repository import GOLDEN

_PIECE = 1 << 18
_MAX_HEAD = 1 << 20
# Requests that are answered at the same time in threads; some tests let them wait for each other.
_THREADS = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one path.

    Attributes:
        length: A wrong Content-Length; None for the right one.
        raw: Sent instead of head and body.
        stalls: Whether the server sends nothing until `resume`, and then answers again.
        stalls_after: Number of bytes of the body before a pause until `resume`; None for no pause.
        then: The answer from the second request on; None for the same.
    """

    body: bytes = b""
    content_type: str | None = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    length: int | None = None
    raw: bytes | None = None
    stalls: bool = False
    stalls_after: int | None = None
    then: "Answer | None" = None

    @property
    def ends_connection(self) -> bool:
        return self.raw is not None or (self.length or 0) > len(self.body)

    def head(self) -> bytes:
        phrase = HTTPStatus(self.status).phrase if self.status in _STATUSES else "Something"
        lines = [f"HTTP/1.1 {self.status} {phrase}"]
        if self.content_type:
            lines.append(f"Content-Type: {self.content_type}")
        if self.status != HTTPStatus.NOT_MODIFIED:
            length = len(self.body) if self.length is None else self.length
            lines.append(f"Content-Length: {length}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def text(self) -> bytes:
        """Return the bytes of the answer to a GET."""
        return self.head() + self.body if self.raw is None else self.raw


_STATUSES = frozenset(HTTPStatus)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that arrived.

    Attributes:
        path: Without the query.
        headers: By name in lower case; the last value of a repeated name.
        fields: All headers, in the order of arrival.
        user: The common name in the client certificate; empty without one.
    """

    path: str
    headers: Mapping[str, str]
    method: str = "GET"
    query: str = ""
    fields: Sequence[tuple[str, str]] = ()
    user: str = ""
    protocol: str = "http/1.1"

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def is_plain(self) -> bool:
        """Whether only unaggregated JSON is accepted."""
        return self.headers.get("accept") == "application/json"

    def values(self, name: str) -> list[str]:
        return [value for other, value in self.fields if other == name]


Routes = Mapping[str, Answer]
Respond = Callable[[Request], Answer]
NOT_FOUND = Answer(b"404 page not found\n", "text/plain; charset=utf-8", 404)
NOT_ACCEPTABLE = Answer(
    json.dumps({"kind": "Status", "message": "406: Not Acceptable", "code": 406}).encode(),
    status=406,
)
DOWN = Answer(b"service unavailable\n", "text/plain", 503)


def document(
    content: object, content_type: str | None = "application/json", etag: str = ""
) -> Answer:
    headers = {"ETag": etag} if etag else {}
    return Answer(json.dumps(content).encode(), content_type, headers=headers)


def status(code: int, reason: str, message: str) -> Answer:
    """Return an error as Kubernetes writes it."""
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason}
    return Answer(json.dumps(body | {"code": code}).encode(), status=code)


def aggregated(*groups: object, etag: str = "") -> Answer:
    """Return an aggregated document of these groups."""
    api_version = "apidiscovery.k8s.io/v2"
    content = {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "items": groups}
    return document(content, JSON_V2, etag)


def served_group(name: str, *plurals: str, version: str = "v1") -> dict[str, Any]:
    """Return a group of an aggregated document, with one version of these resources."""
    resources = [
        {
            "resource": plural,
            "responseKind": {
                "group": name,
                "version": version,
                "kind": plural.removesuffix("s").capitalize(),
            },
            "scope": "Cluster",
            "singularResource": plural.removesuffix("s"),
            "verbs": ["get", "list"],
        }
        for plural in plurals
    ]
    versions = [{"version": version, "resources": resources, "freshness": "Current"}]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def openapi_routes(documents: Mapping[str, bytes]) -> Routes:
    """Return the answers of a server with these documents, by path."""
    urls = {key: f"/openapi/v3/{key}?hash={sha512(data)}" for key, data in documents.items()}
    index = {"paths": {key: {"serverRelativeURL": url} for key, url in urls.items()}}
    return {
        "/openapi/v3": document(index, "text/plain; charset=utf-8"),
        **{f"/openapi/v3/{key}": Answer(data) for key, data in documents.items()},
    }


def sha512(data: bytes) -> str:
    """Return the upper-case hex SHA-512."""
    return hashlib.sha512(data).hexdigest().upper()


def conditional(answer: Answer) -> Respond:
    """Return an answer with an ETag, but 304 to a request with that ETag."""
    etag = answer.headers["ETag"]
    not_modified = Answer(content_type=None, status=304, headers={"ETag": etag})

    def respond(request: Request) -> Answer:
        return not_modified if request.headers.get("if-none-match") == etag else answer

    return respond


def builtin(version: str = "v2") -> Routes:
    """Return the aggregated documents of Kubernetes' built-in APIs, by path."""
    return {
        f"/{name}": Answer(
            (GOLDEN / "builtin" / f"{name}.{version}.json").read_bytes(), aggregated_type(version)
        )
        for name in ("api", "apis")
    }


def legacy(cluster: str = "kubernetes-v1.15.0") -> Routes:
    """Return the answers of a recorded cluster without aggregated discovery, by path."""
    return {path: Answer(body) for path, body in recorded(cluster).items()}


def server_context(
    pair: KeyPair, client_ca: Path | None = None, alpn: Sequence[str] = ("http/1.1",)
) -> ssl.SSLContext:
    """Return a context; with `client_ca` a client certificate is required."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    context.set_alpn_protocols(list(alpn))
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


# The client leaves or sends too much, or the test ends.
_CONNECTION_ENDS = (
    OSError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
    asyncio.CancelledError,
)
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(
    handle: Handler, tls: ssl.SSLContext | None = None, at: socket.socket | None = None
) -> AsyncGenerator[int]:
    """Accept connections on a loopback port; end them all at the end."""
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()
    is_over = False

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
            writer.close()
        except _CONNECTION_ENDS:
            writer.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_over:  # it was being accepted
            writer.transport.abort()
            return
        writers.add(writer)
        task = asyncio.create_task(run(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    bound = at or socket.create_server(("127.0.0.1", 0))
    server = await asyncio.start_server(connected, sock=bound, ssl=tls, limit=_MAX_HEAD)
    try:
        yield bound.getsockname()[1]
    finally:
        is_over = True
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await accepted()
        for writer in writers:
            writer.transport.abort()


class LoopbackServer:
    """Serves connections to a loopback port until it is closed.

    With `async with` it runs in the event loop of the test, with `with` in a thread of its own.

    Attributes:
        port: The port.
        url: Scheme, host and port.
    """

    def __init__(
        self, tls: ssl.SSLContext | None = None, port: int = 0, host: str = "127.0.0.1"
    ) -> None:
        self._socket = socket.create_server((host, port), backlog=64)
        self.port = int(self._socket.getsockname()[1])
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self._listening = listening(self._serve, tls, self._socket)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self._listening.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listening.__aexit__(None, None, None)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "loopback server"))
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop
        self._run(self.__aexit__())
        self._run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, doing: Coroutine[Any, Any, object]) -> None:
        assert self._loop
        asyncio.run_coroutine_threadsafe(doing, self._loop).result()


class FakeApiServer(LoopbackServer):
    """An HTTP server that keeps connections open.

    Attributes:
        answers: One answer for all paths, answers by path, or a function of the request; may be
            replaced at any time.
        requests: The requests, in order.
        connections: Number of connections so far.
        open_connections: Number of open connections.
        names: The names that TLS clients asked for by SNI.
        stalled: Released once for each request that stalls.
    """

    def __init__(
        self,
        answers: Answer | Routes | Respond,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(tls, port, host)
        self.answers = answers
        self.requests: list[Request] = []
        self.names: list[str | None] = []
        self.connections = 0
        self.stalled = threading.Semaphore(0)
        self._writers: set[asyncio.StreamWriter] = set()
        if tls is not None:
            tls.sni_callback = lambda _object, name, _context: self.names.append(name)
        self._resumed = asyncio.Event()

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def drop_connections(self) -> None:
        """Close all connections, as servers close idle ones."""

        async def drop() -> None:
            for writer in tuple(self._writers):
                writer.close()

        self._run(drop())

    def resume(self) -> None:
        """Continue with stalled requests."""
        loop = self._loop or asyncio.get_running_loop()
        loop.call_soon_threadsafe(self._resumed.set)

    async def _stall(self) -> None:
        self._resumed.clear()
        self.stalled.release()
        await self._resumed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            tls_object = cast("ssl.SSLObject | None", writer.get_extra_info("ssl_object"))
            if tls_object is not None and tls_object.selected_alpn_protocol() == "h2":
                await self._serve_h2(reader, writer)
            else:
                await self._serve_h1(reader, writer)
        finally:
            self._writers.discard(writer)

    async def _serve_h1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            method, target, fields = await read_head(reader)
            if not method:
                writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                return
            request = _request(method, target, fields, writer)
            await reader.readexactly(int(request.headers.get("content-length", "0")))
            self.requests.append(request)
            answer = await self._answer(request)
            while answer.stalls:
                await self._stall()
                answer = await self._answer(request)
            await self._send(answer, writer, method)
            if answer.ends_connection or request.headers.get("connection") == "close":
                return

    async def _send(self, answer: Answer, writer: asyncio.StreamWriter, method: str) -> None:
        has_body = method != "HEAD" and answer.status != HTTPStatus.NOT_MODIFIED
        sent = answer.text() if has_body or answer.raw is not None else answer.head()
        start = 0
        if answer.stalls_after is not None:
            start = len(answer.head()) + answer.stalls_after
            writer.write(sent[:start])
            await self._stall()
        # In pieces: a transport moves its whole buffer whenever it has sent a part.
        for begin in range(start, len(sent), _PIECE):
            writer.write(sent[begin : begin + _PIECE])
            await writer.drain()

    async def _serve_h2(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while received := await reader.read(1 << 16):
            for event in connection.receive_data(received):
                if isinstance(event, h2.events.RequestReceived):
                    fields = [(name.decode(), value.decode()) for name, value in event.headers]
                    pseudo = dict(fields)
                    request = _request(pseudo[":method"], pseudo[":path"], fields, writer, "h2")
                    self.requests.append(request)
                    answer = await self._answer(request)
                    connection.send_headers(event.stream_id, [(":status", str(answer.status))])
                    connection.send_data(event.stream_id, answer.body, end_stream=True)
            writer.write(connection.data_to_send())

    async def _answer(self, request: Request) -> Answer:
        if isinstance(self.answers, Answer):
            answer = self.answers
        elif not callable(self.answers):
            answer = self.answers.get(request.path, NOT_FOUND)
        elif self._loop is None:
            answer = self.answers(request)
        else:  # it may block
            answer = await asyncio.to_thread(self.answers, request)
        if answer.then is None or self.paths.count(request.path) == 1:
            return answer
        return answer.then


async def accepted() -> None:
    """Wait until no connection of this loop is being accepted any more.

    Otherwise the loop leaves such a connection open, and a later test gets the warning.
    """
    tasks = asyncio.all_tasks()
    if accepting := [task for task in tasks if _named(task) == "_accept_connection2"]:
        await asyncio.wait(accepting)
    await asyncio.sleep(0)  # aborted connections are closed in the next turn of the loop


def _named(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__name__", "")


async def read_head(reader: asyncio.StreamReader) -> tuple[str, str, list[tuple[str, str]]]:
    """Return method, target and headers of a request; an empty method if it is not HTTP/1."""
    line = (await reader.readuntil(b"\n")).decode("utf-8", "surrogateescape")
    method, _, rest = line.partition(" ")
    target, _, version = rest.rpartition(" ")
    if not version.startswith("HTTP/1."):
        return "", "", []
    fields: list[tuple[str, str]] = []
    while line := (await reader.readuntil(b"\n")).decode("utf-8", "surrogateescape").strip():
        name, _, value = line.partition(":")
        fields.append((name.lower(), value.strip()))
    return method, target, fields


def _request(
    method: str,
    target: str,
    fields: Sequence[tuple[str, str]],
    writer: asyncio.StreamWriter,
    protocol: str = "http/1.1",
) -> Request:
    path, _, query = target.partition("?")
    certificate = cast("dict[str, object] | None", writer.get_extra_info("peercert"))
    user = ""
    if certificate:
        subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate["subject"])
        user = dict(pair for part in subject for pair in part)["commonName"]
    return Request(path, dict(fields), method, query, tuple(fields), user, protocol)
