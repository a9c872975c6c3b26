"""StorageVersionService: what API servers report, and who waits for them to agree."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
)

from apidiscovery_service.core.registry import Registry
from apidiscovery_service.errors import DiscoveryError, FieldViolation, InvalidFields
from apidiscovery_service.kube.objects import reading
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import storage_version_messages as messages
from apidiscovery_service.serving.grpc.errors import (
    DOMAIN,
    Codes,
    abort,
    abort_for,
    abort_invalid,
    counted,
)
from apidiscovery_service.serving.grpc.handlers import unary
from apidiscovery_service.serving.grpc.registry_service import Access, OpenAccess
from apidiscovery_service.serving.grpc.streams import STOPPING, Stream, Streams
from apidiscovery_service.storage_versions.collection import (
    Event,
    Expired,
    TooLarge,
    Unreadable,
)
from apidiscovery_service.storage_versions.comparison import compare
from apidiscovery_service.storage_versions.members import NotMember, Superseded
from apidiscovery_service.storage_versions.state import StorageVersions

SERVICE = storage_version_pb2.DESCRIPTOR.services_by_name["StorageVersionService"].full_name

# How often a watch tells how far it has come.
_BOOKMARK_EVERY_S = 60.0

# Of a revision, which is an int64.
_MAX_DIGITS = 19

_OFF = "storage versions are not served: the feature gate StorageVersionAPI is off"
_STARTING = "the server is still reading its sources"

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class _Denied(DiscoveryError):
    """The caller may not do this."""


class _Missing(DiscoveryError):
    """There is no such object."""


class StorageVersionService:
    """The methods of StorageVersionService.

    Args:
        state: What is asked; None while the feature gate is off.
        registry: What discovery serves.
        metrics: Where calls are counted.
        access: Who may report.
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
        self._state = state
        self._registry = registry
        self._metrics = metrics
        self._access = access or OpenAccess()
        self._ready = ready
        self._streams = Streams()

    async def end_streams(self) -> None:
        """End every stream with UNAVAILABLE, so that its caller goes on at another replica.

        Returns once they have ended, or soon: one whose caller does not read cannot be told.
        """
        await self._streams.end()

    @property
    def name(self) -> str:
        """The full name of the service."""
        return SERVICE

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what registers the service with a server."""
        requests = storage_version_pb2
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Heartbeat": unary(self.heartbeat, requests.HeartbeatRequest.FromString),
                "Depart": unary(self.depart, requests.DepartRequest.FromString),
                "Report": unary(self.report, requests.ReportRequest.FromString),
                "GetStorageVersion": unary(
                    self.get_storage_version, requests.GetStorageVersionRequest.FromString
                ),
                "ListStorageVersions": unary(
                    self.list_storage_versions, requests.ListStorageVersionsRequest.FromString
                ),
                "WatchStorageVersions": _stream(
                    self.watch_storage_versions, requests.WatchStorageVersionsRequest.FromString
                ),
                "WaitForAgreement": _stream(
                    self.wait_for_agreement, requests.WaitForAgreementRequest.FromString
                ),
            },
        )

    async def heartbeat(
        self, request: storage_version_pb2.HeartbeatRequest, context: _Context
    ) -> storage_version_pb2.HeartbeatResponse:
        """Answer Heartbeat."""
        async with self._answering("Heartbeat", context) as state:
            self._check_may_report(context)
            beat = await state.members.heartbeat(messages.heartbeat_of(request))
            return messages.heartbeat_message(beat)

    async def depart(
        self, request: storage_version_pb2.DepartRequest, context: _Context
    ) -> storage_version_pb2.DepartResponse:
        """Answer Depart."""
        async with self._answering("Depart", context) as state:
            self._check_may_report(context)
            was_member = await state.members.depart(request.api_server_id, request.instance)
            return storage_version_pb2.DepartResponse(was_member=was_member)

    async def report(
        self, request: storage_version_pb2.ReportRequest, context: _Context
    ) -> storage_version_pb2.ReportResponse:
        """Answer Report."""
        async with self._answering("Report", context) as state:
            self._check_may_report(context)
            resources = messages.resources_of(request)
            reported = await state.reports.report(
                request.api_server_id, resources, request.instance
            )
            return storage_version_pb2.ReportResponse(
                reported=map(messages.reported_message, reported)
            )

    async def get_storage_version(
        self, request: storage_version_pb2.GetStorageVersionRequest, context: _Context
    ) -> storage_version_pb2.GetStorageVersionResponse:
        """Answer GetStorageVersion."""
        async with self._answering("GetStorageVersion", context) as state:
            messages.check_name("name", request.name)
            found = await state.collection.read(request.name)
            if found is None:
                raise _Missing(f"there is no StorageVersion {request.name!r}")
            return storage_version_pb2.GetStorageVersionResponse(
                storage_version=messages.storage_version_message(found.object)
            )

    async def list_storage_versions(
        self, request: storage_version_pb2.ListStorageVersionsRequest, context: _Context
    ) -> storage_version_pb2.ListStorageVersionsResponse:
        """Answer ListStorageVersions."""
        del request
        async with self._answering("ListStorageVersions", context) as state:
            objects, revision = await state.collection.read_all()
            # Later than the objects: an entry without a member is of a server that has gone, never
            # of one that has only just come.
            members, _ = await state.lease_collection.read_all()
            named = ((one.name, one.object) for one in objects)
            comparisons = compare(named, self._registry.snapshot)
            return messages.list_message(objects, revision, members, comparisons)

    async def watch_storage_versions(
        self, request: storage_version_pb2.WatchStorageVersionsRequest, context: _Context
    ) -> None:
        """Answer WatchStorageVersions."""
        async with self._streaming("WatchStorageVersions", context) as (state, stream):
            after = _revision(request.resource_version)
            names = frozenset(request.names)
            events = state.collection.events(after, bookmark_every_s=_BOOKMARK_EVERY_S)
            async with aclosing(events):
                async for event in events:
                    if not names or event.type is EventType.BOOKMARK or _name(event) in names:
                        await stream.send(messages.event_bytes(event))

    async def wait_for_agreement(
        self, request: storage_version_pb2.WaitForAgreementRequest, context: _Context
    ) -> None:
        """Answer WaitForAgreement."""
        async with (
            self._streaming("WaitForAgreement", context) as (state, stream),
            aclosing(state.wait(messages.targets_of(request))) as all_progress,
        ):
            async for progress in all_progress:
                await stream.send(messages.wait_message(progress).SerializeToString())

    def _check_may_report(self, context: _Context) -> None:
        """Refuse callers that may not change StorageVersions.

        Raises:
            _Denied: The caller may not.
            Unauthenticated: It is not known who calls.
        """
        caller = self._access.admit(context).caller
        if reason := self._access.may_change(caller, [STORAGE_VERSION.group]):
            raise _Denied(reason)

    @contextlib.asynccontextmanager
    async def _streaming(
        self, method: str, context: _Context
    ) -> AsyncGenerator[tuple[StorageVersions, Stream]]:
        """Answer a call whose answer goes on until the server stops."""
        async with (
            self._answering(method, context) as state,
            self._streams.open(context) as stream,
        ):
            yield state, stream

    @contextlib.asynccontextmanager
    async def _answering(self, method: str, context: _Context) -> AsyncGenerator[StorageVersions]:
        """Count a call, and end it with the status of whatever goes wrong."""
        with counted(self._metrics, method, context):
            if self._state is None:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, _OFF)
            if self._streams.stopping or not self._ready():
                message = STOPPING if self._streams.stopping else _STARTING
                await context.abort(grpc.StatusCode.UNAVAILABLE, message)
            try:
                yield self._state
            except DiscoveryError as error:
                await _refuse(context, error)


def _name(event: Event) -> str:
    return reading.text(metadata_of(event.object), "name")


def _revision(text: str) -> int | None:
    """Return the revision after which to begin, None for none.

    Raises:
        InvalidFields: It is none.
    """
    if not text:
        return None
    # No int of a text without end: that takes long, or is refused.
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    if not is_number or int(text) >= 2**63:
        raise InvalidFields(
            FieldViolation("resource_version", f"{text!r} is not the resourceVersion of an object")
        )
    return int(text)


def _stream(
    behaviour: Callable[[Any, _Context], Awaitable[None]],
    deserializer: Callable[[bytes], Message],
) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the handler of a method that writes its messages, encoded already, itself."""
    return grpc.unary_stream_rpc_method_handler(behaviour, request_deserializer=deserializer)


_CODES: Codes = (
    (_Denied, code_pb2.PERMISSION_DENIED),
    (_Missing, code_pb2.NOT_FOUND),
    (Expired, code_pb2.OUT_OF_RANGE),
    (TooLarge, code_pb2.RESOURCE_EXHAUSTED),
    (Unreadable, code_pb2.DATA_LOSS),
)


async def _refuse(context: _Context, error: DiscoveryError) -> NoReturn:
    """End a call with the status of an error."""
    match error:
        case InvalidFields():
            await abort_invalid(context, error.violations)
        case NotMember() | Superseded():
            info = error_details_pb2.ErrorInfo(
                reason="NOT_A_MEMBER" if isinstance(error, NotMember) else "SUPERSEDED",
                domain=DOMAIN,
                metadata={"api_server_id": error.api_server_id},
            )
            await abort(context, code_pb2.FAILED_PRECONDITION, str(error), info)
        case _:
            await abort_for(context, error, _CODES)
