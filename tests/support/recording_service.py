"""A proxy between API servers and a replica: it records calls, and holds those a test names."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NoReturn, Self, TypeAlias, TypeVar

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery_service.storage_versions.leases import identity
from grpc_fakes import aio_server
from storage_version_history import History, connected

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
AnswerT = TypeVar("AnswerT")

_STOP_S = 0.1


class Steps:
    """Steps of an API server at which its calls can be held.

    Args:
        dice: Decides how long each report is delayed.

    Attributes:
        report_takes_s: The longest delay of a report; the shortest is half of it.
    """

    def __init__(self, dice: random.Random) -> None:
        self.report_takes_s = 0.0
        self._dice = dice
        self._held: dict[tuple[str, str], asyncio.Event] = {}

    def hold(self, server_id: str, step: str) -> asyncio.Event:
        """Hold every call of a server at a step; return an event that is set when a call is held.

        Args:
            server_id: The identity of the API server.
            step: `before Heartbeat`, `after Heartbeat`, `before Report` or `after Report`.
        """
        return self._held.setdefault((server_id, step), asyncio.Event())

    def release(self, server_id: str) -> None:
        """Hold no further calls of a server; held calls stay held."""
        self._held = {key: event for key, event in self._held.items() if key[0] != server_id}

    async def reach(self, server_id: str, step: str) -> None:
        """Wait until a call may continue."""
        if event := self._held.get((server_id, step)):
            event.set()
            await asyncio.Event().wait()  # until its caller is killed
        if step == "before Report":
            await asyncio.sleep(self._dice.uniform(0.5, 1) * self.report_takes_s)


class RecordingService(storage_version_pb2_grpc.StorageVersionServiceServicer):
    """A proxy that API servers take for the service.

    Args:
        history: Records the calls.
        steps: Holds calls.
        target: The address of the replica.

    Attributes:
        address: HOST:PORT, once it is entered.
    """

    def __init__(self, history: History, steps: Steps, target: str) -> None:
        self._history = history
        self._steps = steps
        self._target = target
        self._stack = AsyncExitStack()
        self.address = ""

    async def __aenter__(self) -> Self:
        self._stub = storage_version_pb2_grpc.StorageVersionServiceStub(
            await self._stack.enter_async_context(connected(self._target))
        )
        add = partial(storage_version_pb2_grpc.add_StorageVersionServiceServicer_to_server, self)
        served = aio_server(add, grace_s=_STOP_S)
        self.address = await self._stack.enter_async_context(served)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def Heartbeat(  # noqa: N802 - a method of the service
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        server_id = identity(request.hostname, request.component)
        return await self._pass(
            "Heartbeat",
            server_id,
            lambda: self._history.heartbeat(self._stub, request, context.time_remaining()),
            context,
        )

    async def Report(  # noqa: N802
        self, request: pb.ReportRequest, context: Context
    ) -> pb.ReportResponse:
        return await self._pass(
            "Report",
            request.api_server_id,
            lambda: self._history.report(self._stub, request, context.time_remaining()),
            context,
        )

    async def Depart(  # noqa: N802
        self, request: pb.DepartRequest, context: Context
    ) -> pb.DepartResponse:
        return await self._pass(
            "Depart",
            request.api_server_id,
            lambda: self._history.depart(self._stub, request, context.time_remaining()),
            context,
        )

    async def _pass(
        self,
        method: str,
        server_id: str,
        call: Callable[[], Awaitable[AnswerT]],
        context: Context,
    ) -> AnswerT:
        await self._steps.reach(server_id, f"before {method}")
        try:
            answer = await call()
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
        await self._steps.reach(server_id, f"after {method}")
        return answer

    # Methods that a reporter never calls.
    def _unused(self, request: object, context: object) -> NoReturn:
        raise NotImplementedError

    GetStorageVersion = ListStorageVersions = _unused
    WatchStorageVersions = WaitForAgreement = _unused
