"""A fake StorageVersionService for those who report, with errors and delays on demand.

With a resource for the reporters under test.
"""

import asyncio
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery_client.storage_versions import (
    RequestAttributes,
    StorageVersionReporter,
    StoredResource,
)
from grpc_fakes import aio_server
from waiting import WITHIN_S

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

WIDGETS = StoredResource(
    group="example.dev",
    resource="widgets",
    encoding_version="example.dev/v1",
    decodable_versions=("example.dev/v1", "example.dev/v2"),
    served_versions=("example.dev/v1",),
)
WIDGETS_V2 = replace(WIDGETS, encoding_version="example.dev/v2")
CREATE = RequestAttributes("create", "example.dev", "widgets")


@dataclass
class FakeStorageVersions(storage_version_pb2_grpc.StorageVersionServiceServicer):
    """The fake: the members and their reports.

    Attributes:
        members: The uid of the lease by identity.
        reported: The encoding version by identity and `resource.group`.
        calls: Method and request of every call, in order.
        metadata: The metadata of every call.
        failures: By method, how the next calls end.
        lost: By method, how many of the next calls are carried out and then fail.
        silent_joins: Whether answers never state that a member joined.
        renew_after_s: Sent with every heartbeat; None to leave it out.
        held: While clear, reports wait before they are answered.
        is_held: Set when a report waits.
    """

    members: dict[str, str] = field(default_factory=dict[str, str])
    reported: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    metadata: list[dict[str, str | bytes]] = field(default_factory=list[dict[str, str | bytes]])
    failures: dict[str, deque[grpc.StatusCode]] = field(default_factory=lambda: defaultdict(deque))
    lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    silent_joins: bool = False
    renew_after_s: float | None = 0.1
    held: asyncio.Event = field(default_factory=asyncio.Event)
    is_held: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""

    def __post_init__(self) -> None:
        self.held.set()
        self._arrived = asyncio.Condition()

    def requests(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a condition, which is evaluated after every call."""
        async with asyncio.timeout(WITHIN_S), self._arrived:
            await self._arrived.wait_for(is_so)

    async def calls_of(self, method: str, count: int) -> None:
        """Wait until `count` calls of a method have arrived since the start."""
        await self.until(lambda: len(self.requests(method)) >= count)

    def collect(self) -> None:
        """Remove all members and their reports, as a collector of leases does."""
        self.members.clear()
        self.reported.clear()

    async def Heartbeat(  # noqa: N802 - a method of the service
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        await self._enter("Heartbeat", request, context)
        identity = f"apiserver-of-{request.hostname}"
        joined = identity not in self.members
        uid = self.members.setdefault(identity, str(uuid.uuid4()))
        await self._leave("Heartbeat", context)
        answer = pb.HeartbeatResponse(
            api_server_id=identity,
            lease=lease_pb2.Lease(metadata=meta_pb2.ObjectMeta(name=identity, uid=uid)),
            joined=joined and not self.silent_joins,
        )
        if self.renew_after_s is not None:
            answer.renew_after.FromNanoseconds(int(self.renew_after_s * 1e9))
        return answer

    async def Report(  # noqa: N802
        self, request: pb.ReportRequest, context: Context
    ) -> pb.ReportResponse:
        await self._enter("Report", request, context)
        if request.api_server_id not in self.members:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no member")
        for resource in request.resources:
            name = f"{resource.resource}.{resource.group}"
            self.reported[request.api_server_id, name] = resource.encoding_version
        if not self.held.is_set():
            self.is_held.set()
            await self.held.wait()
        await self._leave("Report", context)
        return pb.ReportResponse()

    async def Depart(  # noqa: N802
        self, request: pb.DepartRequest, context: Context
    ) -> pb.DepartResponse:
        await self._enter("Depart", request, context)
        gone = self.members.pop(request.api_server_id, None)
        return pb.DepartResponse(was_member=gone is not None)

    async def _enter(self, method: str, request: object, context: Context) -> None:
        self.calls.append((method, request))
        self.metadata.append(dict(context.invocation_metadata() or ()))
        async with self._arrived:
            self._arrived.notify_all()
        if self.failures[method]:
            await context.abort(self.failures[method].popleft(), f"{method} fails")

    async def _leave(self, method: str, context: Context) -> None:
        if self.lost[method]:
            self.lost[method] -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")

    # Methods that a reporter never calls.
    def _unused(self, request: object, context: object) -> NoReturn:
        raise NotImplementedError

    GetStorageVersion = ListStorageVersions = _unused
    WatchStorageVersions = WaitForAgreement = _unused


@asynccontextmanager
async def fake_service(
    fake: FakeStorageVersions | None = None, address: str = "127.0.0.1:0"
) -> AsyncGenerator[FakeStorageVersions]:
    """Serve a fake, on a free port unless the address names one."""
    fake = fake or FakeStorageVersions()
    add = partial(storage_version_pb2_grpc.add_StorageVersionServiceServicer_to_server, fake)
    async with aio_server(add, address, grace_s=0.2) as fake.address:
        try:
            yield fake
        finally:
            fake.held.set()


async def confirmed(reporter: StorageVersionReporter) -> None:
    """Wait until all reports are confirmed, which opens the gate."""
    async with asyncio.timeout(WITHIN_S):
        await reporter.wait_confirmed()
