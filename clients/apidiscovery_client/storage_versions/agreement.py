"""The agreement of API servers on a storage version, and waiting for it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2, storage_version_pb2_grpc
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._grpc.errors import discovery_error, failure
from apidiscovery_client.storage_versions.service import wait_request

AGREED = "AllEncodingVersionsEqual"

Metadata = Sequence[tuple[str, str]]


class NoAgreement(DiscoveryError):
    """The servers did not agree in time."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """All servers that have reported write one version.

    Attributes:
        name: Name of the StorageVersion, such as `apps.deployments`.
        uid: The uid of the object, which differs if it is created again.
        encoding_version: The version that all write, such as `apps/v1`.
        since: Objects last written before may be in another version, and a migration has to rewrite
            them. Differs between any two agreements of one object.
        resource_version: The resourceVersion of the object with this agreement.
    """

    name: str
    uid: str
    encoding_version: str
    since: datetime
    resource_version: str

    @classmethod
    def of(cls, found: storageversion_pb2.StorageVersion) -> Self | None:
        """Return the agreement of a StorageVersion; None when there is none."""
        agreed = [one for one in found.status.conditions if one.type == AGREED]
        if not agreed or agreed[0].status != "True" or not found.status.common_encoding_version:
            return None
        return cls(
            found.metadata.name,
            found.metadata.uid,
            found.status.common_encoding_version,
            datetime.fromtimestamp(agreed[0].last_transition_time.seconds, UTC),
            found.metadata.resource_version,
        )

    def is_same_as(self, other: "Agreement | None") -> bool:
        """Tell whether the agreement has stood without interruption between two reads."""
        return other is not None and (self.uid, self.encoding_version, self.since) == (
            other.uid,
            other.encoding_version,
            other.since,
        )


async def agreement_progress(
    channel: grpc.aio.Channel,
    targets: Sequence[tuple[str, str]],
    *,
    timeout_s: float | None = None,
    metadata: Metadata = (),
) -> AsyncGenerator[storage_version_pb2.WaitForAgreementResponse]:
    """Yield the progress of all targets, now and after each change, until they have agreed.

    Args:
        channel: A channel to a server with StorageVersionService.
        targets: Names of StorageVersions and the version to agree on, empty for any.
        timeout_s: Timeout; None for none.
        metadata: Sent with the call, such as a bearer token.

    Raises:
        NoAgreement: The timeout has passed.
        ServerUnreachable: The service does not answer.
        CallRefused: It refuses the call.
    """
    names = ", ".join(name for name, _ in targets)
    stub = storage_version_pb2_grpc.StorageVersionServiceStub(channel)
    call = stub.WaitForAgreement(wait_request(targets), timeout=timeout_s, metadata=metadata)
    try:
        async for progress in call:
            yield progress
            if progress.done:
                return
    except grpc.aio.AioRpcError as error:
        if timeout_s is not None and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise NoAgreement(f"no agreement on {names} within {round(timeout_s, 2):g} s") from None
        raise discovery_error("WaitForAgreement", "", failure(error), timeout_s) from None
    finally:
        call.cancel()  # otherwise the server goes on when the reader stops
    raise NoAgreement(f"{names}: the server ended the answer")


async def wait_for_agreement(
    channel: grpc.aio.Channel,
    name: str,
    *,
    encoding_version: str = "",
    timeout_s: float | None = None,
    metadata: Metadata = (),
) -> Agreement:
    """Wait for the agreement on one resource, and return it.

    Args:
        channel: A channel to a server with StorageVersionService.
        name: Name of the StorageVersion, such as `apps.deployments` or `core.pods`.
        encoding_version: The version to agree on; empty for any.
        timeout_s: Timeout; None for none.
        metadata: Sent with the call, such as a bearer token.

    Raises:
        NoAgreement: The timeout has passed.
        ServerUnreachable: The service does not answer.
        CallRefused: It refuses the call.
    """
    targets = [(name, encoding_version)]
    answers = agreement_progress(channel, targets, timeout_s=timeout_s, metadata=metadata)
    async with aclosing(answers):
        async for progress in answers:
            if progress.done:
                agreement = Agreement.of(progress.progress[0].storage_version)
                if agreement is not None:
                    return agreement
    raise NoAgreement(f"{name}: the server reports an agreement without a version")
