"""Records the answers and events of a service of storage versions, while faults are injected.

Times are seconds of the monotonic clock, which all processes of a machine share.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2

Stub: TypeAlias = "storage_version_pb2_grpc.StorageVersionServiceAsyncStub"

_PAUSE_S = 0.05
NOT_ENDED = float("inf")


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat that was acknowledged.

    Attributes:
        uid: The uid of the lease; it differs in each membership.
        holder: The holder of the lease; it differs in each life of the server.
        revision: The revision of the lease.
    """

    server_id: str
    uid: str
    holder: str
    revision: int
    joined: bool
    lease_s: int
    began: float
    ended: float


@dataclass(slots=True)
class Report:
    """A report that was sent.

    Attributes:
        versions: The encoding version, by name of the object.
        revisions: The revision of each object with that version; empty before the acknowledgement.
        ended: When it was acknowledged.
    """

    server_id: str
    versions: Mapping[str, str]
    began: float
    ended: float = NOT_ENDED
    revisions: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_acknowledged(self) -> bool:
        return self.ended != NOT_ENDED


@dataclass(frozen=True, slots=True)
class Departure:
    """A departure that was sent; it may not have arrived."""

    server_id: str
    began: float


@dataclass(frozen=True, slots=True)
class Seen:
    """An object at one revision.

    Attributes:
        entries: The version that each server writes.
        common: The common version; empty for none.
        status: The status of AllEncodingVersionsEqual; empty for none.
        since: When that status changed, in seconds since 1970.
        at: When the first replica sent it.
    """

    name: str
    uid: str
    revision: int
    entries: Mapping[str, str]
    common: str
    status: str
    since: int
    at: float

    @property
    def claim(self) -> tuple[str, str, str, int]:
        """The values that a migration relies on."""
        return self.uid, self.common, self.status, self.since


@dataclass(frozen=True, slots=True)
class Gone:
    """The removal of an object."""

    name: str
    uid: str
    at: float


class History:
    """Records calls, and the events of replicas.

    Attributes:
        beats: In the order in which they were acknowledged.
        reports: In the order in which they were sent.
        seen: Every revision that a replica has sent, in no order.
        differing: Revisions of which two replicas sent different content.
        views: By replica, the last revision of each object that it sent.
    """

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self.reports: list[Report] = []
        self.departures: list[Departure] = []
        self.gone: list[Gone] = []
        self.differing: list[tuple[str, int]] = []
        self.views: dict[str, dict[str, int]] = {}
        self._seen: dict[tuple[str, int], Seen] = {}
        self._bytes: dict[tuple[str, int], bytes] = {}
        self._changed = asyncio.Event()

    @property
    def seen(self) -> Iterable[Seen]:
        return self._seen.values()

    def at_revision(self, name: str, revision: int) -> Seen | None:
        return self._seen.get((name, revision))

    # Calls.

    async def heartbeat(
        self, stub: Stub, request: pb.HeartbeatRequest, timeout_s: float | None
    ) -> pb.HeartbeatResponse:
        began = time.monotonic()
        answer = await stub.Heartbeat(request, timeout=timeout_s)
        lease = answer.lease
        self.beats.append(
            Beat(
                answer.api_server_id,
                lease.metadata.uid,
                lease.spec.holder_identity,
                int(lease.metadata.resource_version),
                answer.joined,
                lease.spec.lease_duration_seconds,
                began,
                time.monotonic(),
            )
        )
        return answer

    async def report(
        self, stub: Stub, request: pb.ReportRequest, timeout_s: float | None
    ) -> pb.ReportResponse:
        versions = {f"{r.group}.{r.resource}": r.encoding_version for r in request.resources}
        record = Report(request.api_server_id, versions, time.monotonic())
        self.reports.append(record)
        answer = await stub.Report(request, timeout=timeout_s)
        record.revisions = {one.name: int(one.resource_version) for one in answer.reported}
        record.ended = time.monotonic()
        return answer

    async def depart(
        self, stub: Stub, request: pb.DepartRequest, timeout_s: float | None
    ) -> pb.DepartResponse:
        self.departures.append(Departure(request.api_server_id, time.monotonic()))
        return await stub.Depart(request, timeout=timeout_s)

    # Watching.

    async def watch(self, address: str) -> None:
        """Record all events of a replica until cancelled; the replica may stop and start."""
        view = self.views.setdefault(address, {})
        after = ""
        async with connected(address) as channel:
            stub = storage_version_pb2_grpc.StorageVersionServiceStub(channel)
            while True:
                try:
                    after = await self._follow(stub, view, after)
                except grpc.aio.AioRpcError as error:
                    if error.code() == grpc.StatusCode.OUT_OF_RANGE:
                        after = ""
                await asyncio.sleep(_PAUSE_S)

    async def _follow(self, stub: Stub, view: dict[str, int], after: str) -> str:
        """Record one stream; return the resource version with which to continue."""
        listed: set[str] | None = None if after else set()
        request = pb.WatchStorageVersionsRequest(resource_version=after)
        try:
            async for event in stub.WatchStorageVersions(request):
                self._take(event, view)
                if listed is None:
                    after = event.resource_version
                elif event.type != pb.WatchStorageVersionsResponse.EVENT_TYPE_BOOKMARK:
                    listed.add(event.storage_version.metadata.name)
                else:
                    for name in view.keys() - listed:
                        del view[name]
                    listed, after = None, event.resource_version
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.OUT_OF_RANGE:
                raise
        return after

    def _take(self, event: pb.WatchStorageVersionsResponse, view: dict[str, int]) -> None:
        found, now = event.storage_version, time.monotonic()
        if event.type == pb.WatchStorageVersionsResponse.EVENT_TYPE_DELETED:
            view.pop(found.metadata.name, None)
            self.gone.append(Gone(found.metadata.name, found.metadata.uid, now))
        elif event.type != pb.WatchStorageVersionsResponse.EVENT_TYPE_BOOKMARK:
            seen = _seen(found, now)
            view[seen.name] = seen.revision
            self._keep(seen, found.SerializeToString(deterministic=True))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _keep(self, seen: Seen, text: bytes) -> None:
        key = (seen.name, seen.revision)
        self._seen.setdefault(key, seen)
        if self._bytes.setdefault(key, text) != text:
            self.differing.append(key)

    async def change(self) -> None:
        """Wait for the next event of any replica."""
        await self._changed.wait()


def _seen(found: storageversion_pb2.StorageVersion, at: float) -> Seen:
    equal = [c for c in found.status.conditions if c.type == "AllEncodingVersionsEqual"]
    return Seen(
        found.metadata.name,
        found.metadata.uid,
        int(found.metadata.resource_version),
        {e.api_server_id: e.encoding_version for e in found.status.storage_versions},
        found.status.common_encoding_version,
        equal[0].status if equal else "",
        equal[0].last_transition_time.seconds if equal else 0,
        at,
    )


def connected(address: str) -> grpc.aio.Channel:
    """Return a channel that reconnects soon after a server has started again."""
    options = [
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
    ]
    return grpc.aio.insecure_channel(address, options)
