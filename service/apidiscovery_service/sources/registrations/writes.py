"""One registration into the store: decided on what stands there, written if it still does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.declarations import Declared
from apidiscovery_service.sources.registrations import objects
from apidiscovery_service.sources.registrations.errors import Denied, RevisionMismatch
from apidiscovery_service.sources.registrations.owners import Ownership
from apidiscovery_service.sources.registrations.record import (
    Kind,
    Object,
    Record,
    Standing,
    as_object,
    encode,
    key_of,
    record_of,
)
from apidiscovery_service.sources.registrations.requests import Outcome, Permit
from apidiscovery_service.store import MAX_VALUE_BYTES, Conflict, Entry, Store


@dataclass(frozen=True, slots=True)
class Wanted:
    """A registration as it is to be.

    Attributes:
        field: The field of the request that it is from.
        content: Groups in their JSON form, or a manifest.
        expected: Revisions that the caller expects to be there; 0 for none.
        crd: The manifest as it was read, when it is of a CustomResourceDefinition.
    """

    kind: Kind
    name: str
    field: str
    content: JSONValue
    expected: tuple[int, ...] = ()
    crd: CustomResourceDefinition | None = None

    @property
    def key(self) -> str:
        """Where it will stand."""
        return key_of(self.kind, self.name)

    @property
    def size(self) -> int:
        """About how many bytes it is, as far as that may be many."""
        return self.crd.size if self.crd else 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What writing something comes to.

    Attributes:
        revision: Of what stands there now; 0 for nothing.
        record: What is to stand there.
        value: The same as it is kept; empty when nothing is to be written.
        gone: Whether it goes instead: its last finalizer was taken away.
        declared: What it declares, when that is known before it is read again.
    """

    wanted: Wanted
    revision: int
    record: Record
    outcome: Outcome
    value: bytes = b""
    gone: bool = False
    declared: Declared | None = None


def standing(entry: Entry | None) -> Standing:
    """Return what stands under a key of the store.

    Raises:
        InvalidRecord: It cannot be read.
    """
    return Standing(entry.revision, record_of(entry)) if entry else Standing()


def plan(
    found: Standing, wanted: Wanted, ownership: Ownership, permit: Permit, now: Callable[[], str]
) -> Plan:
    """Decide what writing something comes to, on what stands there now.

    Raises:
        Denied: The caller may not change the groups of the one or the other.
        InvalidFields: It may not take the place of what is there, or is too large.
        RevisionMismatch: Another revision is there than expected, and not what is wanted either.
    """
    current = found.record
    groups = objects.groups_of(wanted.kind, wanted.content)
    if current is not None:
        groups |= objects.groups_of(wanted.kind, current.content)
    if reason := permit(groups):
        raise Denied(reason)
    made = _made(wanted, current, ownership, now())
    if made == current:
        return Plan(wanted, found.revision, made, Outcome.UNCHANGED)
    for expected in wanted.expected:
        if expected != found.revision:
            raise RevisionMismatch(wanted.kind, wanted.name, expected, found.revision)
    value = _checked(wanted, current, made)
    manifest = as_object(made.content)
    gone = objects.is_terminating(manifest) and not objects.finalizers_of(manifest)
    outcome = Outcome.CONFIGURED if current else Outcome.CREATED
    return Plan(wanted, found.revision, made, outcome, value, gone)


def _made(wanted: Wanted, current: Record | None, ownership: Ownership, now: str) -> Record:
    content = wanted.content
    if wanted.kind is not Kind.GROUPS:
        manifest = objects.with_defaults(wanted.kind, as_object(content))
        content = (
            objects.updated(wanted.kind, manifest, as_object(current.content))
            if current
            else objects.created(wanted.kind, manifest, now)
        )
    since = current.created if current else now
    return Record(ownership.owner, ownership.owner_id, since, content)


def _checked(wanted: Wanted, current: Record | None, made: Record) -> bytes:
    """Return what is to be kept.

    Raises:
        InvalidFields: It may not be, or cannot.
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
    if wanted.kind is Kind.CRD and current is not None:
        before: Object = as_object(current.content)
        for field, message in objects.update_violations(as_object(made.content), before):
            yield FieldViolation(f"{wanted.field}.{field}", message)


async def carry_out(store: Store, planned: Plan, ownership: Ownership) -> Entry | None:
    """Write what was planned and is not there yet.

    Returns:
        What stands there now; None when it is gone.

    Raises:
        Conflict: Something else stands there than was planned on.
        Fenced: The owner has gone.
    """
    key = planned.wanted.key
    if planned.gone:
        if not await store.delete(key, expected=planned.revision, guard=ownership.guard):
            raise Conflict(key, 0)
        return None
    return await store.put(key, planned.value, expected=planned.revision, guard=ownership.guard)
