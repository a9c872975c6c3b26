"""RegistryService: what is asked of registrations at run time, over gRPC."""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from typing import Any, NoReturn, Protocol, TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import registry_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
)

from apidiscovery_service.access import LOCAL, Caller, Role
from apidiscovery_service.access.authenticator import Admission
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.errors import DiscoveryError, InvalidFields
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import registrations as messages
from apidiscovery_service.serving.grpc.availability import with_availability
from apidiscovery_service.serving.grpc.durations import duration_of
from apidiscovery_service.serving.grpc.errors import (
    DOMAIN,
    Codes,
    abort,
    abort_for,
    abort_invalid,
    counted,
)
from apidiscovery_service.serving.grpc.handlers import unary
from apidiscovery_service.sources.registrations import Registrations
from apidiscovery_service.sources.registrations.record import InvalidRecord, Kind
from apidiscovery_service.sources.registrations.requests import (
    Denied,
    LimitExceeded,
    NoSuchOwner,
    Outcome,
    Registered,
    Requester,
    RevisionMismatch,
    Written,
)
from apidiscovery_service.threads import run_sized

SERVICE = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"].full_name

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

# What a call ends with, for errors that have nothing more to tell than their text.
_CODES: Codes = (
    (Denied, code_pb2.PERMISSION_DENIED),
    (LimitExceeded, code_pb2.RESOURCE_EXHAUSTED),
    (InvalidRecord, code_pb2.FAILED_PRECONDITION),
)


class Access(Protocol):
    """Who calls, and what they may change."""

    def admit(self, context: _Context) -> Admission:
        """Return who makes a call, and as what.

        Raises:
            Unauthenticated: That is not known.
        """
        ...

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        """Say why a caller may not change registrations of these API groups; None if it may.

        Without any group it is enough that the caller may change some.
        """
        ...


_OPEN = Admission(LOCAL, Role.ADMIN, "", math.inf, None)


class OpenAccess:
    """Whoever calls is the one who started the server."""

    def admit(self, context: _Context) -> Admission:
        """Return the local caller."""
        del context
        return _OPEN

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        """Allow everything."""
        del caller, api_groups
        return None


class RegistryService:
    """The methods of RegistryService.

    Args:
        registrations: What is asked.
        metrics: Where calls are counted.
        access: Who may change what.
        ready: Whether the local sources are in the snapshot.
        statuses: The sources about which there is something to tell.
    """

    def __init__(
        self,
        registrations: Registrations,
        metrics: Metrics,
        access: Access | None = None,
        *,
        ready: Callable[[], bool] = lambda: True,
        statuses: Callable[[], Iterable[SourceStatus]] = tuple,
    ) -> None:
        self._statuses = statuses
        self._registrations = registrations
        self._metrics = metrics
        self._access = access or OpenAccess()
        self._ready = ready

    @property
    def name(self) -> str:
        """The full name of the service."""
        return SERVICE

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what registers the service with a server."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Publish": unary(self.publish, registry_pb2.PublishRequest.FromString),
                "Withdraw": unary(self.withdraw, registry_pb2.WithdrawRequest.FromString),
                "ListRegistrations": unary(
                    self.list_registrations, registry_pb2.ListRegistrationsRequest.FromString
                ),
                "Apply": unary(self.apply, registry_pb2.ApplyRequest.FromString),
                "Renew": unary(self.renew, registry_pb2.RenewRequest.FromString),
            },
        )

    async def publish(
        self, request: registry_pb2.PublishRequest, context: _Context
    ) -> registry_pb2.PublishResponse:
        """Answer Publish."""
        async with self._answering("Publish", context):
            requester = self._publisher(context)
            publication = await asyncio.to_thread(messages.publication_of, request)
            try:
                written = await self._registrations.publish(publication, requester)
            except InvalidFields as error:
                raise messages.in_proto_names(error) from None
            return registry_pb2.PublishResponse(
                registration=messages.registration_message(written.registered),
                changed=written.outcome is not Outcome.UNCHANGED,
            )

    async def withdraw(
        self, request: registry_pb2.WithdrawRequest, context: _Context
    ) -> registry_pb2.WithdrawResponse:
        """Answer Withdraw."""
        async with self._answering("Withdraw", context):
            requester = self._publisher(context)
            references = messages.references_of("registrations", request.registrations)
            removed = await self._registrations.withdraw(references, request.owner, requester)
            return registry_pb2.WithdrawResponse(withdrawn=map(messages.reference_message, removed))

    async def list_registrations(
        self, request: registry_pb2.ListRegistrationsRequest, context: _Context
    ) -> registry_pb2.ListRegistrationsResponse:
        """Answer ListRegistrations."""
        async with self._answering("ListRegistrations", context):
            self._access.admit(context)
            page = await self._registrations.list(messages.query_of(request))
            statuses = {status.name: status for status in self._statuses()}
            registered = [
                with_availability(one, statuses.get(f"apiservice:{one.name}"))
                if one.kind is Kind.API_SERVICE
                else one
                for one in page.registered
            ]
            listed = partial(_listed, registered, messages.page_token(page.next_after))
            if request.with_openapi:  # which takes its time
                return await asyncio.to_thread(listed, with_documents=True)
            return listed(with_documents=False)

    async def apply(
        self, request: registry_pb2.ApplyRequest, context: _Context
    ) -> registry_pb2.ApplyResponse:
        """Answer Apply."""
        async with self._answering("Apply", context):
            requester = self._publisher(context)
            application = messages.application_of(request)
            written = await self._registrations.apply(application, requester)
            answer = partial(_applied, written)
            size = sum(len(manifest.content) for manifest in application.manifests)
            return await run_sized(size, answer)

    async def renew(
        self, request: registry_pb2.RenewRequest, context: _Context
    ) -> registry_pb2.RenewResponse:
        """Answer Renew."""
        async with self._answering("Renew", context):
            within_s = await self._registrations.renew(request.owner, self._publisher(context))
            if within_s is None:
                return registry_pb2.RenewResponse()
            return registry_pb2.RenewResponse(renew_within=duration_of(within_s))

    def _publisher(self, context: _Context) -> Requester:
        """Return who calls, if it may change anything.

        Raises:
            Denied: It may not.
            Unauthenticated: It is not known who calls.
        """
        admission = self._access.admit(context)
        caller = admission.caller
        if reason := self._access.may_change(caller, ()):
            raise Denied(reason)
        return Requester(
            caller,
            lambda groups: self._access.may_change(caller, groups),
            is_admin=admission.role >= Role.ADMIN,
        )

    @contextlib.asynccontextmanager
    async def _answering(self, method: str, context: _Context) -> AsyncGenerator[None]:
        """Count a call, and end it with the status of whatever goes wrong."""
        with counted(self._metrics, method, context):
            if not self._ready():
                message = "the server is still reading its sources"
                await context.abort(grpc.StatusCode.UNAVAILABLE, message)
            try:
                yield
            except DiscoveryError as error:
                await _refuse(context, error)


def _applied(written: Iterable[Written]) -> registry_pb2.ApplyResponse:
    return registry_pb2.ApplyResponse(documents=map(messages.applied_message, written))


def _listed(
    registered: Iterable[Registered], next_page_token: str, *, with_documents: bool
) -> registry_pb2.ListRegistrationsResponse:
    return registry_pb2.ListRegistrationsResponse(
        registrations=[
            messages.registration_message(one, with_documents=with_documents) for one in registered
        ],
        next_page_token=next_page_token,
    )


async def _refuse(context: _Context, error: DiscoveryError) -> NoReturn:
    """End a call with the status of an error."""
    match error:
        case InvalidFields():
            await abort_invalid(context, error.violations)
        case RevisionMismatch():
            metadata = {
                "kind": messages.kind_name(error.kind),
                "name": error.name,
                "current_revision": str(error.revision),
            }
            await abort(context, code_pb2.ABORTED, str(error), _info("REVISION_MISMATCH", metadata))
        case NoSuchOwner():
            info = _info("NO_SUCH_OWNER", {"owner": error.owner})
            await abort(context, code_pb2.NOT_FOUND, str(error), info)
        case _:
            await abort_for(context, error, _CODES)


def _info(reason: str, metadata: dict[str, str]) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)
