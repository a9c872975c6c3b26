"""A small HTTP server and a small proxy in the test's own event loop, which note what they see."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import h2.config
import h2.connection
import h2.events
from certificates import KeyPair

_Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request.

    Attributes:
        headers: Names in lower case, in the order of arrival.
        user: The common name in the client certificate; empty without one.
    """

    target: str
    headers: tuple[tuple[str, str], ...]
    user: str = ""
    protocol: str = "http/1.1"

    def values(self, name: str) -> list[str]:
        return [value for other, value in self.headers if other == name]


@dataclass(slots=True)
class Recording:
    """A server that runs.

    Attributes:
        names: What each TLS client asked for by SNI.
        connections: How many were accepted.
        gone: Set when a client has closed a connection.
        held: While clear, an answer stops in the middle of its body.
    """

    port: int = 0
    seen: list[Seen] = field(default_factory=list[Seen])
    names: list[str | None] = field(default_factory=list[str | None])
    connections: int = 0
    status: str = "200 OK"
    more_headers: str = ""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last(self) -> Seen:
        return self.seen[-1]


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


@asynccontextmanager
async def recording(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Recording]:
    """Run a server that answers every request with `{}`."""
    state = Recording()
    state.held.set()
    if tls is not None:
        tls.sni_callback = lambda _object, name, _context: state.names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        tls_object = cast("ssl.SSLObject | None", writer.get_extra_info("ssl_object"))
        is_h2 = tls_object is not None and tls_object.selected_alpn_protocol() == "h2"
        try:
            await (_serve_h2 if is_h2 else _serve_h1)(state, reader, writer)
        finally:
            state.gone.set()

    async with listening(serve, tls) as state.port:
        yield state


@asynccontextmanager
async def listening(handle: _Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """Accept connections on a loopback port; end them all at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await handle(reader, writer)
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(run, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _user(writer: asyncio.StreamWriter) -> str:
    certificate = cast("dict[str, object] | None", writer.get_extra_info("peercert"))
    if not certificate:
        return ""
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate["subject"])
    return dict(pair for part in subject for pair in part)["commonName"]


async def read_head(reader: asyncio.StreamReader) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Return method, target and headers of a request without a body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    request_line, *lines = head.rstrip().split("\r\n")
    method, target, _ = request_line.split(" ")
    pairs = (line.partition(":") for line in lines)
    return method, target, tuple((name.lower(), value.strip()) for name, _, value in pairs)


async def _serve_h1(
    state: Recording, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while True:
        _, target, headers = await read_head(reader)
        state.seen.append(Seen(target, headers, _user(writer)))
        writer.write(
            f"HTTP/1.1 {state.status}\r\nContent-Type: application/json\r\n{state.more_headers}"
            "Content-Length: 2\r\n\r\n{".encode()
        )
        await state.held.wait()
        writer.write(b"}")
        await writer.drain()


async def _serve_h2(
    state: Recording, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    while received := await reader.read(1 << 16):
        for event in connection.receive_data(received):
            if isinstance(event, h2.events.RequestReceived):
                headers = tuple((name.decode(), value.decode()) for name, value in event.headers)
                target = dict(headers)[":path"]
                state.seen.append(Seen(target, headers, _user(writer), "h2"))
                connection.send_headers(event.stream_id, [(":status", "200")])
                connection.send_data(event.stream_id, b"{}", end_stream=True)
        writer.write(connection.data_to_send())


@asynccontextmanager
async def proxying(port: int, refusal: str = "") -> AsyncGenerator[Recording]:
    """Run a proxy, CONNECT or forward, to which every name is this port of loopback."""
    state = Recording()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        method, target, headers = await read_head(reader)
        state.seen.append(Seen(f"{method} {target}", headers))
        if refusal:
            writer.write(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = "/" + target.split("/", 3)[3]
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
            far_writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_carry(reader, far_writer))
                tasks.create_task(_carry(far_reader, writer))
        finally:
            far_writer.transport.abort()

    async with listening(serve) as state.port:
        yield state


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while some := await reader.read(1 << 16):
            writer.write(some)
            await writer.drain()
    writer.transport.abort()
