"""Messages of RegistryService, from and to registrations.

Only forms are checked here: that an enum is known, a number within its type. Errors name the fields
of groups as the protos name them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson
from apidiscovery.service.v1 import registry_pb2
from apidiscovery_formats.json_values import as_object
from apidiscovery_formats.times import time_text
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.serving.grpc.calls import KIND_NUMBERS
from apidiscovery_service.serving.grpc.message_fields import (
    invalid_token,
    page_size_of,
    seconds_of,
    timestamp,
    token_parts,
)
from apidiscovery_service.sources.registrations import published
from apidiscovery_service.sources.registrations.apply import MAX_DOCUMENTS
from apidiscovery_service.sources.registrations.published import PlacedGroup
from apidiscovery_service.sources.registrations.record import RegistrationKind
from apidiscovery_service.sources.registrations.requests import (
    MAX_REFERENCES,
    Application,
    ApplyOutcome,
    ApplyResult,
    LimitExceeded,
    Manifest,
    OwnerLease,
    Publication,
    Query,
    Reference,
    Registered,
)
from apidiscovery_service.store import MAX_VALUE_BYTES

_KINDS = {number: kind for kind, number in KIND_NUMBERS.items()}

_OUTCOMES = {
    ApplyOutcome.CREATED: registry_pb2.AppliedDocument.OUTCOME_CREATED,
    ApplyOutcome.CONFIGURED: registry_pb2.AppliedDocument.OUTCOME_CONFIGURED,
    ApplyOutcome.UNCHANGED: registry_pb2.AppliedDocument.OUTCOME_UNCHANGED,
}

# An owner is removed after so many lease durations, unless its request says otherwise.
_REMOVAL_AFTER_LEASES = 10

# Each takes some microseconds to check, and the smallest takes two bytes to send. The limits are
# above what a registration of one megabyte, the largest, has of real ones.
_MAX_GROUPS = 20_000
_MAX_VERSIONS = 20_000
_MAX_RESOURCES = 50_000

# Quoted text is not a field name.
_CAPITAL = re.compile(r'"[^"]*"|(?<=[a-z])[A-Z]')


def publication_of(request: registry_pb2.PublishRequest) -> Publication:
    """Read a request to publish.

    Raises:
        InvalidFields: It is malformed.
        LimitExceeded: It has too many parts.
    """
    documents = {
        place: dict(placed.openapi_v3)
        for place, placed in enumerate(request.groups.groups)
        if placed.openapi_v3
    }
    # Documents are stored compressed, so their size here does not count.
    size = request.groups.ByteSize() - sum(
        len(document) for of_group in documents.values() for document in of_group.values()
    )
    if size > MAX_VALUE_BYTES:
        message = f"too large to be kept: {size} bytes"
        raise InvalidFields(FieldViolation("groups", f"{message}, at most {MAX_VALUE_BYTES}"))
    _check_groups(request.groups.groups)
    return Publication(
        request.name,
        tuple(map(_placed, request.groups.groups)),
        request.owner,
        lease_of(request),
        request.expected_revision if request.HasField("expected_revision") else None,
        documents,
    )


def _check_groups(groups: Sequence[registry_pb2.PublishedGroup]) -> None:
    _check_count("groups.groups", groups, _MAX_GROUPS)
    versions = [version for placed in groups for version in placed.group.versions]
    _check_count("groups.groups[].group.versions", versions, _MAX_VERSIONS)
    priorities = sum(len(placed.version_priorities) for placed in groups)
    if priorities > _MAX_VERSIONS:
        raise _too_many("groups.groups[].version_priorities", _MAX_VERSIONS, priorities)
    documents = sum(len(placed.openapi_v3) for placed in groups)
    if documents > _MAX_VERSIONS:
        raise _too_many("groups.groups[].openapi_v3", _MAX_VERSIONS, documents)
    resources = sum(
        1 + len(resource.subresources) for version in versions for resource in version.resources
    )
    if resources > _MAX_RESOURCES:
        field = "groups.groups[].group.versions[].resources"
        raise _too_many(field, _MAX_RESOURCES, resources)


def _placed(message: registry_pb2.PublishedGroup) -> PlacedGroup:
    explicit = message.HasField("group_priority_minimum")
    return PlacedGroup(
        as_object(MessageToDict(message.group)),
        message.group_priority_minimum if explicit else None,
        tuple(message.version_priorities),
    )


def lease_of(
    request: registry_pb2.PublishRequest | registry_pb2.ApplyRequest,
) -> OwnerLease | None:
    """Return the owner lease of a request, None without one.

    Raises:
        InvalidFields: It has no duration.
    """
    if not request.HasField("lease"):
        return None
    if not request.lease.HasField("duration"):
        raise InvalidFields(FieldViolation("lease.duration", "required"))
    duration_s = seconds_of("lease.duration", request.lease.duration)
    if request.lease.HasField("removal_after"):
        return OwnerLease(
            duration_s, seconds_of("lease.removal_after", request.lease.removal_after)
        )
    return OwnerLease(duration_s, _REMOVAL_AFTER_LEASES * duration_s)


def in_proto_names(error: InvalidFields) -> InvalidFields:
    """Return an error about groups with the field names of the protos."""
    return InvalidFields(
        *(
            FieldViolation(_proto_name(violation.field), violation.message)
            for violation in error.violations
        )
    )


def _proto_name(field: str) -> str:
    """Return the path of a field of groups.

    >>> _proto_name("groups[0].versionPriorities[1]")
    'groups.groups[0].version_priorities[1]'
    >>> _proto_name('groups[0].openapiV3["v1Beta"]')
    'groups.groups[0].openapi_v3["v1Beta"]'
    """
    field = _CAPITAL.sub(_snake_case, field)
    return f"groups.{field}" if field.startswith("groups[") else field


def _snake_case(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else f"_{match[0].lower()}"


def application_of(request: registry_pb2.ApplyRequest) -> Application:
    """Read a request to apply manifests.

    Raises:
        InvalidFields: It is malformed.
        LimitExceeded: It has too many parts.
    """
    _check_count("manifests", request.manifests, MAX_DOCUMENTS)
    return Application(
        tuple(Manifest(m.content, m.file, m.list_name) for m in request.manifests),
        request.owner,
        lease_of(request),
        references_of("expected", request.expected),
        request.dry_run,
    )


def references_of(
    field: str, messages: Sequence[registry_pb2.RegistrationReference]
) -> tuple[Reference, ...]:
    """Read references to registrations.

    Raises:
        InvalidFields: A kind is unknown.
        LimitExceeded: There are too many.
    """
    _check_count(field, messages, MAX_REFERENCES)
    kinds = _known((f"{field}[{n}].kind", message.kind) for n, message in enumerate(messages))
    return tuple(
        Reference(
            kind,
            message.name,
            message.expected_revision if message.HasField("expected_revision") else None,
        )
        for kind, message in zip(kinds, messages, strict=True)
    )


def _check_count(field: str, parts: Sequence[object], most: int) -> None:
    """Check the number of elements before time is spent on each.

    A message of 8 MB has room for millions of empty ones.
    """
    if len(parts) > most:
        raise _too_many(field, most, len(parts))


def _too_many(field: str, most: int, count: int) -> LimitExceeded:
    return LimitExceeded(f"{field}: a request may have {most} at most, got {count}")


def _known(
    numbers: Iterable[tuple[str, registry_pb2.RegistrationKind.ValueType]],
) -> list[RegistrationKind]:
    kinds: list[RegistrationKind] = []
    wrong: list[FieldViolation] = []
    for field, number in numbers:
        if number in _KINDS:
            kinds.append(_KINDS[number])
        else:
            wrong.append(FieldViolation(field, f"want one of RegistrationKind, got {number}"))
    if wrong:
        raise InvalidFields(*wrong)
    return kinds


def query_of(request: registry_pb2.ListRegistrationsRequest) -> Query:
    """Read a request to list.

    Raises:
        InvalidFields: It is malformed.
        LimitExceeded: It names too much.
    """
    _check_count("kinds", request.kinds, MAX_REFERENCES)
    _check_count("names", request.names, MAX_REFERENCES)
    kinds = _known((f"kinds[{place}]", number) for place, number in enumerate(request.kinds))
    return Query(
        frozenset(kinds),
        frozenset(request.names),
        request.owner,
        page_size_of(request.page_size) or 0,
        _place_of(request.page_token) if request.page_token else None,
        request.with_openapi,
    )


def reference_message(reference: Reference) -> registry_pb2.RegistrationReference:
    """Return a reference as a message."""
    return registry_pb2.RegistrationReference(
        kind=KIND_NUMBERS[reference.kind],
        name=reference.name,
        expected_revision=reference.revision,
    )


def applied_message(written: ApplyResult) -> registry_pb2.AppliedDocument:
    """Return an applied document as a message."""
    return registry_pb2.AppliedDocument(
        registration=registration_message(written.registered), outcome=_OUTCOMES[written.outcome]
    )


def registration_message(
    registered: Registered, *, with_documents: bool = False
) -> registry_pb2.Registration:
    """Return a registration as a message.

    Raises:
        InvalidRecord: An OpenAPI document in it cannot be read.
    """
    record = registered.record
    stale = registered.stale_since is not None
    message = registry_pb2.Registration(
        kind=KIND_NUMBERS[registered.kind],
        name=registered.name,
        revision=registered.revision,
        owner=record.owner,
        state=registry_pb2.REGISTRATION_STATE_STALE
        if stale
        else registry_pb2.REGISTRATION_STATE_CURRENT,
        stale_since=_time(registered.stale_since),
        created=_time(record.created),
    )
    if registered.kind is RegistrationKind.GROUPS:
        groups = published.from_json(record.content)
        message.groups.groups.extend(_group_messages(groups, with_documents=with_documents))
    else:
        message.manifest = _manifest(registered)
    return message


def _time(text: str | None) -> Timestamp | None:
    return timestamp(datetime.fromisoformat(text).astimezone(UTC)) if text else None


def _place_of(token: str) -> tuple[RegistrationKind, str]:
    """Return the registration after which a page begins.

    Raises:
        InvalidFields: It is not a token.
    """
    kind, name = map(str, token_parts(token, str, str))
    try:
        return RegistrationKind(kind), name
    except ValueError:
        raise invalid_token() from None


def _group_messages(
    groups: Sequence[PlacedGroup], *, with_documents: bool
) -> Iterator[registry_pb2.PublishedGroup]:
    for placed in groups:
        message = registry_pb2.PublishedGroup(
            group_priority_minimum=placed.priority,
            version_priorities=placed.version_priorities,
            openapi_v3_hashes={version: one.hash for version, one in placed.documents.items()},
        )
        if with_documents:
            message.openapi_v3.update((v, one.json()) for v, one in placed.documents.items())
        # Of the `metadata` of an applied list only the name is in the model.
        yield ParseDict({"group": placed.group}, message, ignore_unknown_fields=True)


def _manifest(registered: Registered) -> bytes:
    """Return an object with its revision, as kube-apiserver shows it."""
    manifest = as_object(registered.record.content)
    if not registered.revision:
        return orjson.dumps(manifest)
    metadata = {**as_object(manifest.get("metadata")), "resourceVersion": str(registered.revision)}
    return orjson.dumps({**manifest, "metadata": metadata})


# The condition Available of an APIService. Sources: k8s.io/kube-aggregator
# pkg/controllers/status/remote/remote_available_controller.go and
# pkg/controllers/status/local/local_available_controller.go.
_STATUSES = {
    SourceState.CURRENT: ("True", "Passed", "all checks passed"),
    SourceState.STALE: ("False", "FailedDiscoveryCheck", ""),
    SourceState.PENDING: ("Unknown", "Pending", "not asked yet"),
}
_LOCAL = ("True", "Local", "Local APIServices are always available")


def with_availability(registered: Registered, status: SourceStatus | None) -> Registered:
    """Return an APIService with the condition Available.

    Args:
        registered: The APIService as registered.
        status: The status of its source; None for an APIService without a server.
    """
    value, reason, message = _STATUSES[status.state] if status else _LOCAL
    condition: dict[str, JSONValue] = {
        "type": "Available",
        "status": value,
        "reason": reason,
        "message": (status.error if status else "") or message,
    }
    if status and status.since:
        condition["lastTransitionTime"] = time_text(status.since)
    content = {**as_object(registered.record.content), "status": {"conditions": [condition]}}
    return replace(registered, record=replace(registered.record, content=content))
