"""Describes the changes of a history: what was added, removed or changed, of which kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

from apidiscovery.service.v1 import discovery_pb2, history_pb2
from apidiscovery_client import changes
from apidiscovery_client._reading.parsed import UnreadableError
from apidiscovery_client._reading.protobuf import aggregated_group
from apidiscovery_client.diffing import Finding, Rule, compare
from apidiscovery_client.diffing.fields import summary
from apidiscovery_client.model import Group, Resource, Snapshot, Version
from apidiscovery_client.schemas import FieldChanges
from apidiscovery_formats.times import time_text

from apidiscovery_cli.reports.diff import finding_fields
from apidiscovery_cli.reports.fields import fields_json

FieldsOf: TypeAlias = Callable[[history_pb2.HistoryChange], FieldChanges | None]

MERGED = "-"  # the name, in tables, of what the server itself merges

_STATES = {
    discovery_pb2.SOURCE_STATE_CURRENT: "answers",
    discovery_pb2.SOURCE_STATE_STALE: "does not answer",
    discovery_pb2.SOURCE_STATE_PENDING: "has not answered yet",
}
_TYPES = {
    history_pb2.HISTORY_CHANGE_KIND_GROUP: "group",
    history_pb2.HISTORY_CHANGE_KIND_DOCUMENT: "version",
    history_pb2.HISTORY_CHANGE_KIND_OPENAPI: "openapi",
    history_pb2.HISTORY_CHANGE_KIND_STATE: "state",
}
# These rules compare names across groups, and a change is of one group.
_OF_NAMES = frozenset(
    {Rule.NAME_MOVED, Rule.NAME_REMOVED, Rule.NAME_RESOLVES_ELSEWHERE, Rule.SHORT_NAME_STOLEN}
)


@dataclass(frozen=True, slots=True)
class DescribedChange:
    """A change in words.

    Attributes:
        change: The change as the server sent it.
        words: What has changed, a line for each; at least one.
        findings: The changes of a group to which rules apply, with severities.
        fields: The changes of fields between two OpenAPI documents; None if they were not asked
            for, or if there is one document only.
    """

    change: history_pb2.HistoryChange
    words: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    fields: FieldChanges | None = None

    @property
    def time(self) -> datetime:
        """When it was seen, in UTC."""
        return self.change.time.ToDatetime(UTC)

    @property
    def type(self) -> str:
        """What has changed: `group`, `version`, `openapi` or `state`."""
        return _TYPES.get(self.change.kind, "other")

    def as_json(self) -> dict[str, object]:
        """Return the change as JSON; hashes and ETags are empty where there was nothing."""
        change = self.change
        fields: dict[str, object] = {
            "id": change.id,
            "time": time_text(self.time, "milliseconds"),
            "cluster": change.cluster,
            "type": self.type,
            "name": change.name,
            "changes": list(self.words),
            "findings": [finding_fields(found) for found in self.findings],
            "cause": change.cause,
            "hashBefore": change.hash_before,
            "hashAfter": change.hash_after,
            "etagBefore": change.etag_before,
            "etagAfter": change.etag_after,
        }
        if self.fields is not None:
            fields["fields"] = fields_json(self.fields, self.fields.changes)
        return fields


def describe(
    change: history_pb2.HistoryChange,
    kinds: Sequence[str] = (),
    fields_of: FieldsOf | None = None,
) -> DescribedChange | None:
    """Return a change in words.

    Args:
        change: With its groups.
        kinds: Kinds or plural names of resources, in lower case, to which the description is
            limited; empty for all.
        fields_of: Returns the changes of fields of these kinds, None if they are not known. Without
            it new documents are left out.

    Returns:
        None for a change that clients do not notice, such as another order of the groups, and for
        one that is not of these kinds.
    """
    if change.kind == history_pb2.HISTORY_CHANGE_KIND_GROUP:
        return _of_group(change, frozenset(kinds))
    fields = fields_of(change) if fields_of is not None else None
    if kinds and not (fields and (fields.changes or fields.failures)):
        return None
    is_new_document = (
        change.kind == history_pb2.HISTORY_CHANGE_KIND_OPENAPI and not change.hash_before
    )
    if is_new_document and fields_of is None:
        return None  # the change of its version is enough
    words = _WORDS.get(change.kind, _of_other)(change)
    if fields is not None:
        words = f"{words}: {summary(fields)}"
    return DescribedChange(change, (words,), fields=fields) if words else None


def _of_group(change: history_pb2.HistoryChange, kinds: frozenset[str]) -> DescribedChange | None:
    name = change.name or "core"
    if change.damage:
        return DescribedChange(change, (f"{name}: changed; details are damaged: {change.damage}",))
    when = change.time.ToDatetime(UTC)
    try:
        sides = [_side(change, field, when, kinds) for field in ("group_before", "group_after")]
    except UnreadableError as error:
        return DescribedChange(change, (f"{name}: changed; details are unreadable: {error}",))
    before, after = sides
    findings = tuple(
        found for found in compare(before, after).findings if found.rule not in _OF_NAMES
    )
    words = tuple(f"{found.subject}: {found.message}" for found in findings)
    words = words or tuple(map(str, changes.changes(before, after)))
    return DescribedChange(change, words, findings) if words else None


def _side(
    change: history_pb2.HistoryChange, field: str, when: datetime, kinds: frozenset[str]
) -> Snapshot:
    """Return one side of a change of a group as what a server serves."""
    groups: tuple[Group, ...] = ()
    if change.HasField(field):  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - one of two names
        side: history_pb2.HistoryGroup = getattr(change, field)
        group = aggregated_group(side.group, when)
        hashes = side.storage_version_hashes
        versions = tuple(_version(version, hashes, kinds) for version in group.versions)
        if kinds:
            versions = tuple(version for version in versions if version.resources)
        if versions or not kinds:
            groups = (replace(group, versions=versions),)
    return Snapshot(groups, change.cluster, when)


def _version(version: Version, hashes: Mapping[str, str], kinds: frozenset[str]) -> Version:
    def hashed(resource: Resource) -> Resource:
        found = hashes.get(f"{version.gv.version}/{resource.name}", "")
        return replace(resource, storage_version_hash=found) if found else resource

    resources = (
        hashed(resource)
        for resource in version.resources
        if not kinds or kinds & {resource.name, resource.kind.lower()}
    )
    return replace(version, resources=tuple(resources))


def _of_version(change: history_pb2.HistoryChange) -> str:
    before, after = change.version_before, change.version_after
    if before == after:
        return ""
    now = f"server is {after or 'of an unknown version'}"
    return f"{now}, and was {before}" if before else now


def _of_openapi(change: history_pb2.HistoryChange) -> str:
    if not change.hash_before:
        return f"{change.name}: schemas added"
    return f"{change.name}: schemas {'changed' if change.hash_after else 'removed'}"


def _of_state(change: history_pb2.HistoryChange) -> str:
    if not change.hash_after:
        return "cluster removed"
    state = _STATES.get(change.state_after, "has another state")
    return f"cluster {state}" if change.hash_before else f"cluster added: {state}"


def _of_other(_change: history_pb2.HistoryChange) -> str:
    return "something changed that this client does not know"


_WORDS: Mapping[int, Callable[[history_pb2.HistoryChange], str]] = {
    history_pb2.HISTORY_CHANGE_KIND_DOCUMENT: _of_version,
    history_pb2.HISTORY_CHANGE_KIND_OPENAPI: _of_openapi,
    history_pb2.HISTORY_CHANGE_KIND_STATE: _of_state,
}


def row(one: DescribedChange) -> tuple[str, str, str, str]:
    """Return the cells of a change: time, cluster, cause, and what has changed."""
    return (
        f"{one.time:%Y-%m-%dT%H:%M:%SZ}",
        one.change.cluster or MERGED,
        one.change.cause,
        "; ".join(one.words),
    )
