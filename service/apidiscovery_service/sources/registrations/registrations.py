"""The operations on registrations.

A change is acknowledged when the store has it and this replica serves it, so the next request here
finds it.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from apidiscovery_formats.json_values import as_object

from apidiscovery_service import workers
from apidiscovery_service.core.source import Source
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.objects import go_time
from apidiscovery_service.kube.objects.metadata import is_terminating
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.registrations import apply, object_defaults, owners, published
from apidiscovery_service.sources.registrations.owners import OwnerExpiry
from apidiscovery_service.sources.registrations.record import (
    KINDS,
    InvalidRecord,
    Ownership,
    RegistrationKind,
    key_of,
    parse_key,
    read_record,
    record_of,
)
from apidiscovery_service.sources.registrations.requests import (
    Application,
    ApplyOutcome,
    ApplyResult,
    Denied,
    LimitExceeded,
    OwnerLease,
    Page,
    Publication,
    Query,
    Reference,
    Registered,
    Requester,
    RevisionMismatch,
    owner_violations,
    publication_violations,
    withdrawal_violations,
    wrong_name,
)
from apidiscovery_service.sources.registrations.statuses import Statuses
from apidiscovery_service.sources.registrations.table import Row, Table
from apidiscovery_service.sources.registrations.writes import (
    GroupLocks,
    Prepared,
    Wanted,
    decide,
    put,
    remove_entry,
)
from apidiscovery_service.store import Conflict, Entry, Fenced, Guard, Store, StoreDamaged
from apidiscovery_service.workers import WorkerFailed, run_sized

# Registrations in a page: by default, and at most.
DEFAULT_PAGE = 250
MAX_PAGE = 1000
# Content of a page before its last registration: gRPC clients accept messages of 4 MiB by default.
_PAGE_BYTES = 2 * 1024 * 1024

# Values that are read from the store concurrently.
_CONCURRENT_READS = 32


class Registrations(Source):
    """Registrations at run time: written to a store, declared as the store's watch reports them.

    Args:
        store: The store, which other replicas may write to as well.
        declarations: The declarations to keep up to date.
        clock: Unix time in seconds.
    """

    def __init__(
        self, store: Store, declarations: Declarations, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._clock = clock
        self._table = Table(self._store, declarations)
        self._statuses = Statuses(self._store, self._table, declarations)
        self._locks = GroupLocks()

    async def load(self) -> None:
        """Declare the content of the store, in one step.

        Raises:
            StoreUnavailable: The store does not answer.
            StoreDamaged: Some of it cannot be read; an incomplete answer would be worse than none.
        """
        await self._table.load()
        if missing := self.missing():
            raise StoreDamaged(f"{missing}; restore a backup, or remove the key")

    async def follow(self) -> None:
        """Declare every change of the store, until cancelled."""
        await self._table.follow()

    async def expire_owners(self, guard: Guard) -> None:
        """Mark and remove owners that have stopped renewing, until cancelled.

        Raises:
            Fenced: The guard does not hold any more.
        """
        await OwnerExpiry(self._store, self._table, self._clock).work(guard)

    def warnings(self) -> list[str]:
        """Return a line for each entry of the store that cannot be read."""
        return [f"store: {key}: {what}" for key, what in sorted(self._table.problems.items())]

    def missing(self) -> str | None:
        """Return which registrations cannot be read and are not served; None for none."""
        lines = self._table.missing()
        more = f"; and {len(lines) - 1} more" if len(lines) > 1 else ""
        return f"{lines[0]}{more}" if lines else None

    def _now(self) -> str:
        return go_time.unix_text(self._clock())

    async def publish(self, publication: Publication, requester: Requester) -> ApplyResult:
        """Register groups under a name.

        Raises:
            InvalidFields: A field is not valid.
            LimitExceeded: Validating the documents takes too long or too much memory.
            Denied: The caller may not change these groups, or the owner is another's.
            RevisionMismatch: Another revision is there than expected.
            NotServed: It is written, and not served here yet.
            StoreUnavailable: It may not be written.
        """
        # Most publications have no documents, and need no worker.
        run = workers.run if publication.documents else asyncio.to_thread
        try:
            groups, wrong = await run(published.checked, publication.groups, publication.documents)
        except WorkerFailed as error:
            raise LimitExceeded(f"the documents cannot be looked at: {error}") from None
        _check([*publication_violations(publication), *wrong])
        wanted = Wanted(
            RegistrationKind.GROUPS,
            publication.name,
            "groups",
            published.to_json(groups),
            () if publication.expected is None else (publication.expected,),
        )
        (written,) = await self._write((wanted,), publication.owner, publication.lease, requester)
        return written

    async def apply(self, application: Application, requester: Requester) -> Sequence[ApplyResult]:
        """Apply manifests; return the result of each document, in order.

        Raises:
            InvalidFields: A document is not valid; none is written.
            LimitExceeded: There are too many documents.
            Denied: The caller may not change the groups of a document; none is written.
            RevisionMismatch: Another revision is there than expected. None is written if it was
                there before; the documents before it are if it was written meanwhile.
            NotServed: All are written, and not served here yet.
            StoreUnavailable: Some may not be written.
        """
        _check(owner_violations(application.owner, application.lease))
        size = sum(len(manifest.content) for manifest in application.manifests)
        wanted = await run_sized(size, lambda: apply.read(application))
        groups = frozenset(one.crd.group for one in wanted if one.crd)
        if application.dry_run:
            return await self._dry_run(wanted, application.owner, requester)
        async with self._locks.of(groups):
            written = await self._write(wanted, application.owner, application.lease, requester)
            await asyncio.sleep(0)  # requests that came meanwhile go first
            await self._statuses.write_back(groups, self._now())
        return [await self._with_present_status(one) for one in written]

    async def _dry_run(
        self, wanted: Sequence[Wanted], owner: str, requester: Requester
    ) -> Sequence[ApplyResult]:
        """Return the answer to a write without writing."""
        ownership = await owners.peek(self._store, owner, requester)
        now = self._now()
        prepared = [await self._prepare(one, ownership, requester, now) for one in wanted]
        return self._statuses.of_dry_run(prepared, now)

    async def _write(
        self,
        wanted: Sequence[Wanted],
        owner: str,
        lease: OwnerLease | None,
        requester: Requester,
    ) -> list[ApplyResult]:
        """Prepare everything, and only then write, in order; the caller holds the groups' locks."""
        ownership = await owners.peek(self._store, owner, requester)
        # One time for all: the older of two definitions gets names that both want, and the first by
        # name of those that were created in the same second.
        now = self._now()
        prepared = [await self._prepare(one, ownership, requester, now) for one in wanted]
        ownership = await owners.take(self._store, owner, requester, lease)
        size = sum(len(one.value) for one in prepared)
        prepared = await run_sized(size, self._statuses.decided(prepared, now))
        written: list[ApplyResult] = []
        try:
            for each in prepared:
                one, ownership = await self._put(each, ownership, lease, requester, now)
                written.append(one)
            await self._wait_until_served(written)
            self._statuses.settled(written)
        finally:
            self._table.forget(one.key for one in wanted)
        return written

    async def _put(
        self,
        prepared: Prepared,
        ownership: Ownership,
        lease: OwnerLease | None,
        requester: Requester,
        now: str,
    ) -> tuple[ApplyResult, Ownership]:
        """Write what was prepared; it is prepared again whenever others have written meanwhile."""
        while True:
            is_owned = prepared.record.owner_id == ownership.owner_id
            if not (is_owned and self._statuses.is_current(prepared)):
                prepared = await self._prepare(prepared.wanted, ownership, requester, now)
            if prepared.outcome is ApplyOutcome.UNCHANGED:
                return prepared.written(), ownership
            self._statuses.about_to_write(prepared)
            try:
                entry = await put(self._store, prepared, ownership)
            except Conflict:
                prepared = await self._prepare(prepared.wanted, ownership, requester, now)
            except Fenced:
                owner = ownership.owner
                ownership = await owners.take(self._store, owner, requester, lease)
            else:
                return prepared.written(entry), ownership

    async def _prepare(
        self, wanted: Wanted, ownership: Ownership, requester: Requester, now: str
    ) -> Prepared:
        entry = await self._store.get(wanted.key)
        size = wanted.size + (len(entry.value) if entry else 0)
        return await run_sized(size, lambda: decide(entry, wanted, ownership, requester, now))

    async def _wait_until_served(self, written: Iterable[ApplyResult]) -> None:
        """Wait until this replica serves its writes, and no longer serves what it removed.

        Raises:
            NotServed: That takes too long.
        """
        revision = max((one.registered.revision for one in written), default=0)
        gone = {
            key_of(one.registered.kind, one.registered.name): one.registered.revision
            for one in written
            if _is_gone(one)
        }
        await self._table.seen(
            lambda: (
                self._table.revision >= revision
                and not any(self._has_row(key, at) for key, at in gone.items())
            )
        )

    def _has_row(self, key: str, revision: int) -> bool:
        """Return whether the table has a registration at this revision, or an earlier one."""
        row = self._table.rows.get(key)
        return row is not None and row.revision <= revision

    async def _with_present_status(self, written: ApplyResult) -> ApplyResult:
        """Return what was written with its present status, which may be stored after it."""
        registered = written.registered
        if registered.kind is not RegistrationKind.CRD or _is_gone(written):
            return written
        key = key_of(registered.kind, registered.name)
        row = self._table.rows.get(key)
        if row is not None and row.revision == registered.revision:
            return written
        entry = await self._store.get(key)
        if entry is None or entry.revision < registered.revision:
            return written
        return replace(
            written,
            registered=replace(
                registered, revision=entry.revision, record=await read_record(entry)
            ),
        )

    async def withdraw(
        self, references: Sequence[Reference], owner: str, requester: Requester
    ) -> list[Reference]:
        """Remove registrations, and an owner with all of its registrations.

        Returns:
            The registrations that were there, with the revisions that they had.

        Raises:
            InvalidFields: A field is not valid.
            Denied: The caller may not change the groups of one, or the owner is another's.
            RevisionMismatch: Another revision is there than expected.
            InvalidRecord: One cannot be read, and the caller may not change every group.
            NotServed: All are removed, and some are still served here.
            StoreUnavailable: Some may not be removed.
        """
        _check(withdrawal_violations(references, owner))
        expected = {key_of(one.kind, one.name): one.revision for one in references}
        is_owner_there = await owners.find_removable(self._store, owner, requester) is not None
        owned = self._table.owned_by(owner) if owner else []
        wanted = [
            _Removal(key, expected.get(key), owner, is_named=key in expected)
            for key in dict.fromkeys((*owned, *expected))
        ]
        for one in wanted:
            await self._removable(one, requester)
        removed = [found for one in wanted if (found := await self._remove(one, requester))]
        if is_owner_there:
            await self._remove_owner(owner, requester)
        others = {one.key for one in wanted} - {key_of(one.kind, one.name) for one in removed}
        elsewhere = [found for key in others if (found := await self._removed_elsewhere(key))]
        await self._table.seen(lambda: not any(map(self._is_served, (*removed, *elsewhere))))
        groups = {one.name.partition(".")[2] for one in removed if one.kind is RegistrationKind.CRD}
        async with self._locks.of(groups):
            await self._statuses.write_back(groups, self._now())
        return removed

    async def _removable(self, wanted: "_Removal", requester: Requester) -> Entry | None:
        """Return the entry to remove; None if it is not there, or no longer the owner's."""
        entry = await self._store.get(wanted.key)
        if entry is None or not (wanted.is_named or _is_owned(entry, wanted.owner)):
            return None
        _check_removal(entry, wanted.expected, requester)
        return entry

    async def _remove(self, wanted: "_Removal", requester: Requester) -> Reference | None:
        """Remove a registration; None if it is not there, or no longer the owner's."""
        place = parse_key(wanted.key)
        while (entry := await self._removable(wanted, requester)) and place:
            leave_owner = bool(wanted.owner) and _is_owned(entry, wanted.owner)
            try:
                await remove_entry(self._store, entry, self._now(), leave_owner=leave_owner)
            except Conflict:
                continue
            return Reference(*place, entry.revision)
        return None

    async def _removed_elsewhere(self, key: str) -> Reference | None:
        """Return a registration that is served here though another replica has removed it."""
        place, row = parse_key(key), self._table.rows.get(key)
        if place is None or row is None or await self._store.get(key) is not None:
            return None
        return Reference(*place, row.revision)

    async def _remove_owner(self, owner: str, requester: Requester) -> None:
        """Remove an owner, and what was registered for it meanwhile."""
        await owners.remove(self._store, owner, requester)
        await self._table.seen(lambda: owner not in self._table.owners)
        await owners.remove_orphans(self._store, self._table, self._now())

    def _is_served(self, removed: Reference) -> bool:
        row = self._table.rows.get(key_of(removed.kind, removed.name))
        return row is not None and row.revision <= (removed.revision or 0) and not row.terminating

    async def renew(self, owner: str, requester: Requester) -> float | None:
        """Renew the lease of an owner.

        Returns:
            The seconds within which it should renew again; None if it has no lease.

        Raises:
            InvalidFields: Its name is not valid.
            NoSuchOwner: There is none, or none any more.
            Denied: It is another caller's.
            StoreUnavailable: It may not be renewed.
        """
        _check([FieldViolation("owner", wrong)] if (wrong := wrong_name(owner)) else [])
        within_s = await owners.renew(self._store, owner, requester)
        await self._table.seen(lambda: not self._is_stale(owner))
        return within_s

    def _is_stale(self, owner: str) -> bool:
        row = self._table.owners.get(owner)
        return row is not None and bool(row.record.stale_since)

    async def list(self, query: Query) -> Page:
        """Return a page of registrations.

        A page may have fewer than asked for; `next_after` is set if others follow. Registrations
        that cannot be read are left out; `warnings` has them.

        Raises:
            StoreUnavailable: Their content cannot be read.
        """
        places = sorted(
            (KINDS.index(row.kind), row.name)
            for row in self._table.rows.values()
            if _matches(row, query)
        )
        if query.after is not None:
            after = (KINDS.index(query.after[0]), query.after[1])
            places = places[bisect_right(places, after) :]
        size = min(query.size or DEFAULT_PAGE, MAX_PAGE)
        page: list[Registered] = []
        taken, bytes_left = 0, _PAGE_BYTES
        while taken < min(size, len(places)) and bytes_left > 0:
            some = [(KINDS[kind], name) for kind, name in places[taken : taken + _CONCURRENT_READS]]
            entries = await asyncio.gather(*(self._store.get(key_of(*place)) for place in some))
            for place, entry in zip(some, entries, strict=True):
                if bytes_left <= 0 or taken == size:
                    break
                taken += 1
                if entry is not None and (registered := self._registered(place, entry)):
                    bytes_left -= _sent_bytes(entry, registered, query)
                    page.append(registered)
        last = places[taken - 1] if taken else None
        more = last is not None and taken < len(places)
        return Page(tuple(page), (KINDS[last[0]], last[1]) if last and more else None)

    def _registered(self, place: tuple[RegistrationKind, str], entry: Entry) -> Registered | None:
        """Return a registration; None if it cannot be read."""
        if entry.key in self._table.problems:
            return None
        try:
            record = record_of(entry)
        except InvalidRecord:
            return None
        since = self._table.stale_since(record.owner, record.owner_id)
        return Registered(*place, entry.revision, record, since)


@dataclass(frozen=True, slots=True)
class _Removal:
    """A registration that is to be removed.

    Attributes:
        expected: The revision that must be there; None for any.
        owner: The owner that is removed with it; empty for none.
        is_named: Whether the request has its name; otherwise it is removed as the owner's.
    """

    key: str
    expected: int | None
    owner: str
    is_named: bool


def _sent_bytes(entry: Entry, registered: Registered, query: Query) -> int:
    """Return about how many bytes a registration takes in an answer."""
    size = len(entry.value)
    if registered.kind is RegistrationKind.GROUPS:
        for placed in published.from_json(registered.record.content):
            for document in placed.documents.values():
                size += (document.size if query.with_documents else 0) - len(document.text)
    return size


def _matches(row: Row, query: Query) -> bool:
    return (
        (not query.kinds or row.kind in query.kinds)
        and (not query.names or row.name in query.names)
        and (not query.owner or row.owner == query.owner)
    )


def _is_gone(written: ApplyResult) -> bool:
    """Return whether writing it deleted it."""
    return object_defaults.is_deleted(as_object(written.registered.record.content))


def _is_owned(entry: Entry, owner: str) -> bool:
    try:
        return record_of(entry).owner == owner
    except InvalidRecord:
        return False


def _check_removal(entry: Entry, expected: int | None, requester: Requester) -> None:
    """Refuse a removal that is not allowed, or expects another revision.

    Removing what terminates already is a retry, and succeeds whatever is expected.
    """
    place = parse_key(entry.key)
    if place is None:
        return
    try:
        content = record_of(entry).content
    except InvalidRecord:
        # Its groups are not known.
        if not requester.may_change_every_group:
            raise
        content = None
    else:
        if reason := requester.permit(object_defaults.groups_of(place[0], content)):
            raise Denied(reason)
    if place[0] is RegistrationKind.CRD and is_terminating(as_object(content)):
        return
    if expected is not None and expected != entry.revision:
        raise RevisionMismatch(*place, expected, entry.revision)


def _check(violations: Iterable[FieldViolation]) -> None:
    found = tuple(violations)
    if found:
        raise InvalidFields(*found[: published.MAX_VIOLATIONS])
