"""The processes that hold many streams open, and servers that send a constant on each.

A thousand grpc.aio calls would take more of the machine than the server that is measured. So the
client here is minimal: HTTP/2 as a gRPC client speaks it (RFC 9113; gRPC over HTTP2), and HTTP/1.1
with chunks (RFC 9112) for lines of JSON.
"""

import asyncio
import base64
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

import grpc
import grpc.aio
from apidiscovery_service.store.wakeup import Wakeup
from children import UNLIMITED, lines, say

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM = _ACK = 1
_END_HEADERS = 4
_FRAME_HEAD = 9
_MESSAGE_HEAD = 5
_INITIAL_WINDOW_SIZE = 4
_FRAME_MAX = 16_384
_WINDOW, _WINDOW_AT_FIRST = 2**31 - 1, 65_535

# Delays before reopening: of refused calls as the server states (RetryInfo), of connections as gRPC
# clients do at first.
_REFUSED_S, _LOST_S = 5.0, 1.0

_GIVE_UP_S = 60.0

# Connections that are opened concurrently; a listener's queue is finite.
_CONNECTIONS_AT_ONCE = 50


class StreamError(Exception):
    """A server has ended a stream or a connection."""


class Tally(Protocol):
    """Receives the events of streams, by their numbers."""

    def message(self, stream: int, at: float, message: bytes) -> None: ...

    def ended(self, stream: int) -> None: ...

    def failed(self, error: Exception) -> None: ...

    def again(self, what: str) -> None: ...


class GrpcStreams(asyncio.Protocol):
    """One connection with the same call on each of its streams.

    Args:
        tally: Receives every message.
        authority: The value of `:authority`.
        method: Path of the call.
        requests: One by number of the stream; all fit into the initial window.
        comes_again: Whether ended calls are opened again, as by watching clients.
    """

    def __init__(
        self,
        tally: Tally,
        authority: str,
        method: str,
        requests: Mapping[int, bytes],
        *,
        comes_again: bool = False,
    ) -> None:
        self._tally = tally
        self._authority = authority
        self._head = _request_head(authority, method)
        self._requests = requests
        self._comes_again = comes_again

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _writable(transport)
        settings = _INITIAL_WINDOW_SIZE.to_bytes(2) + _WINDOW.to_bytes(4)
        more = (_WINDOW - _WINDOW_AT_FIRST).to_bytes(4)
        out = [_PREFACE, _frame(_SETTINGS, 0, 0, settings), _frame(_WINDOW_UPDATE, 0, 0, more)]
        self._unread = bytearray()
        self._window = _WINDOW_AT_FIRST
        self._next = 1
        self._numbers: dict[int, int] = {}  # by stream, while it is open
        self._messages: dict[int, bytearray] = {}
        self._transport.write(b"".join([*out, *map(self._begun, self._requests)]))

    def _begun(self, number: int) -> bytes:
        """Return what begins a call."""
        stream, self._next = self._next, self._next + 2
        self._numbers[stream], self._messages[stream] = number, bytearray()
        request = self._requests[number]
        message = bytes(1) + len(request).to_bytes(4) + request
        self._window -= len(message)
        data = (
            _frame(_DATA, _END_STREAM if end >= len(message) else 0, stream, part)
            for part, end in _parts(message)
        )
        return b"".join([_frame(_HEADERS, _END_HEADERS, stream, self._head), *data])

    def _begin_again(self, transport: asyncio.Transport, number: int) -> None:
        if transport is not self._transport or transport.is_closing():
            return  # the next connection begins all
        if self._window > len(self._requests[number]) + _MESSAGE_HEAD:
            transport.write(self._begun(number))
        else:
            self._later(_LOST_S, self._begin_again, transport, number)

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        self._unread += data
        try:
            for kind, flags, stream, payload in self._frames():
                self._take(kind, flags, stream, payload, at)
        except StreamError as error:
            self._tally.failed(error)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._comes_again:
            self._tally.again("connection lost")
            self._later(_LOST_S, self._connect)
            return
        self._tally.failed(exc or StreamError("the server closed a connection"))

    def _connect(self) -> None:
        host, _, port = self._authority.rpartition(":")
        loop = asyncio.get_running_loop()
        connecting = loop.create_task(loop.create_connection(lambda: self, host, int(port)))
        connecting.add_done_callback(self._connected)

    def _connected(self, connecting: asyncio.Task[object]) -> None:
        if connecting.exception() is not None:
            self.connection_lost(None)

    def _later(self, delay_s: float, what: Callable[..., None], *args: object) -> None:
        """Schedule a call after about `delay_s`, with jitter."""
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        asyncio.get_running_loop().call_later(delay_s * spread, what, *args)

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        data, start = bytes(self._unread), 0
        while len(data) - start >= _FRAME_HEAD:
            end = start + _FRAME_HEAD + int.from_bytes(data[start : start + 3])
            if end > len(data):
                break
            stream = int.from_bytes(data[start + 5 : start + _FRAME_HEAD]) & 0x7FFFFFFF
            yield data[start + 3], data[start + 4], stream, data[start + _FRAME_HEAD : end]
            start = end
        del self._unread[:start]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes, at: float) -> None:
        if kind == _DATA:
            self._take_data(stream, payload, at)
        elif kind in (_RST_STREAM, _GOAWAY) and not self._comes_again:
            raise StreamError(f"the server sent frame {kind}: {payload!r}")
        elif kind == _WINDOW_UPDATE and not stream:
            self._window += int.from_bytes(payload)
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            answer = payload if kind == _PING else b""
            self._transport.write(_frame(kind, _ACK, 0, answer))
        if kind == _RST_STREAM or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
            self._take_end(stream)

    def _take_end(self, stream: int) -> None:
        number = self._numbers.pop(stream, None)
        if number is None:
            return
        del self._messages[stream]
        if self._comes_again:
            self._tally.again("call refused")
            self._later(_REFUSED_S, self._begin_again, self._transport, number)
        else:
            self._tally.ended(number)

    def _take_data(self, stream: int, payload: bytes, at: float) -> None:
        unread = self._messages[stream]
        unread += payload
        while len(unread) >= _MESSAGE_HEAD:
            end = _MESSAGE_HEAD + int.from_bytes(unread[1:_MESSAGE_HEAD])
            if len(unread) < end:
                break
            self._tally.message(self._numbers[stream], at, bytes(unread[_MESSAGE_HEAD:end]))
            del unread[:end]


class LineStream(asyncio.Protocol):
    """One connection with a request whose answer is lines in chunks.

    Args:
        tally: Receives every line.
        number: Number of the stream.
        authority: The value of `Host`.
        target: The request target.
    """

    def __init__(self, tally: Tally, number: int, authority: str, target: str) -> None:
        self._tally = tally
        self._number = number
        self._request = f"GET {target} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
        self._head = True
        self._unread = b""
        self._line = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        _writable(transport).write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.failed(exc or StreamError("the server closed a connection"))

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        self._unread += data
        if self._head and not self._take_head():
            return
        while chunk := self._chunk():
            *lines, self._line = (self._line + chunk).split(b"\n")
            for line in lines:
                self._tally.message(self._number, at, line)

    def _take_head(self) -> bool:
        head, end, rest = self._unread.partition(b"\r\n\r\n")
        if not end:
            return False
        if not head.startswith(b"HTTP/1.1 200") or b"chunked" not in head:
            self._tally.failed(StreamError(repr(head)))
        self._head, self._unread = False, rest
        return True

    def _chunk(self) -> bytes:
        """Return the next chunk; empty when it is incomplete."""
        size, end, rest = self._unread.partition(b"\r\n")
        if not end or len(rest) < (length := int(size, 16)) + 2:
            return b""
        self._unread = rest[length + 2 :]
        return rest[:length]


def _writable(transport: asyncio.BaseTransport) -> asyncio.Transport:
    return cast("asyncio.Transport", transport)  # uvloop's are no subclass


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _parts(message: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the pieces of a message that fit into a frame, and their ends."""
    for begin in range(0, len(message), _FRAME_MAX):
        end = begin + _FRAME_MAX
        yield message[begin:end], end


def _request_head(authority: str, method: str) -> bytes:
    fields: Sequence[tuple[str, str]] = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    )
    # RFC 7541 section 6.2.2: literal, not indexed, with a new name; lengths below 127.
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields
    )


class StreamTally:
    """Counts the messages of many streams.

    Args:
        count: Of the streams.
    """

    def __init__(self, count: int) -> None:
        self._counts = [0] * count
        self._at = [0.0] * count
        self._last = [b""] * count
        self._wanted = 0
        self._behind = 0
        self._open = count
        self._news = Wakeup()
        self._error: Exception | None = None
        self._again = Counter[str]()

    def message(self, stream: int, at: float, message: bytes) -> None:
        self._counts[stream] += 1
        self._last[stream] = message
        if not self._wanted:  # some come before they are asked for
            self._at[stream] = at
        elif self._counts[stream] == self._wanted:
            self._at[stream] = at
            self._behind -= 1
            if not self._behind:
                self._news.ring()

    def ended(self, stream: int) -> None:
        del stream
        self._open -= 1
        self._news.ring()

    def failed(self, error: Exception) -> None:
        self._error = self._error or error
        self._news.ring()

    def again(self, what: str) -> None:
        self._again[what] += 1

    def want(self, more: int) -> None:
        """Await so many messages more on each."""
        self._wanted += more
        self._behind = sum(count < self._wanted for count in self._counts)

    async def arrived(self) -> list[float]:
        """Return, in any order, when the last of the wanted messages came on each stream."""
        while self._behind:
            if self._open < len(self._counts):
                raise StreamError("a stream has ended")
            await self._some_news()
        return self._at

    async def all_ended(self) -> int:
        """Wait until each has ended; return how many messages came on all of them."""
        while self._open:
            await self._some_news()
        return sum(self._counts)

    def last(self) -> set[bytes]:
        """Return the last messages, each different one once."""
        return set(self._last)

    def came_again(self) -> dict[str, int]:
        """Return how often something was begun again, by what had ended it."""
        return self._again

    async def _some_news(self) -> None:
        if self._error:
            raise self._error
        before = self._behind
        try:
            async with asyncio.timeout(_GIVE_UP_S):
                await self._news.next().wait()
        except TimeoutError:
            if self._behind == before:
                text = f"nothing for {_GIVE_UP_S:.0f} s, {self._behind} wait"
                raise StreamError(text) from None


async def streams(kind: str, address: str, described: dict[str, object]) -> None:
    """Hold streams, and tell of each line on stdin when what it wants has come.

    Args:
        kind: `grpc` or `http`.
        address: HOST:PORT.
        described: With `connections` and `per_connection` (1 for HTTP), the `path`, and for gRPC
            `requests` in base64, for one stream after the other and over again, and `comes_again`.

    A line is the number of messages that are awaited on each stream, answered with the moments at
    which the last of them came; or "ended", answered with the number of all messages. `last` has
    each different last message of a stream, in base64.
    """
    each = int(str(described["per_connection"]))
    count = int(str(described["connections"])) * each
    tally = StreamTally(count)
    path = str(described["path"])
    requests = [base64.b64decode(each) for each in cast("list[str]", described["requests"])]

    def protocol(first: int) -> asyncio.Protocol:
        if kind == "http":
            return LineStream(tally, first, address, path)
        asked = {stream: requests[stream % len(requests)] for stream in range(first, first + each)}
        again = bool(described["comes_again"])
        return GrpcStreams(tally, address, path, asked, comes_again=again)

    await _connect_all(address, [protocol(first) for first in range(0, count, each)])
    say(ready=True)
    told = await lines()
    while line := await told.readline():
        wanted = json.loads(line)
        if wanted == "ended":
            messages = await tally.all_ended()
            say(messages=messages, last=_texts(tally.last()), again=tally.came_again())
            continue
        tally.want(wanted)
        say(waiting=True)
        at = await tally.arrived()
        say(at=at, last=_texts(tally.last()), again=tally.came_again())


async def _connect_all(address: str, protocols: Sequence[asyncio.Protocol]) -> None:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    for begin in range(0, len(protocols), _CONNECTIONS_AT_ONCE):
        some = protocols[begin : begin + _CONNECTIONS_AT_ONCE]
        await asyncio.gather(
            *(loop.create_connection(partial(_same, each), host, int(port)) for each in some)
        )


def _same(protocol: asyncio.Protocol) -> asyncio.Protocol:
    return protocol


def _texts(messages: set[bytes]) -> list[str]:
    return [base64.b64encode(each).decode() for each in messages]


async def grpc_stream_empty(method: str, message: bytes) -> None:
    """Serve a message on each stream at once, and again for each line on stdin."""
    news, sent = Wakeup(), 1

    async def answer(_request: bytes, _context: object) -> AsyncIterator[bytes]:
        got = 0
        while True:
            waking = news.next()
            while got < sent:
                got += 1
                yield message
            await waking.wait()

    server = grpc.aio.server(options=UNLIMITED)
    service, _, name = method.strip("/").partition("/")
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {name: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    say(grpc=f"127.0.0.1:{port}")
    told = await lines()
    while await told.readline():
        say(sent=True)
        sent += 1
        news.ring()
