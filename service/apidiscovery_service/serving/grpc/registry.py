"""RegistryService: registrations, published and applied at run time."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from apidiscovery.service.v1 import registry_pb2

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import Access, OpenAccess
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import registry_messages as messages
from apidiscovery_service.serving.grpc.admission import admit_call
from apidiscovery_service.serving.grpc.calls import Behaviour, Context, Service
from apidiscovery_service.serving.grpc.message_fields import duration_of, page_token
from apidiscovery_service.sources.registrations import Registrations
from apidiscovery_service.sources.registrations.record import RegistrationKind
from apidiscovery_service.sources.registrations.requests import (
    ApplyOutcome,
    ApplyResult,
    Denied,
    Registered,
    Requester,
)
from apidiscovery_service.workers import run_sized

SERVICE = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"]


class RegistryService(Service):
    """The methods of RegistryService.

    Args:
        registrations: The registrations.
        metrics: Counts calls.
        access: Authenticates and authorizes callers; None to admit all.
        ready: Whether the local sources are in the snapshot.
        statuses: Returns the sources that have a status.
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
        super().__init__(SERVICE, metrics, ready)
        self._statuses = statuses
        self._registrations = registrations
        self._access = access or OpenAccess()

    def behaviours(self) -> Mapping[str, Behaviour]:
        """Return the functions that answer the methods."""
        return {
            "Publish": self.publish,
            "Withdraw": self.withdraw,
            "ListRegistrations": self.list_registrations,
            "Apply": self.apply,
            "Renew": self.renew,
        }

    async def publish(
        self, request: registry_pb2.PublishRequest, context: Context
    ) -> registry_pb2.PublishResponse:
        """Answer Publish."""
        requester = self._publisher(context)
        publication = await asyncio.to_thread(messages.publication_of, request)
        try:
            written = await self._registrations.publish(publication, requester)
        except InvalidFields as error:
            raise messages.in_proto_names(error) from None
        return registry_pb2.PublishResponse(
            registration=messages.registration_message(written.registered),
            changed=written.outcome is not ApplyOutcome.UNCHANGED,
        )

    async def withdraw(
        self, request: registry_pb2.WithdrawRequest, context: Context
    ) -> registry_pb2.WithdrawResponse:
        """Answer Withdraw."""
        requester = self._publisher(context)
        references = messages.references_of("registrations", request.registrations)
        removed = await self._registrations.withdraw(references, request.owner, requester)
        return registry_pb2.WithdrawResponse(withdrawn=map(messages.reference_message, removed))

    async def list_registrations(
        self, request: registry_pb2.ListRegistrationsRequest, context: Context
    ) -> registry_pb2.ListRegistrationsResponse:
        """Answer ListRegistrations."""
        admit_call(self._access, context)
        page = await self._registrations.list(messages.query_of(request))
        statuses = {status.name: status for status in self._statuses()}
        registered = [
            messages.with_availability(one, statuses.get(f"apiservice:{one.name}"))
            if one.kind is RegistrationKind.API_SERVICE
            else one
            for one in page.registered
        ]
        token = page_token(*page.next_after) if page.next_after else ""
        listed = partial(_listed, registered, token)
        if request.with_openapi:  # documents are large
            return await asyncio.to_thread(listed, with_documents=True)
        return listed(with_documents=False)

    async def apply(
        self, request: registry_pb2.ApplyRequest, context: Context
    ) -> registry_pb2.ApplyResponse:
        """Answer Apply."""
        requester = self._publisher(context)
        application = messages.application_of(request)
        written = await self._registrations.apply(application, requester)
        size = sum(len(manifest.content) for manifest in application.manifests)
        return await run_sized(size, partial(_applied, written))

    async def renew(
        self, request: registry_pb2.RenewRequest, context: Context
    ) -> registry_pb2.RenewResponse:
        """Answer Renew."""
        within_s = await self._registrations.renew(request.owner, self._publisher(context))
        if within_s is None:
            return registry_pb2.RenewResponse()
        return registry_pb2.RenewResponse(renew_within=duration_of(within_s))

    def _publisher(self, context: Context) -> Requester:
        """Return the caller, if it may publish anything.

        Raises:
            Denied: It may not.
            Unauthenticated: The caller is unknown.
        """
        admission = admit_call(self._access, context)
        caller = admission.caller
        if reason := self._access.may_change(caller, ()):
            raise Denied(reason)
        return Requester(
            caller,
            lambda groups: self._access.may_change(caller, groups),
            is_admin=admission.role >= Role.ADMIN,
        )


def _applied(written: Iterable[ApplyResult]) -> registry_pb2.ApplyResponse:
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
