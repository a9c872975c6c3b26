"""Streams that go on until their caller goes, or the server stops."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

import grpc
import grpc.aio

STOPPING = "the server is stopping"

# In which a stream ends whose caller reads.
LAST_WORD_S = 0.5

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class _Ended(Exception):
    """The stream is to send nothing more."""


class Stream:
    """One stream, for the task that opens it.

    Args:
        context: Of its call.
    """

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._task = asyncio.current_task()
        self._sending = False
        self._ended = False

    async def send(self, message: bytes) -> None:
        """Send an encoded message, once the caller has room for it."""
        self._sending = True
        try:
            await self._context.write(message)
        except grpc.aio.InternalError as error:  # the caller has gone meanwhile
            raise _Ended from error
        self._sending = False
        # grpc can lose the cancellation of a handler that is just writing.
        if self._ended or self._context.done():
            raise _Ended

    def end(self) -> None:
        """Have the task send nothing more: at once, or when it has sent what it is sending.

        To cancel it then would lose the end: grpc sends no status beside an interrupted message,
        which it goes on sending (GRPC_CALL_ERROR_TOO_MANY_OPERATIONS).
        """
        self._ended = True
        if self._task is not None and not self._sending:
            self._task.cancel()


class Streams:
    """The streams of one service."""

    def __init__(self) -> None:
        self._open: set[Stream] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def stopping(self) -> bool:
        """Whether `end` has been called."""
        return self._stopping

    async def end(self) -> None:
        """End every stream with UNAVAILABLE, so that its caller goes on at another replica.

        Returns once they have ended, or soon: one whose caller does not read cannot be told.
        """
        self._stopping = True
        for stream in self._open:
            stream.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD_S):
                await self._none_open.wait()

    @contextlib.asynccontextmanager
    async def open(self, context: _Context) -> AsyncGenerator[Stream]:
        """Hold a stream open until what is within ends, is cancelled, or the server stops."""
        stream = Stream(context)
        self._open.add(stream)
        self._none_open.clear()
        # Also called when the call has ended in another way; then there is nothing left to end.
        # The stubs want a callback of a class that does not exist.
        context.add_done_callback(lambda _: self._leave(stream))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        try:
            yield stream
        except (_Ended, asyncio.CancelledError):
            if not self._stopping or context.done():
                raise asyncio.CancelledError from None
            await context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
        finally:
            self._open.discard(stream)
            if not self._open:
                self._none_open.set()

    def _leave(self, stream: Stream) -> None:
        if stream in self._open:
            stream.end()
