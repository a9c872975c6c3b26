"""API servers that report storage versions: clients of StorageVersionService."""

import contextlib
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from apidiscovery.service.v1 import storage_version_pb2, storage_version_pb2_grpc
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2
from children import UNLIMITED

SERVICE = "/apidiscovery.service.v1.StorageVersionService"
COUNT, RESOURCES = 5, 500

_PER_GROUP = 5
_TIMEOUT_S = 120.0

Outcomes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reported:
    """The responses to one or more reports.

    Attributes:
        began: When the first was sent (`time.perf_counter`).
        ended: When the last was answered.
        outcomes: The number of objects that were CREATED, UPDATED and UNCHANGED.
    """

    began: float
    ended: float
    outcomes: Outcomes

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def name(number: int) -> str:
    """Return the name of the StorageVersion of a resource."""
    return f"{_group(number)}.{_plural(number)}"


def resource(number: int, version: str) -> storage_version_pb2.ReportedResource:
    """Return the report of a resource with three versions."""
    versions = [f"{_group(number)}/{each}" for each in ("v1", "v1beta1", "v1alpha1")]
    return storage_version_pb2.ReportedResource(
        group=_group(number),
        resource=_plural(number),
        encoding_version=f"{_group(number)}/{version}",
        decodable_versions=versions,
        served_versions=versions[:2],
    )


def _group(number: int) -> str:
    return f"team{number // _PER_GROUP}.apps.example.com"


def _plural(number: int) -> str:
    return f"widgets{number}"


class ApiServers:
    """API servers, each a member with its own connection.

    Attributes:
        ids: Their identities.
    """

    def __init__(self, channels: Sequence[grpc.Channel]) -> None:
        self._stubs = [storage_version_pb2_grpc.StorageVersionServiceStub(c) for c in channels]
        self.ids: list[str] = []
        self.beat()

    def beat(self) -> None:
        """Renew the lease of each."""
        self.ids.clear()
        for number, stub in enumerate(self._stubs):
            hostname = f"node-{number}"
            request = storage_version_pb2.HeartbeatRequest(hostname=hostname, instance="bench")
            self.ids.append(stub.Heartbeat(request, timeout=_TIMEOUT_S).api_server_id)

    def report(
        self, server: int, version: str, numbers: Iterable[int] = range(RESOURCES)
    ) -> Reported:
        """Report the version in which one server writes resources."""
        return self.report_at_once({server: version}, numbers)

    def report_at_once(
        self, versions: Mapping[int, str], numbers: Iterable[int] = range(RESOURCES)
    ) -> Reported:
        """Report the versions of several servers concurrently."""
        numbers = list(numbers)
        requests = [
            (self._stubs[server], self._request(server, version, numbers))
            for server, version in versions.items()
        ]
        with ThreadPoolExecutor(len(requests)) as callers:
            began = time.perf_counter()
            waiting = [
                callers.submit(stub.Report, request, timeout=_TIMEOUT_S)
                for stub, request in requests
            ]
            answers = [each.result() for each in waiting]
            ended = time.perf_counter()
        return Reported(began, ended, _outcomes(answers))

    def revision(self) -> int:
        """Return the store's revision, which every write increases by one."""
        return int(self._list().list.metadata.resource_version)

    def objects(self) -> Sequence[storageversion_pb2.StorageVersion]:
        return self._list().list.items

    def _list(self) -> storage_version_pb2.ListStorageVersionsResponse:
        request = storage_version_pb2.ListStorageVersionsRequest()
        return self._stubs[0].ListStorageVersions(request, timeout=_TIMEOUT_S)

    def _request(
        self, server: int, version: str, numbers: Iterable[int]
    ) -> storage_version_pb2.ReportRequest:
        return storage_version_pb2.ReportRequest(
            api_server_id=self.ids[server],
            resources=[resource(number, version) for number in numbers],
        )


@contextlib.contextmanager
def api_servers(address: str, count: int = COUNT) -> Generator[ApiServers]:
    """Connect API servers until the block ends."""
    with contextlib.ExitStack() as stack:
        # Without a pool of its own a channel to the same address shares its connection.
        options = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))
        channels = [
            stack.enter_context(grpc.insecure_channel(address, options=options))
            for _ in range(count)
        ]
        yield ApiServers(channels)


def _outcomes(answers: Iterable[storage_version_pb2.ReportResponse]) -> Outcomes:
    names = {
        storage_version_pb2.ReportedStorageVersion.OUTCOME_CREATED: "created",
        storage_version_pb2.ReportedStorageVersion.OUTCOME_UPDATED: "updated",
        storage_version_pb2.ReportedStorageVersion.OUTCOME_UNCHANGED: "unchanged",
    }
    counted = dict.fromkeys(names.values(), 0)
    for answer in answers:
        for one in answer.reported:
            counted[names[one.outcome]] += 1
    return counted
