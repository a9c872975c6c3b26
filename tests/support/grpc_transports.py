"""The four gRPC transports of the client under one interface, blocking or not."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client.transports.async_betterproto import AsyncBetterprotoTransport
from apidiscovery_client.transports.async_grpc import AsyncGrpcTransport
from apidiscovery_client.transports.betterproto import BetterprotoTransport
from apidiscovery_client.transports.grpc import GrpcTransport
from waiting import WITHIN_S

AnyTransport: TypeAlias = (
    AsyncGrpcTransport | AsyncBetterprotoTransport | GrpcTransport | BetterprotoTransport
)

FAMILIES: dict[str, Callable[..., AnyTransport]] = {
    "grpcio": AsyncGrpcTransport,
    "betterproto": AsyncBetterprotoTransport,
    "sync-grpcio": GrpcTransport,
    "sync-betterproto": BetterprotoTransport,
}


class Listener:
    """Reads the snapshots of a transport, one after the other."""

    def __init__(self, transport: AnyTransport, held: FetchedSnapshot | None) -> None:
        self.telling = transport.listen(held)

    async def next(self, within_s: float = WITHIN_S) -> FetchedSnapshot:
        """Return the next snapshot; raise `StopAsyncIteration` at the end."""
        async with asyncio.timeout(within_s):
            if isinstance(self.telling, AsyncGenerator):
                return await anext(self.telling)
            told = await asyncio.to_thread(next, self.telling, None)
        if told is None:
            raise StopAsyncIteration
        return told

    async def until(
        self, condition: Callable[[FetchedSnapshot], bool], within_s: float = WITHIN_S
    ) -> FetchedSnapshot:
        """Return the next snapshot for which a condition is true."""
        async with asyncio.timeout(within_s):
            while not condition(told := await self.next()):
                pass
        return told

    async def close(self) -> None:
        if isinstance(self.telling, AsyncGenerator):
            await self.telling.aclose()
        else:
            await asyncio.to_thread(self.telling.close)


class Driven:
    """A transport; blocking calls run in threads."""

    def __init__(self, transport: AnyTransport) -> None:
        self.transport = transport
        self.traffic = transport.traffic

    async def fetch(self, held: FetchedSnapshot | None = None) -> FetchedSnapshot:
        async with asyncio.timeout(WITHIN_S):
            if isinstance(self.transport, AsyncGrpcTransport | AsyncBetterprotoTransport):
                return await self.transport.fetch(held)
            return await asyncio.to_thread(self.transport.fetch, held)

    @asynccontextmanager
    async def listening(self, held: FetchedSnapshot | None = None) -> AsyncGenerator[Listener]:
        """Listen, and close the listener at the end."""
        listener = Listener(self.transport, held)
        try:
            yield listener
        finally:
            with contextlib.suppress(ValueError):  # a thread is just reading
                await listener.close()

    async def close(self) -> None:
        if isinstance(self.transport, AsyncGrpcTransport | AsyncBetterprotoTransport):
            await self.transport.close()
        else:
            await asyncio.to_thread(self.transport.close)


@asynccontextmanager
async def opened(family: str, server: GrpcServer | str, **options: float) -> AsyncGenerator[Driven]:
    """Open a transport of a family to a server, or to an address without TLS."""
    if isinstance(server, str):
        server = local(server)
    driven = Driven(FAMILIES[family](server, **options))
    try:
        yield driven
    finally:
        await driven.close()


def local(address: str, timeout_s: float | None = WITHIN_S, **more: str) -> GrpcServer:
    """Return a server of this machine without TLS."""
    token = more.get("token")
    return GrpcServer(address=address, token=token, request_timeout_s=timeout_s)
