"""Messages of StorageVersionService, from and to the objects of the service."""

from collections.abc import Iterable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.service.v1 import storage_version_pb2
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.messages import message_of
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.serving.grpc.message_fields import duration_of, seconds_of
from apidiscovery_service.storage_versions import leases
from apidiscovery_service.storage_versions.collection import Event, StoredObject
from apidiscovery_service.storage_versions.comparison import HashComparison, HashVerdict
from apidiscovery_service.storage_versions.members import Beat, Heartbeat
from apidiscovery_service.storage_versions.reports import (
    GroupVersionResource,
    Reported,
    ReportedResource,
    ReportOutcome,
)
from apidiscovery_service.storage_versions.state import Progress, Target, is_done

# Targets of one WaitForAgreement; each is compared at every change.
MAX_TARGETS: Final = 1_000

# A group (RFC 1123 subdomain), a dot and a resource (RFC 1035 label).
_MAX_NAME: Final = 253 + 1 + 63

_OUTCOMES = {
    ReportOutcome.UNCHANGED: storage_version_pb2.ReportedStorageVersion.OUTCOME_UNCHANGED,
    ReportOutcome.CREATED: storage_version_pb2.ReportedStorageVersion.OUTCOME_CREATED,
    ReportOutcome.UPDATED: storage_version_pb2.ReportedStorageVersion.OUTCOME_UPDATED,
}
_VERDICTS = {
    HashVerdict.SAME: storage_version_pb2.HASH_VERDICT_SAME,
    HashVerdict.DIFFERENT: storage_version_pb2.HASH_VERDICT_DIFFERENT,
    HashVerdict.UNKNOWN: storage_version_pb2.HASH_VERDICT_UNKNOWN,
}
_EVENTS = {
    EventType.ADDED: storage_version_pb2.WatchStorageVersionsResponse.EVENT_TYPE_ADDED,
    EventType.MODIFIED: storage_version_pb2.WatchStorageVersionsResponse.EVENT_TYPE_MODIFIED,
    EventType.DELETED: storage_version_pb2.WatchStorageVersionsResponse.EVENT_TYPE_DELETED,
    EventType.BOOKMARK: storage_version_pb2.WatchStorageVersionsResponse.EVENT_TYPE_BOOKMARK,
}

# Messages of the objects that are waited for, by name. Without them, five callers that wait for 500
# objects each cost 3 CPU seconds more in the 5.8 of an upgrade (docs/benchmarks.md).
_messages: dict[str, tuple[Object, storageversion_pb2.StorageVersion]] = {}
_MAX_MESSAGES: Final = 5_000

# Encoded events, shared by all watches. Encoding an event takes 33 us: for 1,000 watchers 33 ms, in
# addition to the 41 ms after which half of them have it (docs/benchmarks.md).
_event_bytes: WeakKeyDictionary[Event, bytes] = WeakKeyDictionary()


def storage_version_message(value: Object) -> storageversion_pb2.StorageVersion:
    """Return a StorageVersion as the message of its kind."""
    return message_of(storageversion_pb2.StorageVersion, value)


def lease_message(value: Object) -> lease_pb2.Lease:
    """Return a Lease as the message of its kind."""
    return message_of(lease_pb2.Lease, value)


def heartbeat_of(request: storage_version_pb2.HeartbeatRequest) -> Heartbeat:
    """Return the heartbeat in a request.

    Raises:
        InvalidFields: The lease duration is malformed.
    """
    asked = request.HasField("lease_duration")
    return Heartbeat(
        request.hostname,
        request.component,
        request.instance,
        seconds_of("lease_duration", request.lease_duration)
        if asked
        else leases.DEFAULT_DURATION_S,
    )


def heartbeat_message(beat: Beat) -> storage_version_pb2.HeartbeatResponse:
    """Return the result of a heartbeat as a message."""
    return storage_version_pb2.HeartbeatResponse(
        api_server_id=beat.api_server_id,
        lease=lease_message(beat.lease.object),
        renew_after=duration_of(beat.renew_after_s),
        joined=beat.joined,
    )


def resources_of(request: storage_version_pb2.ReportRequest) -> list[ReportedResource]:
    """Return the reported resources of a request."""
    return [
        ReportedResource(
            one.group,
            one.resource,
            one.encoding_version,
            tuple(one.decodable_versions),
            tuple(one.served_versions),
            tuple(
                GroupVersionResource(each.group, each.version, each.resource)
                for each in one.equivalents
            ),
        )
        for one in request.resources
    ]


def reported_message(reported: Reported) -> storage_version_pb2.ReportedStorageVersion:
    """Return the result of a report for one object as a message."""
    return storage_version_pb2.ReportedStorageVersion(
        name=reported.name,
        outcome=_OUTCOMES[reported.outcome],
        resource_version=str(reported.stored.revision),
        agreed=reported.agreed,
    )


def list_message(
    objects: Iterable[StoredObject],
    revision: int,
    members: Iterable[StoredObject],
    comparisons: Iterable[HashComparison],
) -> storage_version_pb2.ListStorageVersionsResponse:
    """Return a list of objects with members and comparisons as a message."""
    answer = storage_version_pb2.ListStorageVersionsResponse(
        members=[lease_message(one.object) for one in members],
        comparisons=[
            storage_version_pb2.HashComparison(
                name=one.name,
                discovery_hash=one.discovery_hash,
                reported_hash=one.reported_hash,
                verdict=_VERDICTS[one.verdict],
            )
            for one in comparisons
        ],
    )
    answer.list.metadata.resource_version = str(revision)
    answer.list.items.extend(storage_version_message(one.object) for one in objects)
    return answer


def event_bytes(event: Event) -> bytes:
    """Return an event as an encoded message, which all watches share."""
    written = _event_bytes.get(event)
    if written is None:
        is_bookmark = event.type is EventType.BOOKMARK
        message = storage_version_pb2.WatchStorageVersionsResponse(
            type=_EVENTS[event.type],
            storage_version=None if is_bookmark else storage_version_message(event.object),
            resource_version=str(event.revision),
        )
        written = _event_bytes[event] = message.SerializeToString()
    return written


def check_name(field: str, name: str) -> None:
    """Check the name of a StorageVersion.

    Raises:
        InvalidFields: It is empty, or longer than any name.
    """
    if not name:
        raise InvalidFields(FieldViolation(field, "is empty, want `<group>.<resource>`"))
    if len(name) > _MAX_NAME:
        raise InvalidFields(
            FieldViolation(field, f"has {len(name)} characters, no name has more than {_MAX_NAME}")
        )


def targets_of(request: storage_version_pb2.WaitForAgreementRequest) -> list[Target]:
    """Return the targets of a request.

    Raises:
        InvalidFields: There are none or too many, or one has no valid name.
    """
    count = len(request.targets)
    if not 1 <= count <= MAX_TARGETS:
        raise InvalidFields(
            FieldViolation("targets", f"has {count} elements, want from 1 to {MAX_TARGETS}")
        )
    for place, one in enumerate(request.targets):
        check_name(f"targets[{place}].name", one.name)
    return [Target(one.name, one.encoding_version) for one in request.targets]


def wait_message(progresses: Sequence[Progress]) -> storage_version_pb2.WaitForAgreementResponse:
    """Return the progress of all targets as a message."""
    return storage_version_pb2.WaitForAgreementResponse(
        progress=map(_progress_message, progresses), done=is_done(progresses)
    )


def _shared_message(name: str, value: Object) -> storageversion_pb2.StorageVersion:
    """Return an object as a message that all waiting callers share; it must not be changed."""
    known = _messages.get(name)
    if known is None or known[0] is not value:
        if len(_messages) >= _MAX_MESSAGES:
            _messages.clear()
        known = _messages[name] = (value, storage_version_message(value))
    return known[1]


def _progress_message(progress: Progress) -> storage_version_pb2.AgreementProgress:
    found = progress.object
    return storage_version_pb2.AgreementProgress(
        name=progress.name,
        storage_version=None if found is None else _shared_message(progress.name, found),
        agreed=progress.agreed,
        agreeing=progress.agreeing,
        lagging=progress.lagging,
        unreported=progress.unreported,
    )
