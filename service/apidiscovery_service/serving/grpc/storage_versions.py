"""StorageVersionService: reports of API servers, and waiting for agreement."""

from collections.abc import Callable, Mapping
from contextlib import aclosing

from apidiscovery.service.v1 import storage_version_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
)

from apidiscovery_service.access.authenticator import Access, OpenAccess
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.objects import json_fields
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import storage_version_messages as messages
from apidiscovery_service.serving.grpc.admission import admit_call
from apidiscovery_service.serving.grpc.calls import Behaviour, CallFailed, Context, Service, Stream
from apidiscovery_service.sources.registrations.requests import Denied
from apidiscovery_service.storage_versions.collection import Event
from apidiscovery_service.storage_versions.comparison import compare
from apidiscovery_service.storage_versions.state import StorageVersions

SERVICE = storage_version_pb2.DESCRIPTOR.services_by_name["StorageVersionService"]

# Interval of the bookmarks of a watch.
_BOOKMARK_EVERY_S = 60.0

# Digits of the largest revision, an int64.
_MAX_DIGITS = 19

_OFF = "storage versions are not served: the feature gate StorageVersionAPI is off"


class StorageVersionService(Service):
    """The methods of StorageVersionService.

    Args:
        state: The state; None while the feature gate is off.
        registry: What discovery serves.
        metrics: Counts calls.
        access: Authenticates and authorizes callers; None to admit all.
        ready: Whether the state has been read.
    """

    def __init__(
        self,
        state: StorageVersions | None,
        registry: Registry,
        metrics: Metrics,
        access: Access | None = None,
        *,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(SERVICE, metrics, ready, _OFF if state is None else "")
        self._optional_state = state
        self._registry = registry
        self._access = access or OpenAccess()

    def behaviours(self) -> Mapping[str, Behaviour]:
        """Return the functions that answer the methods."""
        return {
            "Heartbeat": self.heartbeat,
            "Depart": self.depart,
            "Report": self.report,
            "GetStorageVersion": self.get_storage_version,
            "ListStorageVersions": self.list_storage_versions,
            "WatchStorageVersions": self.watch_storage_versions,
            "WaitForAgreement": self.wait_for_agreement,
        }

    async def heartbeat(
        self, request: storage_version_pb2.HeartbeatRequest, context: Context
    ) -> storage_version_pb2.HeartbeatResponse:
        """Answer Heartbeat."""
        self._check_may_report(context)
        beat = await self._state.members.heartbeat(messages.heartbeat_of(request))
        return messages.heartbeat_message(beat)

    async def depart(
        self, request: storage_version_pb2.DepartRequest, context: Context
    ) -> storage_version_pb2.DepartResponse:
        """Answer Depart."""
        self._check_may_report(context)
        was_member = await self._state.members.depart(request.api_server_id, request.instance)
        return storage_version_pb2.DepartResponse(was_member=was_member)

    async def report(
        self, request: storage_version_pb2.ReportRequest, context: Context
    ) -> storage_version_pb2.ReportResponse:
        """Answer Report."""
        self._check_may_report(context)
        resources = messages.resources_of(request)
        reported = await self._state.reports.report(
            request.api_server_id, resources, request.instance
        )
        return storage_version_pb2.ReportResponse(reported=map(messages.reported_message, reported))

    async def get_storage_version(
        self, request: storage_version_pb2.GetStorageVersionRequest, _context: Context
    ) -> storage_version_pb2.GetStorageVersionResponse:
        """Answer GetStorageVersion."""
        messages.check_name("name", request.name)
        found = await self._state.collection.read(request.name)
        if found is None:
            message = f"there is no StorageVersion {request.name!r}"
            raise CallFailed(code_pb2.NOT_FOUND, message)
        return storage_version_pb2.GetStorageVersionResponse(
            storage_version=messages.storage_version_message(found.object)
        )

    async def list_storage_versions(
        self, _request: storage_version_pb2.ListStorageVersionsRequest, _context: Context
    ) -> storage_version_pb2.ListStorageVersionsResponse:
        """Answer ListStorageVersions."""
        objects, revision = await self._state.collection.read_all()
        # After the objects: then an entry without a member is of a server that has left, never of
        # one that has just joined.
        members, _ = await self._state.lease_collection.read_all()
        named = ((one.name, one.object) for one in objects)
        comparisons = compare(named, self._registry.snapshot)
        return messages.list_message(objects, revision, members, comparisons)

    async def watch_storage_versions(
        self, request: storage_version_pb2.WatchStorageVersionsRequest, stream: Stream
    ) -> None:
        """Answer WatchStorageVersions."""
        after = _revision(request.resource_version)
        names = frozenset(request.names)
        events = self._state.collection.events(after, bookmark_every_s=_BOOKMARK_EVERY_S)
        async with aclosing(events):
            async for event in events:
                if not names or event.type is EventType.BOOKMARK or _name(event) in names:
                    await stream.send(messages.event_bytes(event))

    async def wait_for_agreement(
        self, request: storage_version_pb2.WaitForAgreementRequest, stream: Stream
    ) -> None:
        """Answer WaitForAgreement."""
        async with aclosing(self._state.wait(messages.targets_of(request))) as all_progress:
            async for progress in all_progress:
                await stream.send(messages.wait_message(progress))

    def _check_may_report(self, context: Context) -> None:
        """Refuse callers that may not change StorageVersions.

        Raises:
            Denied: The caller may not.
            Unauthenticated: The caller is unknown.
        """
        caller = admit_call(self._access, context).caller
        if reason := self._access.may_change(caller, [STORAGE_VERSION.group]):
            raise Denied(reason)

    @property
    def _state(self) -> StorageVersions:
        """The state, for calls that the base class lets through."""
        if self._optional_state is None:
            raise AssertionError(_OFF)
        return self._optional_state


def _name(event: Event) -> str:
    return json_fields.text(metadata_of(event.object), "name")


def _revision(text: str) -> int | None:
    """Return the revision after which a watch begins, None for an empty text.

    Raises:
        InvalidFields: It is not a revision.
    """
    if not text:
        return None
    # The length first: int() of a very long text is slow, or fails.
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    if not is_number or int(text) >= 2**63:
        raise InvalidFields(
            FieldViolation("resource_version", f"{text!r} is not the resourceVersion of an object")
        )
    return int(text)
