"""Sending large bodies: a server copies what it is given while it holds the interpreter.

A body of 129 MB kept the event loop, and with it every other caller, waiting for 85 ms, half of
that in pages of memory that had to come from the system. Pieces of 256 KiB take 0.1 ms each, and of
a client that reads slowly no more than a piece waits in memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
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
    """Send a body that consists of parts; what of it is large or packed goes piece by piece.

    Args:
        send: As ASGI has it.
        ahead: What comes before the last part.
        last: Unpacked while it is sent.
    """
    for part in ahead:
        await _send_part(send, part, more=True)
    if isinstance(last, Packed):
        await _send_packed(send, last)
    else:
        await _send_part(send, last, more=False)


async def _send_part(send: _Send, part: bytes, *, more: bool) -> None:
    if is_one_message(part):
        await send(body_message(part, more=more))
        return
    view = memoryview(part)
    for begin in range(0, len(view), PIECE_BYTES):
        end = begin + PIECE_BYTES
        await send(body_message(bytes(view[begin:end]), more=more or end < len(view)))


async def _send_packed(send: _Send, body: Packed) -> None:
    pieces, left = body.pieces(), len(body)
    while left:
        piece = await asyncio.to_thread(next, pieces)
        left -= len(piece)
        await send(body_message(piece, more=left > 0))
    if not len(body):
        await send(body_message(b""))
