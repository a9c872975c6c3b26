"""Sends answers, and finds out which of them are read.

A server accepts a body when it has buffered it, not when the client has read it: Granian keeps a
copy until HTTP/2's flow control lets it go. But of a body in pieces it buffers a few, and accepts
the next one when the client reads the first. So a body in eight pieces or more shows whether its
client reads. The more bytes are unread, the smaller the pieces, so that all unread answers together
take little memory (a file sent by the extension `http.response.pathsend` costs 275 KB a stream, and
shows nothing).

Pieces cost time, so most bodies are one message. Which of them go in pieces is random, in
proportion to their size: on average each 8 MiB that is unread shows once. When unread answers have
shown four times, all answers go in pieces, and are counted exactly.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Final

from apidiscovery_service.openapi.body import Packed
from apidiscovery_service.serving.http.messages import (
    Message,
    PreparedResponse,
    Receive,
    Send,
    body_message,
)
from apidiscovery_service.serving.unread import Reservation, UnreadBudget

# The size that an unread answer in pieces counts as: about the memory that it takes.
RESERVED_BYTES: Final = 32 * 1024
# Memory of any answer beside its body.
_STREAM_BYTES = 8 * 1024
# Bodies of this size and above always go in pieces.
_LARGE_BYTES: Final = 8 * 1024 * 1024
# Unread bytes of a caller, and of all, from which on every answer goes in pieces.
_TRUSTED_BYTES = 4 * RESERVED_BYTES
_TRUSTED_TOTAL_BYTES = 8 * RESERVED_BYTES

PIECE_BYTES: Final = 256 * 1024
_MIN_PIECE_BYTES = 1024
# Granian buffers six pieces before it waits for the client; a body has more.
_MIN_PIECES = 8
# Memory for the next pieces of all answers together, about.
_PIECES_BYTES = 2 * 1024 * 1024

# Rest of a body for which a disconnect is watched: servers do not report it when given a piece.
_DISCONNECT_BYTES = 64 * 1024
# Pieces that are sent before other tasks run.
_PIECES_AT_ONCE = 4

# An HTTP/1.1 connection carries one answer at a time; the kernel's buffer takes small ones.
_SOCKET_BYTES = 16 * 1024


class Delivery:
    """Sends the answers of one gateway.

    Args:
        unread: Hands out reservations to answers that go in pieces.
    """

    def __init__(self, unread: UnreadBudget) -> None:
        self._unread = unread

    def is_counted(
        self, answer: PreparedResponse, caller: Callable[[], str], *, is_http2: bool
    ) -> bool:
        """Decide, in part at random, whether an answer goes in pieces.

        Args:
            answer: The answer.
            caller: Returns the limit key of its caller.
            is_http2: Whether its connection may carry others at the same time.
        """
        size = answer.size
        if size >= _LARGE_BYTES or isinstance(answer.body["body"], Packed):
            return True
        if not size or (size <= _SOCKET_BYTES and not is_http2):
            return False
        total = self._unread.total
        if total and (total >= _TRUSTED_TOTAL_BYTES or self._unread.of(caller()) >= _TRUSTED_BYTES):
            return True
        return random.random() * _LARGE_BYTES < size + _STREAM_BYTES  # noqa: S311 - no secret

    def reserve(self, connection: str, caller: str) -> Reservation | None:
        """Reserve room for an answer that goes in pieces; None if it must be refused."""
        return self._unread.reserve(connection, caller, RESERVED_BYTES)

    async def send_frame(
        self, connection: str, caller: Callable[[], str], send: Send, message: Message
    ) -> None:
        """Send a message of a stream, counted until the server accepts it.

        Raises:
            OSError: The caller leaves too much unread.
        """
        body = message.get("body")
        if not body:
            await send(message)
            return
        reservation = self._unread.reserve(connection, caller(), len(body))
        if reservation is None:
            raise OSError("too much is unread")
        try:
            await send(message)
        finally:
            self._unread.release(reservation)

    async def send(
        self, receive: Receive, send: Send, answer: PreparedResponse, reservation: Reservation
    ) -> None:
        """Send an answer in pieces, and release its reservation."""
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
                if reservation.is_cut or (gone is not None and gone.done()):
                    return
                self._unread.touch(reservation)
                if gone is None and left > _DISCONNECT_BYTES:
                    gone = asyncio.ensure_future(disconnected(receive))
        except asyncio.CancelledError:  # the server stops; Granian would log a traceback
            return
        finally:
            self._unread.release(reservation)
            if gone is not None:
                gone.cancel()

    async def _pieces(self, answer: PreparedResponse) -> AsyncIterator[bytes]:
        body: bytes | Packed = answer.body["body"]
        even = min(PIECE_BYTES, answer.size // _MIN_PIECES)
        if isinstance(body, Packed):
            unpacked = await asyncio.to_thread(body.unpacked)  # cached, shared by its readers
            text, at, end = unpacked.text, body.begin, body.end
        else:
            text, at, end = body, 0, answer.size
        while at < end:
            others = max(1, self._unread.total // RESERVED_BYTES)
            size = max(_MIN_PIECE_BYTES, min(even, _PIECES_BYTES // others))
            piece = text[at : min(end, at + size)]
            at += len(piece)
            yield piece


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
