"""Drives the clients of this project."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Literal

from apidiscovery_client import AsyncDiscoveryClient, DiscoveryClient, Resolution
from apidiscovery_client.cache import DiskCache
from apidiscovery_client.changes import GroupAdded
from apidiscovery_client.transports import Traffic
from client_child import Found

_TIMEOUT_S = 20.0
_QUESTIONS = 100


class Sync:
    """`DiscoveryClient`."""

    def __init__(self, target: str, folder: Path) -> None:
        self._target, self._folder = target, folder

    # Made with the first lookup, as with the other clients, so that it is measured.
    @cached_property
    def _client(self) -> DiscoveryClient:
        cache = DiskCache(self._folder / "cache")
        return DiscoveryClient(self._target, cache=cache)

    def find(self, kind: str, _group: str, _version: str) -> Found:
        return _found(self._client.resolve_kind(kind))

    def check(self) -> None:
        self._client.snapshot(max_age_s=0)

    @property
    def traffic(self) -> dict[str, int]:
        return _counted(self._client.traffic)

    def close(self) -> None:
        self._client.close()


class OverAsyncio:
    """`AsyncDiscoveryClient`, with what the target says."""

    _stubs: Literal["grpcio", "betterproto"] = "grpcio"

    def __init__(self, target: str, folder: Path) -> None:
        self._target, self._folder = target, folder
        self._runner = asyncio.Runner()

    @cached_property
    def _client(self) -> AsyncDiscoveryClient:
        cache = DiskCache(self._folder / "cache")
        return AsyncDiscoveryClient(self._target, stubs=self._stubs, cache=cache)

    def find(self, kind: str, _group: str, _version: str) -> Found:
        return _found(self._runner.run(self._client.resolve_kind(kind)))

    def check(self) -> None:
        self._runner.run(self._client.snapshot(max_age_s=0))

    def watch(self, kind: str, group: str, told: Callable[[], None]) -> Found:
        return self._runner.run(self._watched(kind, group, told))

    async def _watched(self, kind: str, group: str, told: Callable[[], None]) -> Found:
        following, there = asyncio.Event(), asyncio.Event()
        async with asyncio.timeout(_TIMEOUT_S), asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self._follow(group, following, there))
            await following.wait()
            told()
            for _ in range(_QUESTIONS):
                await self._client.resolve_kind("Deployment")
                await self._client.snapshot()
            await there.wait()
            resolution = await self._client.resolve_kind(kind)
            task.cancel()
        return _found(resolution)

    async def _follow(self, group: str, following: asyncio.Event, there: asyncio.Event) -> None:
        async with contextlib.aclosing(self._client.watch(initial=True)) as changes:
            async for change in changes:
                following.set()
                if isinstance(change, GroupAdded) and change.group.name == group:
                    there.set()

    @property
    def traffic(self) -> dict[str, int]:
        return _counted(self._client.traffic)

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class WithBetterproto(OverAsyncio):
    """The same with the other stubs."""

    _stubs = "betterproto"


def _found(resolution: Resolution) -> Found:
    resource = resolution.resource
    return resource.gv.group, resource.gv.version, resource.name, resource.is_namespaced


def _counted(traffic: Traffic) -> dict[str, int]:
    return {"not_modified": traffic.not_modified, "body_bytes": traffic.body_bytes}
