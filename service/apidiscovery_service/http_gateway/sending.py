"""Sending large bodies: a server copies what it is given while it holds the interpreter.

A body of 129 MB kept the event loop, and with it every other caller, waiting for 85 ms, half of
that in pages of memory that had to come from the system. Pieces of 256 KiB take 0.1 ms each, and of
a client that reads slowly no more than a piece waits in memory. Nor should pieces be much smaller:
Granian takes four at once, and whoever has more to send waits until it comes round to say so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias

from apidiscovery_service.http_gateway.kept import Message
from apidiscovery_service.openapi.packed import PIECE_BYTES, WHOLE_BYTES, Packed

_Send: TypeAlias = Callable[[Message], Awaitable[None]]


def is_one_message(body: bytes | Packed) -> bool:
    """Tell whether a body can be sent as it is."""
    return not isinstance(body, Packed) and len(body) <= WHOLE_BYTES


def body_message(body: bytes | Packed, *, more: bool = False) -> Message:
    """Return the message that sends a body, or a piece of one, as ASGI has it."""
    return {"type": "http.response.body", "body": body, "more_body": more}


async def send_parts(send: _Send, ahead: Iterable[bytes], last: bytes | Packed) -> None:
    """Send a body that consists of parts, in pieces that are neither large nor many.

    Args:
        send: As ASGI has it.
        ahead: What comes before the last part.
        last: Unpacked while it is sent.
    """
    if isinstance(last, Packed):
        for piece in _pieces(ahead):
            await send(body_message(piece, more=True))
        await _send_packed(send, last)
        return
    parts = (*ahead, last)
    if len(parts) == 1 and is_one_message(last):
        await send(body_message(last))
        return
    left = sum(map(len, parts))
    for piece in _pieces(parts):
        left -= len(piece)
        await send(body_message(piece, more=left > 0))


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of parts in pieces of one size, of which the last may be smaller.

    Each is made when it is asked for: what was sent before is on its way by then.
    """
    waiting: list[memoryview] = []
    room = PIECE_BYTES
    for part in parts:
        rest = memoryview(part)
        while len(rest) > room:
            yield b"".join((*waiting, rest[:room]))
            rest, waiting, room = rest[room:], [], PIECE_BYTES
        waiting.append(rest)
        room -= len(rest)
    if waiting:
        yield b"".join(waiting)


async def _send_packed(send: _Send, body: Packed) -> None:
    pieces, left = body.pieces(), len(body)
    while left:
        piece = await asyncio.to_thread(next, pieces)
        left -= len(piece)
        await send(body_message(piece, more=left > 0))
    if not len(body):
        await send(body_message(b""))
