"""Writing one registration: decided on the present entry, stored if that is still the same.

`decide` makes a `Prepared` of an entry and a wanted registration, `put` writes it, and the table
assigns it when the watch of the store reports it.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import orjson
from apidiscovery_formats.json_values import as_object

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.metadata import finalizers_of
from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.declarations import Declared
from apidiscovery_service.sources.registrations import object_defaults
from apidiscovery_service.sources.registrations.record import (
    InvalidRecord,
    Object,
    Ownership,
    Record,
    RegistrationKind,
    encode,
    key_of,
    parse_key,
    record_of,
)
from apidiscovery_service.sources.registrations.requests import (
    ApplyOutcome,
    ApplyResult,
    Denied,
    Registered,
    Requester,
    RevisionMismatch,
)
from apidiscovery_service.store import MAX_VALUE_BYTES, Conflict, Entry, Guard, Store


@dataclass(frozen=True, slots=True)
class Wanted:
    """A registration that somebody wants to have.

    Attributes:
        field: The field of the request that it is from.
        content: Groups in their JSON form, or a manifest.
        expected: Revisions that the caller expects to be there; 0 for none.
        crd: The manifest as it was read, when it is of a CustomResourceDefinition.
    """

    kind: RegistrationKind
    name: str
    field: str
    content: JSONValue
    expected: tuple[int, ...] = ()
    crd: CustomResourceDefinition | None = None

    @property
    def key(self) -> str:
        """Its key in the store."""
        return key_of(self.kind, self.name)

    @property
    def size(self) -> int:
        """About how many bytes it has; 0 for kinds that are small."""
        return self.crd.size if self.crd else 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A decided change of a registration, before it is written.

    Attributes:
        revision: The revision in the store now; 0 for none.
        record: The new record.
        value: The record as bytes; empty when nothing has to be written.
        gone: Whether the registration is deleted instead: its last finalizer was removed.
        declared: The result of reading `value`; None if the follower has to read it.
    """

    wanted: Wanted
    revision: int
    record: Record
    outcome: ApplyOutcome
    value: bytes = b""
    gone: bool = False
    declared: Declared | None = None

    def written(self, entry: Entry | None = None) -> ApplyResult:
        """Return the answer to the caller; `entry` is the stored entry, None for none."""
        revision = entry.revision if entry else self.revision
        registered = Registered(self.wanted.kind, self.wanted.name, revision, self.record)
        return ApplyResult(registered, self.outcome)


def decide(
    entry: Entry | None, wanted: Wanted, ownership: Ownership, requester: Requester, now: str
) -> Prepared:
    """Decide the result of writing a registration; nothing is written.

    Args:
        entry: The present entry of the key; None for none.
        wanted: The registration.
        ownership: Its owner.
        requester: The caller.
        now: RFC 3339.

    Raises:
        InvalidRecord: The present entry cannot be read.
        Denied: The caller may not change the groups of the present or the wanted registration.
        InvalidFields: It may not replace the present one, or is too large.
        RevisionMismatch: The revision is not the expected one, and the content not the wanted one.
    """
    current, revision = (record_of(entry), entry.revision) if entry else (None, 0)
    groups = object_defaults.groups_of(wanted.kind, wanted.content)
    if current is not None:
        groups |= object_defaults.groups_of(wanted.kind, current.content)
    if reason := requester.permit(groups):
        raise Denied(reason)
    made = replace(_made(wanted, current, ownership, now), by=requester.caller.user)
    if made == current:
        return Prepared(wanted, revision, made, ApplyOutcome.UNCHANGED)
    for expected in wanted.expected:
        if expected != revision:
            raise RevisionMismatch(wanted.kind, wanted.name, expected, revision)
    value = _checked(wanted, current, made)
    outcome = ApplyOutcome.CONFIGURED if current else ApplyOutcome.CREATED
    gone = object_defaults.is_deleted(as_object(made.content))
    return Prepared(wanted, revision, made, outcome, value, gone)


def _made(wanted: Wanted, current: Record | None, ownership: Ownership, now: str) -> Record:
    content = wanted.content
    if wanted.kind is not RegistrationKind.GROUPS:
        manifest = object_defaults.with_defaults(wanted.kind, as_object(content))
        content = (
            object_defaults.updated(wanted.kind, manifest, as_object(current.content))
            if current
            else object_defaults.created(wanted.kind, manifest, now)
        )
    since = current.created if current else now
    return Record(ownership.owner, ownership.owner_id, since, content)


def _checked(wanted: Wanted, current: Record | None, made: Record) -> bytes:
    """Return the value for the store.

    Raises:
        InvalidFields: It may not replace the present one, or cannot be stored.
    """
    violations = list(_update_violations(wanted, current, made))
    value = b""
    try:
        value = encode(made)
    except orjson.JSONEncodeError as error:
        violations.append(FieldViolation(wanted.field, f"cannot be kept: {error}"))
    if len(value) > MAX_VALUE_BYTES:
        message = f"too large to be kept: {len(value)} bytes, at most {MAX_VALUE_BYTES}"
        violations.append(FieldViolation(wanted.field, message))
    if violations:
        raise InvalidFields(*violations)
    return value


def _update_violations(
    wanted: Wanted, current: Record | None, made: Record
) -> Iterator[FieldViolation]:
    if wanted.kind is RegistrationKind.CRD and current is not None:
        before: Object = as_object(current.content)
        for field, message in object_defaults.update_violations(as_object(made.content), before):
            yield FieldViolation(f"{wanted.field}.{field}", message)


async def put(store: Store, prepared: Prepared, ownership: Ownership) -> Entry | None:
    """Write a prepared change.

    Returns:
        The new entry; None when it is deleted.

    Raises:
        Conflict: The entry has changed since the change was prepared.
        Fenced: The owner has gone.
    """
    key, guard = prepared.wanted.key, ownership.guard
    if prepared.gone:
        if not await store.delete(key, expected=prepared.revision, guard=guard):
            raise Conflict(key, 0)
        return None
    return await store.put(key, prepared.value, expected=prepared.revision, guard=guard)


async def remove_entry(
    store: Store,
    entry: Entry,
    now: str,
    *,
    guard: Guard | None = None,
    leave_owner: bool = False,
) -> Entry | None:
    """Remove a registration, or mark a CustomResourceDefinition with finalizers as terminating.

    Args:
        store: The store that it is in.
        entry: Its entry.
        now: RFC 3339.
        guard: What must hold.
        leave_owner: Whether one that stays has no owner from now on.

    Returns:
        The entry afterwards; None for none.

    Raises:
        Conflict: Something else is there.
    """
    left = _left(entry, now, leave_owner=leave_owner)
    if left is None:
        await store.delete(entry.key, expected=entry.revision, guard=guard)
        return None
    if left == record_of(entry):
        return entry
    return await store.put(entry.key, encode(left), expected=entry.revision, guard=guard)


def _left(entry: Entry, now: str, *, leave_owner: bool) -> Record | None:
    """Return the record that stays after a removal; None for none, or if it cannot be read."""
    place = parse_key(entry.key)
    try:
        record = record_of(entry)
    except InvalidRecord:
        return None
    manifest = as_object(record.content)
    if place is None or place[0] is not RegistrationKind.CRD or not finalizers_of(manifest):
        return None
    left = replace(record, content=object_defaults.terminating(manifest, now))
    return replace(left, owner="", owner_id="") if leave_owner else left


class GroupLocks:
    """One lock for each API group, for writers of this process."""

    def __init__(self) -> None:
        # Only while somebody holds or wants them.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, groups: Iterable[str]) -> AsyncGenerator[None]:
        """Hold the locks of these groups; a caller that holds some must not request others."""
        async with AsyncExitStack() as stack:
            for group in sorted(set(groups)):  # in one order, so that no two wait for each other
                lock = self._locks.setdefault(group, asyncio.Lock())
                await stack.enter_async_context(lock)
            yield
