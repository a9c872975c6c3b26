"""The processes that hold many streams, and that answer them with what costs nothing to make."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import cast

import grpc
import grpc.aio
from apidiscovery_service.store.wakeup import Wakeup
from children import UNLIMITED, lines, say
from streams import GrpcStreams, LineStream, StreamError

_GIVE_UP_S = 60.0

# So many connections are begun at once; a listener's queue is finite.
_CONNECTIONS_AT_ONCE = 50


class Streams:
    """How much has come on each of many streams.

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
    tally = Streams(count)
    path = str(described["path"])
    requests = [base64.b64decode(each) for each in cast("list[str]", described["requests"])]

    def protocol(first: int) -> asyncio.Protocol:
        if kind == "http":
            return LineStream(tally, first, address, path)
        asked = {stream: requests[stream % len(requests)] for stream in range(first, first + each)}
        again = bool(described["comes_again"])
        return GrpcStreams(tally, address, path, asked, comes_again=again)

    await _connect(address, [protocol(first) for first in range(0, count, each)])
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


async def _connect(address: str, protocols: Sequence[asyncio.Protocol]) -> None:
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
