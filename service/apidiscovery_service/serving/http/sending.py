"""Sending answers, and knowing which of them are read.

A server says that it has taken a body, not that a client has: Granian keeps what it was given
until HTTP/2's windows let it go, and copies it for that. But of a body in pieces it keeps a few and
takes the next one when the client takes the first. So a body in eight pieces or more shows who
reads. The more is unread already, the smaller the pieces are, so that all together take little when
nobody reads them (a file sent by the extension `http.response.pathsend` costs 275 KB a stream, and
tells nothing).

Pieces cost time, so most bodies go as one message. Which of them go in pieces is drawn by lot, by
their size: on average every 8 MiB that is not read shows once. When it has shown four times, all
go in pieces, and then they are counted exactly.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

from apidiscovery_service.openapi.body import Packed
from apidiscovery_service.serving.http.kept import Message, Ready
from apidiscovery_service.serving.unread import Place, Unread

# The names of the ASGI specification.
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

# What an answer in pieces takes while its reader takes nothing, about; as it is counted.
PLACE_BYTES: Final = 32 * 1024
# What any answer takes beside its body.
_STREAM_BYTES = 8 * 1024
# From so many bytes on a body always goes in pieces.
LARGE_BYTES: Final = 8 * 1024 * 1024
# How much may show as unread, of a caller and of all, before every answer goes in pieces.
_TRUSTED_BYTES = 4 * PLACE_BYTES
_TRUSTED_TOTAL_BYTES = 8 * PLACE_BYTES

PIECE_BYTES: Final = 256 * 1024
# Granian takes six before it waits for the reader.
_LEAST_PIECE_BYTES = 1024
# So that those six are not all of a body.
_LEAST_PIECES = 8
# What the next pieces of all answers take together, about.
_ROOM_FOR_PIECES = 2 * 1024 * 1024

# From so much on it is worth while to notice that nobody is there any more: servers do not say so
# when they are given a piece.
_NOTICED_BYTES = 64 * 1024
# Pieces that a server takes at once, before others have their turn.
_PIECES_AT_ONCE = 4

# So much a connection of HTTP/1.1, which carries one answer at a time, leaves to the system.
_SOCKET_BYTES = 16 * 1024


def body_message(body: bytes | Packed, *, more: bool = False) -> Message:
    """Return the message that sends a body, or a piece of one, as ASGI has it."""
    return {"type": "http.response.body", "body": body, "more_body": more}


class Delivery:
    """Sends the answers of one gateway.

    Args:
        unread: Gives places to answers that go in pieces.
    """

    def __init__(self, unread: Unread) -> None:
        self._unread = unread

    def is_watched(self, answer: Ready, caller: Callable[[], str], *, is_http2: bool) -> bool:
        """Draw whether an answer goes in pieces.

        Args:
            answer: What is sent.
            caller: Says whose it is.
            is_http2: Whether its connection may carry others at the same time.
        """
        size = answer.size
        if size >= LARGE_BYTES or isinstance(answer.body["body"], Packed):
            return True
        if not size or (size <= _SOCKET_BYTES and not is_http2):
            return False
        total = self._unread.total
        if total and (total >= _TRUSTED_TOTAL_BYTES or self._unread.of(caller()) >= _TRUSTED_BYTES):
            return True
        return random.random() * LARGE_BYTES < size + _STREAM_BYTES  # noqa: S311 - no secret

    def enter(self, connection: str, caller: str) -> Place | None:
        """Give an answer that goes in pieces its place; None if it has to be refused."""
        return self._unread.enter(connection, caller, PLACE_BYTES)

    async def send_frame(
        self, connection: str, caller: Callable[[], str], send: Send, message: Message
    ) -> None:
        """Send a message of an answer that goes on, counted until the server has taken it.

        Raises:
            OSError: Its caller leaves too much unread.
        """
        body = message.get("body")
        if not body:
            await send(message)
            return
        place = self._unread.enter(connection, caller(), len(body))
        if place is None:
            raise OSError("too much is unread")
        try:
            await send(message)
        finally:
            self._unread.leave(place)

    async def send(self, receive: Receive, send: Send, answer: Ready, place: Place) -> None:
        """Send an answer in pieces, and give back its place."""
        left = answer.size
        gone: asyncio.Future[None] | None = None
        number = 0
        try:
            await send(answer.start)
            async for piece in self._pieces(answer):
                left -= len(piece)
                number += 1
                await send(body_message(piece, more=left > 0))
                if number % _PIECES_AT_ONCE == 0:
                    await asyncio.sleep(0)
                if place.is_cut or (gone is not None and gone.done()):
                    return
                self._unread.touch(place)
                if gone is None and left > _NOTICED_BYTES:
                    gone = asyncio.ensure_future(disconnected(receive))
        except asyncio.CancelledError:  # the server ends; Granian would log a traceback
            return
        finally:
            self._unread.leave(place)
            if gone is not None:
                gone.cancel()

    async def _pieces(self, answer: Ready) -> AsyncIterator[bytes]:
        body: bytes | Packed = answer.body["body"]
        even = min(PIECE_BYTES, answer.size // _LEAST_PIECES)
        if isinstance(body, Packed):
            unpacked = await asyncio.to_thread(body.unpacked)  # kept, so that others can share it
            text, at, end = unpacked.text, body.begin, body.end
        else:
            text, at, end = body, 0, answer.size
        while at < end:
            others = max(1, self._unread.total // PLACE_BYTES)
            most = max(_LEAST_PIECE_BYTES, min(even, _ROOM_FOR_PIECES // others))
            piece = text[at : min(end, at + most)]
            at += len(piece)
            yield piece


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
