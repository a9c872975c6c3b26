"""The status of a StorageVersion as fields of the object, and as what is reckoned with.

Sources: k8s.io/api apiserverinternal/v1alpha1/types.go (names, order and what is left out when
empty); k8s.io/apimachinery pkg/apis/meta/v1/time.go (the zero time is null).
"""

from datetime import UTC, datetime

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import reading
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.reading import Fields
from apidiscovery_service.storage_versions import timestamps
from apidiscovery_service.storage_versions.agreement import Condition, Entry, Status


def status_of(value: Object) -> Status:
    """Return the status of a decoded StorageVersion."""
    fields = reading.mapping(value, "status")
    common = fields.get("commonEncodingVersion")
    return Status(
        tuple(_entry(entry) for entry in reading.mappings(fields, "storageVersions")),
        common if isinstance(common, str) else None,
        tuple(_condition(condition) for condition in reading.mappings(fields, "conditions")),
    )


def server_ids(value: Object) -> list[str]:
    """Return the identities of the API servers that have entries, in order."""
    entries = reading.mappings(reading.mapping(value, "status"), "storageVersions")
    return [reading.text(entry, "apiServerID") for entry in entries]


def with_status(value: Object, status: Status) -> Object:
    """Return the object with another status, which is its last field."""
    return {k: v for k, v in value.items() if k != "status"} | {"status": _status_fields(status)}


def generation_of(value: Object) -> int:
    """Return `metadata.generation`, 0 when there is none."""
    return reading.integer(reading.mapping(value, "metadata"), "generation")


def _entry(fields: Fields) -> Entry:
    return Entry(
        reading.text(fields, "apiServerID"),
        reading.text(fields, "encodingVersion"),
        tuple(reading.strings(fields, "decodableVersions")),
        tuple(reading.strings(fields, "servedVersions")),
    )


def _condition(fields: Fields) -> Condition:
    since = reading.text(fields, "lastTransitionTime")
    return Condition(
        reading.text(fields, "type"),
        reading.text(fields, "status"),
        reading.text(fields, "reason"),
        reading.text(fields, "message"),
        reading.integer(fields, "observedGeneration"),
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


def _entry_fields(entry: Entry) -> JSONValue:
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
    fields["lastTransitionTime"] = timestamps.seconds(since) if since else None
    fields["reason"] = condition.reason
    if condition.message:
        fields["message"] = condition.message
    return fields
