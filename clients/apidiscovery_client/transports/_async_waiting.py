"""The waiting of a gRPC transport with asyncio."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client._grpc.errors import CallFailedError
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import (
    Metadata,
    Renewal,
    may_block,
)
from apidiscovery_client.transports._grpc_watching import Patience, silent

AsyncRead: TypeAlias = Callable[[], Awaitable[Message | None]]


class AsyncWaiting:
    """Waits for the end of the transport, for credentials and for messages."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the transport was closed."""
        return self._over.is_set()

    def end(self) -> None:
        """Mark the transport as closed and wake waiting callers."""
        self._over.set()

    async def is_over_within(self, wait_s: float) -> bool:
        """Return after that many seconds, or as soon as it is over; whether it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._over.wait()
        return self._over.is_set()

    async def metadata(self, server: GrpcServer) -> Metadata:
        """Return the metadata of a call."""
        if may_block(server):
            return await asyncio.to_thread(server.metadata)
        return server.metadata()

    async def renewed(self, renewal: Renewal) -> bool:
        """Return whether there are other credentials."""
        return await asyncio.to_thread(renewal.try_again)

    async def message(self, read: AsyncRead, patience: Patience) -> Message | None:
        """Return the next message, None at the end; raise `CallFailedError` after long silence."""
        try:
            async with asyncio.timeout(patience.silence_s):
                return await read()
        except TimeoutError:
            raise CallFailedError(silent(patience)) from None
