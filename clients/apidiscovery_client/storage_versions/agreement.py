"""What API servers agree on, and waiting until they do."""

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

AGREED = "AllEncodingVersionsEqual"

Metadata = Sequence[tuple[str, str]]


class NoAgreement(DiscoveryError):
    """The servers did not agree within the time, or nobody could say."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """All servers that have reported write one version.

    Attributes:
        name: Of the StorageVersion, such as `apps.deployments`.
        uid: Of the object; another one is another object of that name.
        encoding_version: What all write, such as `apps/v1`.
        since: Whatever was last written before that may be in another version: this is what a
            migration has to rewrite. Never the same for two agreements of one object.
        resource_version: At which all is so.
    """

    name: str
    uid: str
    encoding_version: str
    since: datetime
    resource_version: str

    @classmethod
    def of(cls, found: storageversion_pb2.StorageVersion) -> Self | None:
        """Return the agreement that an object tells of; None when there is none."""
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

    def is_that_of(self, other: "Agreement | None") -> bool:
        """Tell whether nothing has come between two looks at the object."""
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
    """Yield who agrees and who lags, at once and whenever that changes, until all is agreed.

    Args:
        channel: To a server with StorageVersionService.
        targets: Names of StorageVersions and the version waited for, empty for any.
        timeout_s: For how long; None without end.
        metadata: Sent with the call, such as a bearer token.

    Raises:
        NoAgreement: The time has passed, or the server cannot say.
    """
    request = storage_version_pb2.WaitForAgreementRequest(
        targets=[
            storage_version_pb2.AgreementTarget(name=name, encoding_version=version)
            for name, version in targets
        ]
    )
    names = ", ".join(name for name, _ in targets)
    stub = storage_version_pb2_grpc.StorageVersionServiceStub(channel)
    call = stub.WaitForAgreement(request, timeout=timeout_s, metadata=metadata)
    try:
        async for progress in call:
            yield progress
            if progress.done:
                return
    except grpc.aio.AioRpcError as error:
        if timeout_s is not None and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise NoAgreement(f"no agreement on {names} within {round(timeout_s, 2):g} s") from None
        raise NoAgreement(f"{names}: {error.details() or error.code().name}") from error
    finally:
        call.cancel()  # whoever reads no further would keep the server telling
    raise NoAgreement(f"{names}: the server ended the answer")


async def wait_for_agreement(
    channel: grpc.aio.Channel,
    name: str,
    *,
    encoding_version: str = "",
    timeout_s: float | None = None,
    metadata: Metadata = (),
) -> Agreement:
    """Return the agreement on one resource, as soon as there is one.

    Args:
        channel: To a server with StorageVersionService.
        name: Of the StorageVersion, such as `apps.deployments` or `core.pods`.
        encoding_version: The version to agree on; empty for any.
        timeout_s: For how long to wait; None without end.
        metadata: Sent with the call, such as a bearer token.

    Raises:
        NoAgreement: The time has passed, or the server cannot say.
    """
    targets = [(name, encoding_version)]
    answers = agreement_progress(channel, targets, timeout_s=timeout_s, metadata=metadata)
    async with aclosing(answers):
        async for progress in answers:
            if progress.done:
                agreement = Agreement.of(progress.progress[0].storage_version)
                if agreement is not None:
                    return agreement
    raise NoAgreement(f"{name}: the server tells of an agreement without a version")
