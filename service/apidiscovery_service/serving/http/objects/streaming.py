"""Sending an answer that goes on, until somebody ends it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

from apidiscovery_service.serving.http.objects.watching import Frames

# The names of the ASGI specification.
Message: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[Message]]

_BODY = "http.response.body"
# How long the end of a stream may take to be sent to a client that does not read.
_LAST_S = 0.5

# What servers raise when they are to send to a client that has gone.
_GONE = (OSError, RuntimeError)


async def stream(
    start: Message,
    frames: Frames,
    send: Send,
    *,
    ends: tuple[Coroutine[Any, Any, None], ...],
    timeout_s: float,
) -> None:
    """Send frames, each at once, until there are no more, time is over or something else ends it.

    Args:
        start: The message that begins the answer; it is sent even if no frame comes.
        frames: What to send; closed at the end.
        send: As ASGI has it.
        ends: The answer ends as soon as one of these returns.
        timeout_s: How long it lasts at most.

    Raises:
        Exception: Whatever the frames raise.
    """
    tasks = [asyncio.ensure_future(each) for each in (_pump(start, frames, send), *ends)]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await frames.aclose()
    with suppress(TimeoutError, *_GONE):
        async with asyncio.timeout(_LAST_S):
            await send({"type": _BODY, "body": b"", "more_body": False})
    if not tasks[0].cancelled():
        tasks[0].result()


async def _pump(start: Message, frames: Frames, send: Send) -> None:
    # The header fields go out with the first piece of the body, so there is one at once.
    pieces = (start, {"type": _BODY, "body": b"", "more_body": True})
    for piece in pieces:
        if not await _sent(piece, send):
            return
    async for frame in frames:
        if not await _sent({"type": _BODY, "body": frame, "more_body": True}, send):
            return


async def _sent(message: Message, send: Send) -> bool:
    """Send a message; False if nobody is there to take it."""
    try:
        await send(message)
    except _GONE:
        return False
    return True
