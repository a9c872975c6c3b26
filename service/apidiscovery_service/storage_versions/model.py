"""The status of a StorageVersion: who writes which version, and whether all agree.

A transition follows k8s.io/apiserver pkg/storageversion/updater.go (`localUpdateStorageVersion`,
`SetCommonEncodingVersion`, `setStatusCondition`) except for its time: every transition is at least
a second later than the one before it. So two reads with the same common version and the same
transition time had no transition between them, however far the clocks of replicas are apart.

Sources of the fields: k8s.io/api apiserverinternal/v1alpha1/types.go (names, order, omitempty);
k8s.io/apimachinery pkg/apis/meta/v1/time.go and micro_time.go (the zero time is null).
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from apidiscovery_formats.times import time_text

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import json_fields
from apidiscovery_service.kube.objects.json_fields import Fields
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import metadata_of, with_metadata

ALL_ENCODING_VERSIONS_EQUAL = "AllEncodingVersionsEqual"

# The lastTransitionTime of a Kubernetes condition has no fractions of a second.
_TICK = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ServerStorageVersion:
    """The versions of a resource that one API server writes, reads and serves.

    Attributes:
        api_server_id: Identity of the API server.
        encoding_version: The version it writes.
        decodable_versions: The versions it reads, in its own order.
        served_versions: The versions it serves, in its own order.
    """

    api_server_id: str
    encoding_version: str
    decodable_versions: tuple[str, ...] = ()
    served_versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a StorageVersion.

    Attributes:
        type: Such as `AllEncodingVersionsEqual`.
        status: `True`, `False` or `Unknown`.
        reason: For programs.
        message: For people.
        observed_generation: Generation of the object that the condition describes.
        last_transition_time: UTC, whole seconds; None when unknown.
    """

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a StorageVersion.

    Attributes:
        entries: At most one for each API server, in the order of their first reports.
        common_encoding_version: The version that all of them write; None when they differ or there
            is no entry.
        conditions: At most one of each type, oldest first.
    """

    entries: tuple[ServerStorageVersion, ...] = ()
    common_encoding_version: str | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def condition(self) -> Condition | None:
        """The condition `AllEncodingVersionsEqual`; None when there is none."""
        found = (c for c in self.conditions if c.type == ALL_ENCODING_VERSIONS_EQUAL)
        return next(found, None)

    @property
    def agreed(self) -> bool:
        """Whether there are entries, and all write the same version."""
        return len({entry.encoding_version for entry in self.entries}) == 1


# Transitions.


def with_entry(
    status: Status,
    entry: ServerStorageVersion,
    *,
    generation: int,
    now: datetime,
    gone: Collection[str] = (),
) -> Status:
    """Return the status after a report.

    Args:
        status: The status before.
        entry: Replaces the entry of the same API server, or is appended.
        generation: Generation of the object.
        now: UTC; fractions of a second are dropped.
        gone: Identities of API servers whose entries are removed in the same change.

    Returns:
        A status equal to `status` if the report changes nothing.
    """
    remaining = [e for e in status.entries if e.api_server_id not in gone]
    ids = [e.api_server_id for e in remaining]
    if entry.api_server_id not in ids:
        return _with_entries(status, (*remaining, entry), generation, now)
    place = ids.index(entry.api_server_id)
    after = tuple(e for e in remaining[place + 1 :] if e.api_server_id != entry.api_server_id)
    return _with_entries(status, (*remaining[:place], entry, *after), generation, now)


def without_servers(
    status: Status, api_server_ids: Collection[str], *, generation: int, now: datetime
) -> Status:
    """Return the status without the entries of some API servers.

    Returns:
        A status with a condition in any case; without a common version if no entry is left.
    """
    remaining = tuple(e for e in status.entries if e.api_server_id not in api_server_ids)
    return _with_entries(status, remaining, generation, now)


def _with_entries(
    status: Status, entries: tuple[ServerStorageVersion, ...], generation: int, now: datetime
) -> Status:
    """Return the status with other entries, and the common version and condition they imply."""
    versions = {entry.encoding_version for entry in entries}
    common = versions.pop() if len(versions) == 1 else None
    condition = _condition_for(common, generation)
    before = status.condition
    if before is None:
        condition = replace(condition, last_transition_time=_whole_second(now))
        return Status(entries, common, (*status.conditions, condition))
    has_moved = before.status != condition.status or (
        status.common_encoding_version is not None
        and common is not None
        and status.common_encoding_version != common
    )
    since = before.last_transition_time
    condition = replace(condition, last_transition_time=_later(since, now) if has_moved else since)
    conditions = tuple(condition if c is before else c for c in status.conditions)
    return Status(entries, common, conditions)


def _condition_for(common: str | None, generation: int) -> Condition:
    word, status = ("Unset", "False") if common is None else ("Set", "True")
    return Condition(
        ALL_ENCODING_VERSIONS_EQUAL,
        status,
        f"CommonEncodingVersion{word}",
        f"Common encoding version {word.lower()}",
        generation,
    )


def _later(before: datetime | None, now: datetime) -> datetime:
    """Return now, or a second after the former transition if that is later."""
    if before is None:
        return _whole_second(now)
    try:
        return max(_whole_second(now), before + _TICK)
    except OverflowError:  # the end of the year 9999
        return before


def _whole_second(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


# Fields of the object.


def status_of(value: Object) -> Status:
    """Return the status of a decoded StorageVersion."""
    fields = json_fields.mapping(value, "status")
    common = fields.get("commonEncodingVersion")
    return Status(
        tuple(_entry(entry) for entry in json_fields.mappings(fields, "storageVersions")),
        common if isinstance(common, str) else None,
        tuple(_condition(condition) for condition in json_fields.mappings(fields, "conditions")),
    )


def server_ids(value: Object) -> list[str]:
    """Return the identities of the API servers that have entries, in order."""
    entries = json_fields.mappings(json_fields.mapping(value, "status"), "storageVersions")
    return [json_fields.text(entry, "apiServerID") for entry in entries]


def with_status(value: Object, status: Status) -> Object:
    """Return the object with another status, as its last field."""
    return {k: v for k, v in value.items() if k != "status"} | {"status": _status_fields(status)}


def generation_of(value: Object) -> int:
    """Return `metadata.generation`, 0 when there is none."""
    return json_fields.integer(metadata_of(value), "generation")


def marked_for_deletion(value: Object, now: datetime) -> Object:
    """Return the object with the mark that it goes with its last finalizer.

    Source: k8s.io/apiserver pkg/registry/rest/delete.go, `BeforeDelete`.
    """
    marks: Object = {"deletionTimestamp": time_text(now), "deletionGracePeriodSeconds": 0}
    if generation := generation_of(value):
        marks["generation"] = generation + 1
    return with_metadata(value, marks)


def _entry(fields: Fields) -> ServerStorageVersion:
    return ServerStorageVersion(
        json_fields.text(fields, "apiServerID"),
        json_fields.text(fields, "encodingVersion"),
        tuple(json_fields.strings(fields, "decodableVersions")),
        tuple(json_fields.strings(fields, "servedVersions")),
    )


def _condition(fields: Fields) -> Condition:
    since = json_fields.text(fields, "lastTransitionTime")
    return Condition(
        json_fields.text(fields, "type"),
        json_fields.text(fields, "status"),
        json_fields.text(fields, "reason"),
        json_fields.text(fields, "message"),
        json_fields.integer(fields, "observedGeneration"),
        datetime.fromisoformat(since).astimezone(UTC) if since else None,
    )


def _status_fields(status: Status) -> Object:
    fields: Object = {}
    if status.entries:
        fields["storageVersions"] = [_entry_fields(entry) for entry in status.entries]
    if status.common_encoding_version is not None:
        fields["commonEncodingVersion"] = status.common_encoding_version
    if status.conditions:
        fields["conditions"] = [_condition_fields(condition) for condition in status.conditions]
    return fields


def _entry_fields(entry: ServerStorageVersion) -> JSONValue:
    fields: dict[str, JSONValue] = {
        "apiServerID": entry.api_server_id,
        "encodingVersion": entry.encoding_version,
        "decodableVersions": list(entry.decodable_versions),
        "servedVersions": list(entry.served_versions),
    }
    return {name: value for name, value in fields.items() if value}


def _condition_fields(condition: Condition) -> JSONValue:
    fields: dict[str, JSONValue] = {"type": condition.type, "status": condition.status}
    if condition.observed_generation:
        fields["observedGeneration"] = condition.observed_generation
    since = condition.last_transition_time
    fields["lastTransitionTime"] = time_text(since) if since else None
    fields["reason"] = condition.reason
    if condition.message:
        fields["message"] = condition.message
    return fields


# Times.


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
