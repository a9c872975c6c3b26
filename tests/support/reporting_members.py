"""Fake API servers: only their calls to the service, at random."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Self, TypeVar

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from google.protobuf.duration_pb2 import Duration
from storage_version_history import History, Stub, connected

GROUP = "example.com"
VERSIONS = ("v1", "v2")
_CALL_S = 2.0
_REPORT_S = 5.0
_PAUSE_S = 0.05

AnswerT = TypeVar("AnswerT")


class Member:
    """Sends heartbeats and reports, to any of the replicas.

    Args:
        history: Records the calls.
        addresses: The addresses of the replicas.
        name: The host name.
        resources: The resources that it reports.
        lease_s: The duration of its lease.
        seed: The seed of its random numbers.

    Attributes:
        server_id: Its identity; empty before the first heartbeat.
        joined: How often it has joined.
        lease_s: The duration of its lease from the next heartbeat on.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        history: History,
        addresses: Sequence[str],
        *,
        name: str,
        resources: Sequence[str],
        lease_s: int,
        seed: int,
    ) -> None:
        self.name = name
        self.server_id = ""
        self.joined = 0
        self._history = history
        self._addresses = addresses
        self._resources = resources
        self.lease_s = lease_s
        self._dice = random.Random(f"{seed} {name}")  # noqa: S311 - to be repeated
        self._stack = AsyncExitStack()
        self._stubs: list[Stub] = []

    async def __aenter__(self) -> Self:
        for address in self._addresses:
            channel = await self._stack.enter_async_context(connected(address))
            self._stubs.append(storage_version_pb2_grpc.StorageVersionServiceStub(channel))
        self._dice.shuffle(self._stubs)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def beat(self) -> None:
        """Send a heartbeat until it is acknowledged."""
        request = pb.HeartbeatRequest(
            hostname=self.name, instance=self.name, lease_duration=Duration(seconds=self.lease_s)
        )
        answer = await self._until_done(
            lambda stub: self._history.heartbeat(stub, request, _CALL_S)
        )
        self.server_id = answer.api_server_id
        self.joined += answer.joined

    async def report(self, *versions: str) -> None:
        """Report until it is acknowledged; each resource has one of the versions at random."""
        request = pb.ReportRequest(api_server_id=self.server_id)
        for resource in self._resources:
            version = f"{GROUP}/{self._dice.choice(versions)}"
            request.resources.add(
                group=GROUP,
                resource=resource,
                encoding_version=version,
                decodable_versions=[f"{GROUP}/{one}" for one in VERSIONS],
                served_versions=[version],
            )
        await self._until_done(lambda stub: self._history.report(stub, request, _REPORT_S))

    async def depart(self) -> None:
        request = pb.DepartRequest(api_server_id=self.server_id)
        await self._until_done(lambda stub: self._history.depart(stub, request, _CALL_S))

    async def keep_alive(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await self.beat()
            await asyncio.sleep(self.lease_s / 4)

    async def live(self, until: float) -> None:
        """Join, report, and depart or stop without departing, again and again until a time."""
        while time.monotonic() < until:
            keeping = asyncio.create_task(self.keep_alive())
            try:
                await self._live_once(until)
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
            if self._dice.random() < 0.5:
                await self.depart()
            else:
                await asyncio.sleep(self.lease_s * self._dice.uniform(0, 2))

    async def flap(self, until: float) -> None:
        """Depart and join at once with the same report, again and again until a time.

        So a server reports the same entries that a collector is about to remove.
        """
        while time.monotonic() < until:
            await self.beat()
            await self.report(VERSIONS[0])
            await self.beat()
            await asyncio.sleep(self._dice.uniform(0, 0.3))
            await self.beat()
            await self.depart()
            await asyncio.sleep(self._dice.uniform(0, 0.03))

    async def _live_once(self, until: float) -> None:
        await self.beat()
        version = self._dice.choice(VERSIONS)
        while time.monotonic() < until and self._dice.random() > 0.15:
            await self.report(*(VERSIONS if self._dice.random() < 0.2 else [version]))
            await asyncio.sleep(self._dice.expovariate(2))

    async def _until_done(self, call: Callable[[Stub], Awaitable[AnswerT]]) -> AnswerT:
        while True:
            try:
                return await call(self._stubs[0])
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                    await self.beat()
                elif error.code() not in _ELSEWHERE:
                    raise
                self._stubs.append(self._stubs.pop(0))
                await asyncio.sleep(_PAUSE_S)


_ELSEWHERE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
