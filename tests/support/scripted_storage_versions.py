"""A fake StorageVersionService for those who read and wait: it answers as a test says."""

import queue
import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn, TypeAlias

import grpc
from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2
from grpc_fakes import End, ThreadedServer
from waiting import eventually

SINCE_S = 1_700_000_000  # 2023-11-14T22:13:20Z
DEPLOYMENTS = "apps.deployments"


Step: TypeAlias = pb.WaitForAgreementResponse | threading.Event | End


class ScriptedStorageVersions(
    ThreadedServer, storage_version_pb2_grpc.StorageVersionServiceServicer
):
    """The server.

    Attributes:
        listing: The answer of ListStorageVersions.
        ends: By method, how the next calls end.
        events: The next events of WatchStorageVersions, and its end.
        scripts: The answers of the next calls of WaitForAgreement; a call goes on after them.
        calls: Every call that arrived.
        timeouts: The timeout of each call, in seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listing = pb.ListStorageVersionsResponse()
        self.ends: dict[str, deque[End]] = defaultdict(deque)
        self.events: queue.Queue[pb.WatchStorageVersionsResponse | End] = queue.Queue()
        self.scripts: deque[Sequence[Step]] = deque()
        self.calls: list[tuple[str, object]] = []
        self.timeouts: list[float | None] = []
        storage_version_pb2_grpc.add_StorageVersionServiceServicer_to_server(self, self.server)

    def methods(self) -> list[str]:
        return [name for name, _ in self.calls]

    def until_called(self, method: str, times: int = 1) -> None:
        """Wait until so many calls of a method have arrived."""
        eventually(lambda: self.methods().count(method) >= times, f"{times} calls of {method}")

    def list_all(
        self,
        revision: int,
        *objects: storageversion_pb2.StorageVersion,
        members: Sequence[lease_pb2.Lease] = (),
        comparisons: Sequence[pb.HashComparison] = (),
    ) -> None:
        """Set the answer of ListStorageVersions."""
        answer = pb.ListStorageVersionsResponse(members=members, comparisons=comparisons)
        answer.list.metadata.resource_version = str(revision)
        answer.list.items.extend(objects)
        self.listing = answer

    def changed(self, revision: int) -> None:
        """Send an event to WatchStorageVersions."""
        event = pb.WatchStorageVersionsResponse(
            type=pb.WatchStorageVersionsResponse.EVENT_TYPE_MODIFIED, resource_version=str(revision)
        )
        self.events.put(event)

    def ListStorageVersions(  # noqa: N802 - a method of the service
        self, request: pb.ListStorageVersionsRequest, context: grpc.ServicerContext
    ) -> pb.ListStorageVersionsResponse:
        self._arrived("ListStorageVersions", request, context)
        return self.listing

    def WatchStorageVersions(  # noqa: N802
        self, request: pb.WatchStorageVersionsRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.WatchStorageVersionsResponse]:
        self._arrived("WatchStorageVersions", request, context)
        while context.is_active():
            try:
                step = self.events.get(timeout=0.02)
            except queue.Empty:
                continue
            if isinstance(step, End):
                step.abort(context)
            yield step

    def WaitForAgreement(  # noqa: N802
        self, request: pb.WaitForAgreementRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.WaitForAgreementResponse]:
        self._arrived("WaitForAgreement", request, context)
        for step in self.scripts.popleft() if self.scripts else ():
            match step:
                case End():
                    step.abort(context)
                case threading.Event():
                    step.wait(10)
                case _:
                    yield step
                    if step.done:
                        return
        while context.is_active():
            threading.Event().wait(0.02)

    def _unused(self, request: object, context: object) -> NoReturn:
        raise NotImplementedError

    Heartbeat = Depart = Report = GetStorageVersion = _unused

    def _arrived(self, method: str, request: object, context: grpc.ServicerContext) -> None:
        self.calls.append((method, request))
        self.timeouts.append(context.time_remaining())
        if self.ends[method]:
            self.ends[method].popleft().abort(context)


def storage_version(
    entries: Mapping[str, str], name: str = DEPLOYMENTS, *, agreed: str = ""
) -> storageversion_pb2.StorageVersion:
    """Return an object; `agreed` is the status of its condition, by default whether all agree."""
    found = storageversion_pb2.StorageVersion()
    found.metadata.name = name
    found.metadata.uid = f"uid of {name}"
    found.metadata.resource_version = "7"
    found.metadata.creation_timestamp.seconds = SINCE_S
    for server, version in entries.items():
        found.status.storage_versions.add(
            api_server_id=server, encoding_version=version, decodable_versions=["apps/v1", version]
        )
    versions = set(entries.values())
    if len(versions) == 1:
        found.status.common_encoding_version = versions.pop()
    condition = found.status.conditions.add(
        type="AllEncodingVersionsEqual", reason="CommonEncodingVersionSet", message="set"
    )
    condition.status = agreed or ("True" if found.status.common_encoding_version else "False")
    condition.last_transition_time.seconds = SINCE_S
    return found


def member(server: str, hostname: str) -> lease_pb2.Lease:
    """Return the lease of a server."""
    lease = lease_pb2.Lease()
    lease.metadata.name = server
    lease.metadata.namespace = "kube-system"
    lease.metadata.labels["kubernetes.io/hostname"] = hostname
    lease.spec.holder_identity = f"{server}_1"
    lease.spec.lease_duration_seconds = 3600
    lease.spec.renew_time.seconds = SINCE_S
    lease.spec.renew_time.nanos = 123_456_000
    return lease


def progress(
    *,
    agreeing: Sequence[str] = (),
    lagging: Sequence[str] = (),
    unreported: Sequence[str] = (),
    name: str = DEPLOYMENTS,
) -> pb.AgreementProgress:
    """Return the progress of an agreement."""
    told = pb.AgreementProgress(
        name=name,
        agreed=bool(agreeing) and not lagging,
        agreeing=agreeing,
        lagging=lagging,
        unreported=unreported,
    )
    if agreeing or lagging:
        entries = dict.fromkeys(agreeing, "apps/v2") | dict.fromkeys(lagging, "apps/v1")
        told.storage_version.CopyFrom(storage_version(entries, name))
    return told


def waited(*told: pb.AgreementProgress) -> pb.WaitForAgreementResponse:
    """Return one message about all targets."""
    return pb.WaitForAgreementResponse(progress=told, done=all(one.agreed for one in told))
