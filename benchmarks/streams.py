"""A process that holds many watches open, as clients do that come back.

A thousand grpc.aio calls would take more of the machine than the server that is measured. So the
client here is minimal: HTTP/2 as a gRPC client speaks it (RFC 9113; gRPC over HTTP2).
"""

import asyncio
import base64
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from children import say

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
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

_GIVE_UP_S = 240.0

# Connections that are opened concurrently; a listener's queue is finite.
_CONNECTIONS_AT_ONCE = 50


class Tally:
    """The first message of each stream.

    Attributes:
        at: When it came (`time.perf_counter`), by the number of the stream.
        messages: The different messages.
        again: How many calls and connections were opened again, by the reason.
        complete: Set when each stream has a message.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.at: dict[int, float] = {}
        self.messages: set[bytes] = set()
        self.again = Counter[str]()
        self.complete = asyncio.Event()

    def message(self, stream: int, at: float, message: bytes) -> None:
        """Count a message."""
        if stream not in self.at:
            self.at[stream] = at
            self.messages.add(message)
        if len(self.at) == self._count:
            self.complete.set()


class Watches(asyncio.Protocol):
    """One connection with the same call on each of its streams, which are opened again.

    Args:
        tally: Receives every message.
        authority: The value of `:authority`.
        method: Path of the call.
        request: The message of the call.
        numbers: Those of the streams; their requests fit into the initial window together.
    """

    def __init__(
        self, tally: Tally, authority: str, method: str, request: bytes, numbers: Sequence[int]
    ) -> None:
        self._tally = tally
        self._authority = authority
        self._head = _request_head(authority, method)
        self._message = bytes(1) + len(request).to_bytes(4) + request
        self._all = numbers

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
        self._transport.write(b"".join([*out, *map(self._begun, self._all)]))

    def _begun(self, number: int) -> bytes:
        """Return what begins a call."""
        stream, self._next = self._next, self._next + 2
        self._numbers[stream], self._messages[stream] = number, bytearray()
        message = self._message
        self._window -= len(message)
        data = (
            _frame(_DATA, _END_STREAM if end >= len(message) else 0, stream, part)
            for part, end in _parts(message)
        )
        return b"".join([_frame(_HEADERS, _END_HEADERS, stream, self._head), *data])

    def _begin_again(self, transport: asyncio.Transport, number: int) -> None:
        if transport is not self._transport or transport.is_closing():
            return  # the next connection begins all
        if self._window > len(self._message):
            transport.write(self._begun(number))
        else:
            self._later(_LOST_S, self._begin_again, transport, number)

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        self._unread += data
        for kind, flags, stream, payload in self._frames():
            self._take(kind, flags, stream, payload, at)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._tally.again["connection lost"] += 1
        self._later(_LOST_S, self._connect)

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
        self._tally.again["call refused"] += 1
        self._later(_REFUSED_S, self._begin_again, self._transport, number)

    def _take_data(self, stream: int, payload: bytes, at: float) -> None:
        unread = self._messages[stream]
        unread += payload
        while len(unread) >= _MESSAGE_HEAD:
            end = _MESSAGE_HEAD + int.from_bytes(unread[1:_MESSAGE_HEAD])
            if len(unread) < end:
                break
            self._tally.message(self._numbers[stream], at, bytes(unread[_MESSAGE_HEAD:end]))
            del unread[:end]


def _writable(transport: asyncio.BaseTransport) -> asyncio.Transport:
    return cast("asyncio.Transport", transport)  # uvloop's are not subclasses


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


async def watch(
    address: str, method: str, request: bytes, connections: int, per_connection: int
) -> None:
    """Hold watches, and print when the first message of each came.

    With these moments come the different messages, in base64, and how often something was opened
    again.
    """
    count = connections * per_connection
    tally = Tally(count)
    numbers = [range(first, first + per_connection) for first in range(0, count, per_connection)]
    host, _, port = address.rpartition(":")
    slots = asyncio.Semaphore(_CONNECTIONS_AT_ONCE)

    async def connect(some: Sequence[int]) -> None:
        async with slots:
            await asyncio.get_running_loop().create_connection(
                lambda: Watches(tally, address, method, request, some), host, int(port)
            )

    async with asyncio.timeout(_GIVE_UP_S):
        await asyncio.gather(*map(connect, numbers))
        await tally.complete.wait()
    messages = [base64.b64encode(each).decode() for each in tally.messages]
    say(at=list(tally.at.values()), messages=messages, again=tally.again)
