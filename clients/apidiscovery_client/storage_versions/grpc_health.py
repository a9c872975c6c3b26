"""Tells the health service of a gRPC server whether the server may write.

grpcio-health-checking is not needed here: any servicer with the `set` of its own will do.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Protocol

# grpc.health.v1 HealthCheckResponse.ServingStatus
SERVING = 1
NOT_SERVING = 2


class HealthServicer(Protocol):
    """A `HealthServicer` of grpc_health.v1, synchronous or not."""

    def set(self, service: str, status: int) -> Awaitable[None] | None:
        """Keep the status of a service; the empty name stands for the server."""
        ...


class Changing(Protocol):
    """A reporter, as far as it is needed here."""

    def changes(self) -> AsyncIterator[bool]:
        """Yield whether the gate is open, now and whenever that may have changed."""
        ...


async def follow_health(
    reporter: Changing, servicer: HealthServicer, services: Iterable[str] = ("",)
) -> None:
    """Keep the status of services at SERVING while the gate is open, else at NOT_SERVING.

    Returns when the reporter has ended, with all of them at NOT_SERVING; run it in a task.
    """
    names = tuple(services)
    async for is_open in reporter.changes():
        await _set(servicer, names, SERVING if is_open else NOT_SERVING)
    await _set(servicer, names, NOT_SERVING)


async def _set(servicer: HealthServicer, services: Iterable[str], status: int) -> None:
    for service in services:
        done = servicer.set(service, status)
        if inspect.isawaitable(done):
            await done
