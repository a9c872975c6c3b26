"""The operations on registrations.

Whatever is acknowledged is in the store, and this replica has seen it there: who asks it next
finds it.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from apidiscovery_service import workers
from apidiscovery_service.core.source import Source
from apidiscovery_service.errors import DiscoveryError, FieldViolation, InvalidFields
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.registrations import (
    apply,
    objects,
    owners,
    published,
    publishing,
    removal,
)
from apidiscovery_service.sources.registrations.errors import (
    Denied,
    LimitExceeded,
    RevisionMismatch,
)
from apidiscovery_service.sources.registrations.group_locks import GroupLocks
from apidiscovery_service.sources.registrations.limits import (
    owner_violations,
    publication_violations,
    withdrawal_violations,
)
from apidiscovery_service.sources.registrations.names import wrong_name
from apidiscovery_service.sources.registrations.owners import (
    Claimant,
    OwnerExpiry,
    OwnerLease,
    Ownership,
)
from apidiscovery_service.sources.registrations.record import (
    KINDS,
    InvalidRecord,
    Kind,
    as_object,
    key_of,
    parse_key,
    read_record,
    record_of,
)
from apidiscovery_service.sources.registrations.requests import (
    Application,
    Outcome,
    Page,
    Publication,
    Query,
    Reference,
    Registered,
    Requester,
    Written,
)
from apidiscovery_service.sources.registrations.statuses import Statuses
from apidiscovery_service.sources.registrations.table import Row, Table
from apidiscovery_service.sources.registrations.writes import (
    Plan,
    Wanted,
    carry_out,
    plan,
    standing,
)
from apidiscovery_service.store import Conflict, Entry, Fenced, Guard, Store, StoreDamaged
from apidiscovery_service.workers import WorkerFailed, run_sized

# What a page holds when nobody says, and at most; and how much content it has besides its last
# registration, since clients of gRPC take messages of 4 MiB unless told otherwise.
DEFAULT_PAGE = 250
MAX_PAGE = 1000
_PAGE_BYTES = 2 * 1024 * 1024

# How many values are asked for at once.
_AT_ONCE = 32


class Registrations(Source):
    """What is registered at run time: kept in a store, declared as the store's watch tells it.

    Args:
        store: Where it is kept.
        declarations: What is kept up to date.
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
        """Declare what is in the store, in one step.

        Raises:
            StoreUnavailable: It cannot be asked.
            StoreDamaged: Some of it cannot be read: nothing is better than an answer without it.
        """
        await self._table.load()
        if missing := self.missing():
            raise StoreDamaged(f"{missing}; restore a backup, or remove the key")

    async def follow(self) -> None:
        """Keep what is declared at what is in the store, until cancelled."""
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
        """Return which registrations are unreadable, their groups not served; None for none."""
        lines = self._table.missing()
        more = f"; and {len(lines) - 1} more" if len(lines) > 1 else ""
        return f"{lines[0]}{more}" if lines else None

    def _now(self) -> str:
        return objects.timestamp(self._clock())

    async def publish(self, publication: Publication, requester: Requester) -> Written:
        """Put groups under a name.

        Raises:
            InvalidFields: Something is not as it must be.
            LimitExceeded: Looking at the documents takes too long or too much memory.
            Denied: The caller may not change these groups, or the owner is another's.
            RevisionMismatch: Another revision is there than expected.
            NotServed: It is written, and not served here yet.
            StoreUnavailable: Nothing is known to be written.
        """
        try:
            groups, wrong = await workers.run(publishing.checked, publication)
        except WorkerFailed as error:
            raise LimitExceeded(f"the documents cannot be looked at: {error}") from None
        _check([*publication_violations(publication), *wrong])
        wanted = Wanted(
            Kind.GROUPS,
            publication.name,
            "groups",
            published.to_json(groups),
            () if publication.expected is None else (publication.expected,),
        )
        (written,) = await self._write((wanted,), publication.owner, publication.lease, requester)
        return written

    async def apply(self, application: Application, requester: Requester) -> Sequence[Written]:
        """Take manifests; return what became of each document, in order.

        Raises:
            InvalidFields: Some document is not valid; none is taken.
            LimitExceeded: There are too many.
            Denied: The caller may not change the groups of some; none is taken.
            RevisionMismatch: Another revision is there than expected; what came before it is
                taken if that was written meanwhile, and nothing if it was there before.
            NotServed: It is written, and not served here yet.
            StoreUnavailable: Not all is known to be written.
        """
        _check(owner_violations(application.owner, application.lease))
        size = sum(len(manifest.content) for manifest in application.manifests)
        wanted = await run_sized(size, lambda: apply.read(application))
        groups = frozenset(one.crd.group for one in wanted if one.crd)
        if application.dry_run:
            return await self._foresee(wanted, application.owner, requester)
        async with self._locks.of(groups):
            written = await self._write(wanted, application.owner, application.lease, requester)
            await asyncio.sleep(0)  # who asked meanwhile for what is served now goes first
            await self._statuses.write_back(groups, self._now())
        return [await self._as_it_is(one) for one in written]

    async def _foresee(
        self, wanted: Sequence[Wanted], owner: str, requester: Requester
    ) -> Sequence[Written]:
        """Return what writing would come to."""
        ownership = await owners.peek(self._store, owner, requester.claimant)
        plans = [await self._plan(one, ownership, requester) for one in wanted]
        return self._statuses.foreseen([_written(one, None) for one in plans], self._now())

    async def _write(
        self,
        wanted: Sequence[Wanted],
        owner: str,
        lease: OwnerLease | None,
        requester: Requester,
    ) -> list[Written]:
        """Plan everything, and only then write, in order; whoever calls has the groups' turns."""
        ownership = await owners.peek(self._store, owner, requester.claimant)
        if len(wanted) == 1:  # of several none may be taken when there is something with one
            plans = [await self._plan_as_known(one, ownership, requester) for one in wanted]
        else:
            plans = [await self._plan(one, ownership, requester) for one in wanted]
        ownership = await owners.take(self._store, owner, requester.claimant, lease)
        foretelling = self._statuses.foretold(plans, self._now())
        plans = await run_sized(sum(len(one.value) for one in plans), foretelling)
        written: list[Written] = []
        try:
            for each in plans:
                one, ownership = await self._carry_out(
                    each, ownership, lease, requester, is_last=each is plans[-1]
                )
                written.append(one)
            await self._see(written)
            self._statuses.settled(written)
        finally:
            self._table.drop(one.key for one in wanted)
        return written

    async def _carry_out(
        self,
        planned: Plan,
        ownership: Ownership,
        lease: OwnerLease | None,
        requester: Requester,
        *,
        is_last: bool,
    ) -> tuple[Written, Ownership]:
        """Write what was planned, planning again for as long as others come between."""
        while True:
            is_owned = planned.record.owner_id == ownership.owner_id
            if not (is_owned and self._statuses.still_holds(planned)):
                planned = await self._plan(planned.wanted, ownership, requester)
            if planned.outcome is Outcome.UNCHANGED:
                return _written(planned, None), ownership
            self._statuses.about_to(planned)
            try:
                entry = await self._written_down(planned, ownership, is_last=is_last)
            except Conflict:
                planned = await self._plan(planned.wanted, ownership, requester)
            except Fenced:
                owner = ownership.owner
                ownership = await owners.take(self._store, owner, requester.claimant, lease)
            else:
                return _written(planned, entry), ownership

    async def _written_down(
        self, planned: Plan, ownership: Ownership, *, is_last: bool
    ) -> Entry | None:
        """Carry out a plan; what it will look like is worked out while the store writes.

        Of several only for the last: those before are likely to be published together.
        """
        if planned.declared is None or not is_last:
            return await carry_out(self._store, planned, ownership)
        # Before the store begins, lest its thread and this one take turns at the interpreter; but
        # hashing leaves it to the store.
        rehearsed = self._statuses.rehearse(planned)
        writing = asyncio.create_task(carry_out(self._store, planned, ownership))
        try:
            await asyncio.sleep(0)  # it has begun then
            if rehearsed is not None:
                rehearsed.etags()
        finally:
            entry = await writing
        return entry

    async def _plan(self, wanted: Wanted, ownership: Ownership, requester: Requester) -> Plan:
        entry = await self._store.get(wanted.key)
        size = wanted.size + (len(entry.value) if entry else 0)
        return await run_sized(
            size, lambda: plan(standing(entry), wanted, ownership, requester.permit, self._now)
        )

    async def _plan_as_known(
        self, wanted: Wanted, ownership: Ownership, requester: Requester
    ) -> Plan:
        """Plan without a question to the store if it will have to be asked by writing.

        Should something else stand there by now, the write conflicts.
        """
        size = wanted.size + self._table.size(wanted.key)
        found = await run_sized(size, lambda: self._table.standing(wanted.key))
        if found is not None:
            standing_now = found
            try:
                planned = await run_sized(
                    size,
                    lambda: plan(standing_now, wanted, ownership, requester.permit, self._now),
                )
            except DiscoveryError:  # what is refused is refused for what is there
                return await self._plan(wanted, ownership, requester)
            if planned.outcome is not Outcome.UNCHANGED:
                return planned
        return await self._plan(wanted, ownership, requester)

    async def _see(self, written: Iterable[Written]) -> None:
        """Wait until this replica has taken what it wrote, or its removal.

        Raises:
            NotServed: It is not in time.
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
                and not any(self._stands(key, at) for key, at in gone.items())
            )
        )

    def _stands(self, key: str, revision: int) -> bool:
        row = self._table.rows.get(key)
        return row is not None and row.revision <= revision

    async def _as_it_is(self, written: Written) -> Written:
        """Return what was written with the status that it has by now."""
        registered = written.registered
        if registered.kind is not Kind.CRD or _is_gone(written):
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
        """Remove registrations, and all of an owner with the owner.

        Returns:
            Those that were there, with the revision that they had.

        Raises:
            InvalidFields: Something is not as it must be.
            Denied: The caller may not change the groups of some, or the owner is another's.
            RevisionMismatch: Another revision is there than expected.
            InvalidRecord: What is there cannot be read, and the caller may not change every group.
            NotServed: It is removed, and still served here.
            StoreUnavailable: Not all is known to be removed.
        """
        _check(withdrawal_violations(references, owner))
        expected = {key_of(one.kind, one.name): one.revision for one in references}
        is_owner_there = await owners.find(self._store, owner, requester.claimant)
        owned = self._table.owned_by(owner) if owner else []
        wanted = [
            _Removal(key, expected.get(key), owner, is_named=key in expected)
            for key in dict.fromkeys((*owned, *expected))
        ]
        for one in wanted:
            await self._removable(one, requester)
        removed = [gone for one in wanted if (gone := await self._remove(one, requester))]
        if is_owner_there:
            await self._remove_owner(owner, requester.claimant)
        others = {one.key for one in wanted} - {key_of(one.kind, one.name) for one in removed}
        elsewhere = [gone for key in others if (gone := await self._gone_elsewhere(key))]
        await self._table.seen(lambda: not any(map(self._is_left, (*removed, *elsewhere))))
        groups = {one.name.partition(".")[2] for one in removed if one.kind is Kind.CRD}
        async with self._locks.of(groups):
            await self._statuses.write_back(groups, self._now())
        return removed

    async def _removable(self, wanted: "_Removal", requester: Requester) -> Entry | None:
        """Return what is to be removed; None if it is not there, or not the owner's after all."""
        entry = await self._store.get(wanted.key)
        if entry is None or not (wanted.is_named or _is_owned(entry, wanted.owner)):
            return None
        _see_that_it_may_go(entry, wanted.expected, requester)
        return entry

    async def _remove(self, wanted: "_Removal", requester: Requester) -> Reference | None:
        """Remove a registration; None if it is not there, or not the owner's after all."""
        place = parse_key(wanted.key)
        while (entry := await self._removable(wanted, requester)) and place:
            leave_owner = bool(wanted.owner) and _is_owned(entry, wanted.owner)
            try:
                await removal.remove(self._store, entry, self._now(), leave_owner=leave_owner)
            except Conflict:
                continue
            return Reference(*place, entry.revision)
        return None

    async def _gone_elsewhere(self, key: str) -> Reference | None:
        """Return what stands here still though another replica has removed it."""
        place, row = parse_key(key), self._table.rows.get(key)
        if place is None or row is None or await self._store.get(key) is not None:
            return None
        return Reference(*place, row.revision)

    async def _remove_owner(self, owner: str, caller: Claimant) -> None:
        """Remove an owner, and what was registered for it in the meantime."""
        await owners.remove(self._store, owner, caller)
        await self._table.seen(lambda: owner not in self._table.owners)
        await removal.remove_orphans(self._store, self._table, self._now())

    def _is_left(self, removed: Reference) -> bool:
        row = self._table.rows.get(key_of(removed.kind, removed.name))
        return row is not None and row.revision <= (removed.revision or 0) and not row.terminating

    async def renew(self, owner: str, requester: Requester) -> float | None:
        """Note that an owner is alive.

        Returns:
            Within how many seconds it should renew again; None when it need not.

        Raises:
            InvalidFields: It has no valid name.
            NoSuchOwner: There is none any more.
            Denied: It is another caller's.
            StoreUnavailable: Whether it was noted is not known.
        """
        _check([FieldViolation("owner", wrong)] if (wrong := wrong_name(owner)) else [])
        within_s = await owners.renew(self._store, owner, requester.claimant)
        await self._table.seen(lambda: not self._is_stale(owner))
        return within_s

    def _is_stale(self, owner: str) -> bool:
        row = self._table.owners.get(owner)
        return row is not None and bool(row.record.stale_since)

    async def list(self, query: Query) -> Page:
        """Return a page of registrations.

        It may have fewer than asked for, and then `next_after` tells whether others come. What
        cannot be read is left out; `warnings` has it.

        Raises:
            StoreUnavailable: Their content cannot be had.
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
            some = [(KINDS[kind], name) for kind, name in places[taken : taken + _AT_ONCE]]
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

    def _registered(self, place: tuple[Kind, str], entry: Entry) -> Registered | None:
        """Return a registration; None of what cannot be read."""
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
        owner: Which is removed with it; empty for none.
        is_named: Whether it is asked for by its name, or because it is the owner's.
    """

    key: str
    expected: int | None
    owner: str
    is_named: bool


def _sent_bytes(entry: Entry, registered: Registered, query: Query) -> int:
    """Return about how large a registration is when it is sent."""
    size = len(entry.value)
    if registered.kind is Kind.GROUPS:
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


def _written(planned: Plan, entry: Entry | None) -> Written:
    wanted = planned.wanted
    revision = entry.revision if entry else planned.revision
    return Written(Registered(wanted.kind, wanted.name, revision, planned.record), planned.outcome)


def _is_gone(written: Written) -> bool:
    """Tell whether it was written by being removed."""
    manifest = as_object(written.registered.record.content)
    return objects.is_terminating(manifest) and not objects.finalizers_of(manifest)


def _is_owned(entry: Entry, owner: str) -> bool:
    try:
        return record_of(entry).owner == owner
    except InvalidRecord:
        return False


def _see_that_it_may_go(entry: Entry, expected: int | None, requester: Requester) -> None:
    """See that a caller may remove what is there.

    What is on its way already may be asked for again, whatever is expected: that is a retry.
    """
    place = parse_key(entry.key)
    if place is None:
        return
    try:
        content = record_of(entry).content
    except InvalidRecord:
        # Of which groups it is, nobody knows.
        if not requester.may_change_every_group:
            raise
        content = None
    else:
        if reason := requester.permit(objects.groups_of(place[0], content)):
            raise Denied(reason)
    if place[0] is Kind.CRD and objects.is_terminating(as_object(content)):
        return
    if expected is not None and expected != entry.revision:
        raise RevisionMismatch(*place, expected, entry.revision)


def _check(violations: Iterable[FieldViolation]) -> None:
    found = tuple(violations)
    if found:
        raise InvalidFields(*found[: published.MAX_VIOLATIONS])
