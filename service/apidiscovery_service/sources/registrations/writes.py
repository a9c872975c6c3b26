"""One registration into the store: decided on what stands there, written if it still does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.sources.registrations import objects
from apidiscovery_service.sources.registrations.owners import Ownership
from apidiscovery_service.sources.registrations.record import (
    Kind,
    Object,
    Record,
    as_object,
    encode,
    key_of,
    record_of,
)
from apidiscovery_service.sources.registrations.refusals import Denied, RevisionMismatch
from apidiscovery_service.sources.registrations.requests import Outcome, Permit
from apidiscovery_service.storage import MAX_VALUE_BYTES, Conflict, Entry, Store


@dataclass(frozen=True, slots=True)
class Wanted:
    """A registration as it is to be.

    Attributes:
        field: The field of the request that it is from.
        content: Groups in their JSON form, or a manifest.
        expected: Revisions that the caller expects to be there; 0 for none.
    """

    kind: Kind
    name: str
    field: str
    content: JSONValue
    expected: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Where it will stand."""
        return key_of(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Plan:
    """What writing something comes to.

    Attributes:
        entry: What stands there now.
        record: What is to stand there.
        gone: Whether it goes instead: its last finalizer was taken away.
    """

    wanted: Wanted
    entry: Entry | None
    record: Record
    outcome: Outcome
    gone: bool = False


async def plan(
    store: Store, wanted: Wanted, ownership: Ownership, permit: Permit, now: Callable[[], str]
) -> Plan:
    """Decide what writing something comes to, on what stands there now.

    Raises:
        Denied: The caller may not change the groups of the one or the other.
        InvalidFields: It may not take the place of what is there, or is too large.
        RevisionMismatch: Another revision is there than expected, and not what is wanted either.
    """
    entry = await store.get(wanted.key)
    current = record_of(entry) if entry else None
    groups = objects.groups_of(wanted.kind, wanted.content)
    if current is not None:
        groups |= objects.groups_of(wanted.kind, current.content)
    if reason := permit(groups):
        raise Denied(reason)
    made = _made(wanted, current, ownership, now())
    if made == current:
        return Plan(wanted, entry, made, Outcome.UNCHANGED)
    revision = entry.revision if entry else 0
    for expected in wanted.expected:
        if expected != revision:
            raise RevisionMismatch(wanted.kind, wanted.name, expected, revision)
    violations = list(_violations(wanted, current, made))
    if violations:
        raise InvalidFields(*violations)
    manifest = as_object(made.content)
    gone = objects.is_terminating(manifest) and not objects.finalizers_of(manifest)
    return Plan(wanted, entry, made, Outcome.CONFIGURED if entry else Outcome.CREATED, gone)


def _made(wanted: Wanted, current: Record | None, ownership: Ownership, now: str) -> Record:
    content = wanted.content
    if wanted.kind is not Kind.GROUPS:
        manifest = as_object(content)
        content = (
            objects.updated(manifest, as_object(current.content))
            if current
            else objects.created(wanted.kind, manifest, now)
        )
    since = current.created if current else now
    return Record(ownership.owner, ownership.owner_id, since, content)


def _violations(wanted: Wanted, current: Record | None, made: Record) -> Iterator[FieldViolation]:
    if wanted.kind is Kind.CRD and current is not None:
        before: Object = as_object(current.content)
        for field, message in objects.update_violations(as_object(made.content), before):
            yield FieldViolation(f"{wanted.field}.{field}", message)
    try:
        size = len(encode(made))
    except orjson.JSONEncodeError as error:
        yield FieldViolation(wanted.field, f"cannot be kept: {error}")
        return
    if size > MAX_VALUE_BYTES:
        message = f"too large to be kept: {size} bytes, at most {MAX_VALUE_BYTES}"
        yield FieldViolation(wanted.field, message)


async def carry_out(store: Store, planned: Plan, ownership: Ownership) -> Entry | None:
    """Write what was planned.

    Returns:
        What stands there now; None when it is gone.

    Raises:
        Conflict: Something else stands there than was planned on.
        Fenced: The owner has gone.
    """
    if planned.outcome is Outcome.UNCHANGED:
        return planned.entry
    key = planned.wanted.key
    revision = planned.entry.revision if planned.entry else 0
    if planned.gone:
        if not await store.delete(key, expected=revision, guard=ownership.guard):
            raise Conflict(key, 0)
        return None
    return await store.put(key, encode(planned.record), expected=revision, guard=ownership.guard)
