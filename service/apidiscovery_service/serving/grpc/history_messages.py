"""Messages of HistoryService: what requests select, and changes with their groups."""

from collections.abc import Callable

from apidiscovery.service.v1 import discovery_pb2, history_pb2

from apidiscovery_service.core.model import Group
from apidiscovery_service.encoding import aggregated
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.history.contents import STATES
from apidiscovery_service.history.history import ReadContent
from apidiscovery_service.history.model import Change, ChangeFilter, ChangeKind, ContentDamaged
from apidiscovery_service.serving.grpc.discovery_messages import STATES as STATE_NUMBERS
from apidiscovery_service.serving.grpc.message_fields import check_names, timestamp

_KINDS = {
    history_pb2.HISTORY_CHANGE_KIND_GROUP: ChangeKind.GROUP,
    history_pb2.HISTORY_CHANGE_KIND_DOCUMENT: ChangeKind.DOCUMENT,
    history_pb2.HISTORY_CHANGE_KIND_OPENAPI: ChangeKind.OPENAPI,
    history_pb2.HISTORY_CHANGE_KIND_STATE: ChangeKind.STATE,
}
_KIND_NUMBERS = {kind: number for number, kind in _KINDS.items()}


def filter_of(
    selection: history_pb2.HistorySelection, may_read: Callable[[str], bool] | None
) -> ChangeFilter:
    """Read a selection.

    Args:
        selection: The message.
        may_read: Whether the caller may read about a cluster, by name; None for all.

    Raises:
        InvalidFields: There are too many names, or a kind of changes is not known.
    """
    for field, names in (("clusters", selection.clusters), ("groups", selection.groups)):
        check_names(f"selection.{field}", names)
    for place, number in enumerate(selection.kinds):
        if number not in _KINDS:
            text = f"want a kind of changes that this release knows, got {number}"
            raise InvalidFields(FieldViolation(f"selection.kinds[{place}]", text))
    return ChangeFilter(
        clusters=tuple(selection.clusters) or None,
        may_read=may_read,
        kinds=tuple(dict.fromkeys(_KINDS[number] for number in selection.kinds)),
        groups=tuple(selection.groups) or None,
    )


def change_message(
    change: Change, before: ReadContent, after: ReadContent
) -> history_pb2.HistoryChange:
    """Return a change as a message, with the group or version before and after, if given."""
    message = history_pb2.HistoryChange(
        id=change.id,
        time=timestamp(change.time),
        cluster=change.cluster,
        kind=_KIND_NUMBERS[change.kind],
        name=change.name,
        cause=change.cause,
        hash_before=change.before,
        hash_after=change.after,
        etag_before=change.etag_before,
        etag_after=change.etag_after,
    )
    if change.kind is ChangeKind.STATE:
        message.state_before = _state(change.before)
        message.state_after = _state(change.after)
    if isinstance(before, str):
        message.version_before = before
    if isinstance(after, str):
        message.version_after = after
    for content, side in ((before, "group_before"), (after, "group_after")):
        if isinstance(content, ContentDamaged):
            message.damage = str(content)
        elif isinstance(content, Group):
            _fill(getattr(message, side), content)
    return message


def _fill(side: history_pb2.HistoryGroup, group: Group) -> None:
    side.group.CopyFrom(aggregated.group_of(group))
    for version in group.versions:
        for resource in version.resources:
            if resource.storage_version_hash:
                key = f"{version.version}/{resource.resource}"
                side.storage_version_hashes[key] = resource.storage_version_hash


def _state(key: str) -> discovery_pb2.SourceState.ValueType:
    state = STATES.get(key)
    return STATE_NUMBERS[state] if state else discovery_pb2.SOURCE_STATE_UNSPECIFIED
