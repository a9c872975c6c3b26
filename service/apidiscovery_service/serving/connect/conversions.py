"""Conversions of large messages, in threads, each once for all who need it at a time.

After a change every client asks for the same document, and its JSON takes 0.2 s for 1,500 groups.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

_Key: TypeAlias = tuple[Callable[..., bytes], tuple[object, ...]]

# Smaller messages are converted inline.
_INLINE_BYTES = 16 * 1024
# What is kept: the results of some documents of the current snapshot, in a few forms.
_MAX_KEPT = 8
_MAX_BYTES = 2 * 1024 * 1024


class Conversions:
    """Runs conversions, and keeps the results of the last few."""

    def __init__(self) -> None:
        self._kept: dict[_Key, asyncio.Task[bytes]] = {}

    async def run(self, convert: Callable[..., bytes], message: bytes, *arguments: object) -> bytes:
        """Return what a pure function makes of a message and other arguments.

        Raises:
            Exception: An exception of the function.
        """
        if len(message) < _INLINE_BYTES:
            return convert(message, *arguments)
        if len(message) > _MAX_BYTES:
            return await asyncio.to_thread(convert, message, *arguments)
        key = (convert, (message, *arguments))
        converting = self._kept.pop(key, None)
        if converting is None or (converting.done() and converting.exception() is not None):
            converting = asyncio.create_task(asyncio.to_thread(convert, message, *arguments))
        self._kept[key] = converting
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        # Whoever is cancelled leaves it to the others.
        return await asyncio.shield(converting)
