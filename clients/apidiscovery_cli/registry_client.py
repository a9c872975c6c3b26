"""Calls RegistryService and DiscoveryService.ListSources."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apidiscovery.service.v1 import (
    discovery_pb2,
    discovery_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
)
from apidiscovery_client._grpc.calls import GrpcClient, GrpcServer

PAGE_SIZE = 500  # kubectl's --chunk-size


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What came of a withdrawal.

    Attributes:
        references: What was there.
        repeated: Whether an earlier attempt, that got no answer, may have withdrawn more.
    """

    references: tuple[registry_pb2.RegistrationReference, ...]
    repeated: bool


class RegistryClient(GrpcClient):
    """One connection to a server for registrations."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__(server)
        self._registry = registry_pb2_grpc.RegistryServiceStub(self._channel)
        self._discovery = discovery_pb2_grpc.DiscoveryServiceStub(self._channel)

    def apply(self, request: registry_pb2.ApplyRequest) -> tuple[registry_pb2.AppliedDocument, ...]:
        """Return what became of each document, in order."""
        answer, _ = self._call("Apply", self._registry.Apply, request)
        return tuple(answer.documents)

    def withdraw(self, request: registry_pb2.WithdrawRequest) -> Withdrawn:
        """Remove registrations; one that is not there is no error."""
        answer, repeated = self._call("Withdraw", self._registry.Withdraw, request)
        return Withdrawn(tuple(answer.withdrawn), repeated)

    def registrations(
        self, kind: registry_pb2.RegistrationKind.ValueType, names: Sequence[str] = ()
    ) -> Iterator[registry_pb2.Registration]:
        """Yield the registrations of a kind by name, all or those with these names."""
        token = ""
        while True:
            request = registry_pb2.ListRegistrationsRequest(
                kinds=[kind], names=names, page_size=PAGE_SIZE, page_token=token
            )
            page, _ = self._call("ListRegistrations", self._registry.ListRegistrations, request)
            yield from page.registrations
            token = page.next_page_token
            if not token:
                return

    def sources(self) -> tuple[discovery_pb2.DiscoverySource, ...]:
        """Return where what is served comes from, by name."""
        request = discovery_pb2.ListSourcesRequest()
        answer, _ = self._call("ListSources", self._discovery.ListSources, request)
        return tuple(answer.sources)
