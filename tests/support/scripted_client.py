"""Both clients of a scripted server, with a clock to set."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from apidiscovery_client._interfaces import FetchedSnapshot, SnapshotCache
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.client import DiscoveryClient
from either_client import Either, InThreads
from scripted_transport import (
    ScriptedServer,
    ScriptedTransport,
    SetClock,
    SyncScriptedTransport,
)

KEY = "a key"


class MemoryCache:
    """A cache that records what was put into it, in order."""

    def __init__(self, fetched: FetchedSnapshot | None = None) -> None:
        self.fetched = fetched
        self.reads = 0
        self.puts: list[FetchedSnapshot] = []

    def get(self, key: str) -> FetchedSnapshot | None:
        assert key == KEY
        self.reads += 1
        return self.fetched

    def put(self, key: str, fetched: FetchedSnapshot) -> None:
        assert key == KEY
        self.fetched = fetched
        self.puts.append(fetched)


@dataclass(frozen=True)
class Scene:
    """A server that serves nothing yet, and clients of it.

    Attributes:
        is_async: Whether `client` returns the asynchronous client.
    """

    is_async: bool
    clock: SetClock
    script: ScriptedServer

    def client(
        self,
        *,
        cache: SnapshotCache | None = None,
        options: ClientOptions = DEFAULT_OPTIONS,
        can_listen: bool = False,
    ) -> Either:
        """Return a new client, which the caller closes."""
        if self.is_async:
            return AsyncDiscoveryClient(
                ScriptedTransport(self.script, can_listen=can_listen),
                cache=cache or False,
                cache_key=KEY,
                options=options,
                clock=self.clock,
            )
        return InThreads(
            DiscoveryClient(
                SyncScriptedTransport(self.script, can_listen=can_listen),
                cache=cache or False,
                cache_key=KEY,
                options=options,
                clock=self.clock,
            )
        )

    def replica(self, script: ScriptedServer) -> ScriptedTransport | SyncScriptedTransport:
        """Return a transport to another server."""
        return ScriptedTransport(script) if self.is_async else SyncScriptedTransport(script)

    def reset(self) -> None:
        """Reset the count of requests."""
        self.script.asked = 0


@asynccontextmanager
async def scene(*, is_async: bool) -> AsyncGenerator[Scene]:
    """Yield a scene; at the end the server releases all requests."""
    clock = SetClock()
    made = Scene(is_async, clock, ScriptedServer(clock))
    try:
        yield made
    finally:
        made.script.release()
