"""Both clients under one interface, for tests of both."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from typing import Self, TypeAlias, TypeVar, cast

from apidiscovery_client._interfaces import Traffic, Transport
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.changes import Change
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import GroupVersion, GroupVersionKind, Resource, Snapshot, Version
from apidiscovery_client.resolving import Explanation, Resolution, Resolver

_T = TypeVar("_T")
Wanted: TypeAlias = str | GroupVersion | GroupVersionKind


class InThreads:
    """A `DiscoveryClient` whose methods run in threads."""

    def __init__(self, client: DiscoveryClient) -> None:
        self.client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def server(self) -> str:
        return self.client.server

    @property
    def traffic(self) -> Traffic:
        return self.client.traffic

    async def snapshot(self, *, max_age_s: float | None = None) -> Snapshot:
        return await asyncio.to_thread(self.client.snapshot, max_age_s=max_age_s)

    async def refresh(self) -> Snapshot:
        return await asyncio.to_thread(self.client.refresh)

    async def resolve(self, text: str, *, strict: bool = False) -> Resolution:
        return await asyncio.to_thread(self.client.resolve, text, strict=strict)

    async def resolve_kind(self, kind: str, group: str | None = None) -> Resolution:
        return await asyncio.to_thread(self.client.resolve_kind, kind, group)

    async def category(self, name: str) -> tuple[Resource, ...]:
        return await asyncio.to_thread(self.client.category, name)

    async def explain_resolution(self, text: str) -> Explanation:
        return await asyncio.to_thread(self.client.explain_resolution, text)

    async def look_up(self, wanted: Hashable, ask: Callable[[Resolver], _T]) -> _T:
        return await asyncio.to_thread(self.client.look_up, wanted, ask)

    async def wait_for(
        self,
        wanted: Wanted,
        *,
        timeout_s: float = 30.0,
        replicas: Sequence["InThreads | Transport"] = (),
    ) -> Resolution | Version:
        others: list[DiscoveryClient | Transport] = [
            one.client if isinstance(one, InThreads) else one for one in replicas
        ]

        def wait() -> Resolution | Version:
            if isinstance(wanted, GroupVersion):
                return self.client.wait_for(wanted, timeout_s=timeout_s, replicas=others)
            return self.client.wait_for(wanted, timeout_s=timeout_s, replicas=others)

        return await asyncio.to_thread(wait)

    async def watch(
        self, *, interval_s: float = 5.0, initial: bool = False
    ) -> AsyncGenerator[Change]:
        changes = self.client.watch(interval_s=interval_s, initial=initial)
        try:
            while (change := await asyncio.to_thread(next, changes, None)) is not None:
                yield change
        finally:
            changes.close()

    async def close(self) -> None:
        await asyncio.to_thread(self.client.close)


Either: TypeAlias = AsyncDiscoveryClient | InThreads


async def waited(
    client: Either,
    wanted: Wanted,
    *,
    timeout_s: float = 30.0,
    replicas: Sequence[object] = (),
) -> Resolution | Version:
    """Call `wait_for`; the replicas must be clients of the same kind, or texts."""
    if isinstance(client, InThreads):
        threaded = cast("Sequence[InThreads]", replicas)
        return await client.wait_for(wanted, timeout_s=timeout_s, replicas=threaded)
    others = cast("Sequence[AsyncDiscoveryClient]", replicas)
    if isinstance(wanted, GroupVersion):
        return await client.wait_for(wanted, timeout_s=timeout_s, replicas=others)
    return await client.wait_for(wanted, timeout_s=timeout_s, replicas=others)
