"""Calls StorageVersionService from code that does not run in an event loop."""

from collections.abc import Iterator, Sequence

import grpc
from apidiscovery.service.v1 import storage_version_pb2 as messages
from apidiscovery.service.v1 import storage_version_pb2_grpc

from apidiscovery_client._grpc.calls import GrpcClient, GrpcServer


class StorageVersionClient(GrpcClient):
    """One connection to a server for storage versions."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__(server)
        self._stub = storage_version_pb2_grpc.StorageVersionServiceStub(self._channel)

    def list(self, timeout_s: float | None = None) -> messages.ListStorageVersionsResponse:
        """Return all objects and all members, by name, and how discovery compares.

        Args:
            timeout_s: For how long to wait, if that is less than for any request.
        """
        request = messages.ListStorageVersionsRequest()
        return self._call(
            "ListStorageVersions", self._stub.ListStorageVersions, request, timeout_s
        )[0]

    def watch(
        self, names: Sequence[str] = (), resource_version: str = ""
    ) -> Iterator[messages.WatchStorageVersionsResponse]:
        """Yield what changes, of these objects or of all, for as long as the server tells.

        Args:
            names: Of StorageVersions; none for all.
            resource_version: After which to begin; empty to begin with what is there.
        """
        request = messages.WatchStorageVersionsRequest(
            names=names, resource_version=resource_version
        )
        try:
            yield from self._stub.WatchStorageVersions(request, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._error("WatchStorageVersions", error) from None

    def wait(
        self, targets: Sequence[tuple[str, str]], timeout_s: float | None = None
    ) -> Iterator[messages.WaitForAgreementResponse]:
        """Yield who agrees and who lags, until all is agreed or the time has passed.

        Args:
            targets: Names of StorageVersions and the version waited for, empty for any.
            timeout_s: For how long; None without end.
        """
        request = messages.WaitForAgreementRequest(
            targets=[
                messages.AgreementTarget(name=name, encoding_version=version)
                for name, version in targets
            ]
        )
        call = self._stub.WaitForAgreement(request, timeout=timeout_s, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                return
            raise self._error("WaitForAgreement", error) from None
