"""Owners of registrations: who they are, that they are alive, and what happens when they are not.

Each life of an owner has an id of its own, which its registrations carry: removing the owner is
one write, after which all that carries its id is left over, whatever happens in between.
"""

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import structlog

from apidiscovery_service.sources.registrations.objects import timestamp
from apidiscovery_service.sources.registrations.record import (
    InvalidRecord,
    OwnerRecord,
    Ownership,
    encode_owner,
    owner_key,
    owner_of,
)
from apidiscovery_service.sources.registrations.requests import (
    Claimant,
    Denied,
    NoSuchOwner,
    OwnerLease,
)
from apidiscovery_service.sources.registrations.table import OwnerRow, Table
from apidiscovery_service.sources.registrations.writes import remove_entry
from apidiscovery_service.store import (
    Conflict,
    Entry,
    Guard,
    Store,
    StoreRefused,
    StoreUnavailable,
)

# How many times as often as it must an owner should renew: some renewals may be lost.
_RENEWALS_A_LEASE = 3

# From a failure of the store to the next attempt.
_RETRY_S = 1.0

_log = structlog.get_logger(__name__)


async def take(store: Store, owner: str, caller: Claimant, lease: OwnerLease | None) -> Ownership:
    """Find or make an owner for what is about to be written; it counts as a renewal.

    Raises:
        Denied: It is another caller's.
    """
    if not owner:
        return Ownership()
    while True:
        entry = await store.get(owner_key(owner))
        record = _taken(owner, entry, caller, lease)
        if entry is None or record != owner_of(entry):
            try:
                entry = await store.put(
                    owner_key(owner),
                    encode_owner(record),
                    expected=entry.revision if entry else 0,
                )
            except Conflict:
                continue
        return Ownership(owner, record.id, Guard(entry.key, entry.created))


async def peek(store: Store, owner: str, caller: Claimant) -> Ownership:
    """Return what `take` would, as far as that is known without writing.

    Raises:
        Denied: It is another caller's.
    """
    entry = await store.get(owner_key(owner)) if owner else None
    if entry is None:
        return Ownership(owner)
    record = _checked(owner, owner_of(entry), caller)
    return Ownership(owner, record.id, Guard(entry.key, entry.created))


async def renew(store: Store, owner: str, caller: Claimant) -> float | None:
    """Note that an owner is alive.

    Returns:
        Within how many seconds it should renew again; None when it need not.

    Raises:
        NoSuchOwner: There is none any more.
        Denied: It is another caller's.
    """
    while True:
        entry = await store.get(owner_key(owner))
        if entry is None:
            raise NoSuchOwner(owner)
        record = _renewed(_checked(owner, owner_of(entry), caller))
        if record.duration_s is None:
            return None
        try:
            await store.put(entry.key, encode_owner(record), expected=entry.revision)
        except Conflict:
            continue
        return record.duration_s / _RENEWALS_A_LEASE


async def find(store: Store, owner: str, caller: Claimant) -> bool:
    """Tell whether there is an owner, which the caller may remove.

    Raises:
        Denied: It is another caller's.
        InvalidRecord: It cannot be read, and the caller is no admin.
    """
    entry = await store.get(owner_key(owner)) if owner else None
    if entry is not None:
        _see_that_it_may_go(owner, entry, caller)
    return entry is not None


async def remove(store: Store, owner: str, caller: Claimant) -> None:
    """Remove an owner; what carries the id of its life is left over then.

    Raises:
        Denied: It is another caller's.
        InvalidRecord: It cannot be read, and the caller is no admin.
    """
    while (entry := await store.get(owner_key(owner))) is not None:
        _see_that_it_may_go(owner, entry, caller)
        try:
            await store.delete(entry.key, expected=entry.revision)
        except Conflict:
            continue


def _see_that_it_may_go(owner: str, entry: Entry, caller: Claimant) -> None:
    try:
        _checked(owner, owner_of(entry), caller)
    except InvalidRecord:
        if not caller.is_admin:
            raise


def _taken(
    owner: str, entry: Entry | None, caller: Claimant, lease: OwnerLease | None
) -> OwnerRecord:
    """Return the record of an owner that is alive now."""
    if entry is None:
        record = OwnerRecord(uuid.uuid4().hex, caller.caller.user)
    else:
        record = _checked(owner, owner_of(entry), caller)
    if lease is not None:
        record = replace(record, duration_s=lease.duration_s, removal_after_s=lease.removal_after_s)
    return _renewed(record)


def _renewed(record: OwnerRecord) -> OwnerRecord:
    if record.duration_s is None:
        return record
    return replace(record, stale_since="", renewals=record.renewals + 1)


def _checked(owner: str, record: OwnerRecord, caller: Claimant) -> OwnerRecord:
    """See that an owner is the caller's; one of nobody becomes the caller's.

    Where callers are not identified, all of them are whoever is asked for. An owner that an admin
    does something for stays whose it is.
    """
    user = caller.caller.user
    if record.user and (caller.is_admin or user in ("", record.user)):
        return record
    if record.user:
        raise Denied(f"the owner {owner!r} belongs to another user than {user!r}")
    return replace(record, user=user)


async def remove_orphans(store: Store, table: Table, now: str, guard: Guard | None = None) -> None:
    """Remove what belongs to lives of owners that are over.

    Ids of lives are never taken again, so what is left over stays so unless it is written anew,
    and then its revision is another one.
    """
    for key in table.orphans():
        row = table.rows.get(key)
        entry = await store.get(key)
        if row is None or entry is None or entry.revision != row.revision:
            continue
        try:
            await remove_entry(store, entry, now, guard=guard, leave_owner=True)
        except Conflict:
            continue
        _log.warning("registration removed with its owner", key=key, owner=row.owner)


class OwnerExpiry:
    """Marks owners that have stopped renewing, later removes them with all that they have.

    Time is measured from when this process first saw an owner as it is: whoever takes this work
    over gives every owner its full time again, which may be long, but is never short.

    Args:
        store: Where owners stand.
        table: What is followed of it.
        clock: Unix time in seconds.
    """

    def __init__(self, store: Store, table: Table, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        # Revision of an owner, and when it was first seen.
        self._seen: dict[str, tuple[int, float]] = {}

    async def work(self, guard: Guard) -> None:
        """Do this until cancelled.

        Args:
            guard: Holds while nobody else does this work.

        Raises:
            Fenced: Somebody else does it now.
        """
        self._seen.clear()
        with self._table.advances() as advanced:
            while True:
                advanced.clear()
                try:
                    pause_s = await self._round(guard)
                except (StoreUnavailable, StoreRefused):  # noted where the store is asked
                    await asyncio.sleep(_RETRY_S)
                    continue
                try:
                    async with asyncio.timeout(pause_s):
                        await advanced.wait()
                except TimeoutError:
                    continue

    async def _round(self, guard: Guard) -> float | None:
        """Do what is due; return how long nothing more is, None for as long as nothing changes."""
        now = time.monotonic()
        owners = {
            name: row
            for name, row in self._table.owners.items()
            if not self._table.is_unreadable(name)
        }
        seen = {name: self._seen.get(name, (0, 0.0)) for name in owners}
        self._seen = {
            name: seen[name] if seen[name][0] == row.revision else (row.revision, now)
            for name, row in owners.items()
        }
        pauses_s: list[float] = []
        for name, row in owners.items():
            left_s = self._left_s(name, row, now)
            if left_s is not None and left_s <= 0:
                await self._expire(name, row, guard)
            elif left_s is not None:
                pauses_s.append(left_s)
        await remove_orphans(self._store, self._table, timestamp(self._clock()), guard)
        return min(pauses_s, default=None)

    def _left_s(self, name: str, row: OwnerRow, now: float) -> float | None:
        record = row.record
        if record.duration_s is None:
            return None
        allowed_s = record.removal_after_s if record.stale_since else record.duration_s
        return self._seen[name][1] + allowed_s - now

    async def _expire(self, name: str, row: OwnerRow, guard: Guard) -> None:
        """Mark an owner, or remove one that is marked, unless it was renewed meanwhile."""
        # Should the watch be behind, the next look at it is a full period away.
        self._seen[name] = (row.revision, time.monotonic())
        try:
            if row.record.stale_since:
                await self._store.delete(owner_key(name), expected=row.revision, guard=guard)
                _log.warning("owner removed", owner=name)
            else:
                marked = replace(row.record, stale_since=timestamp(self._clock()))
                await self._store.put(
                    owner_key(name), encode_owner(marked), expected=row.revision, guard=guard
                )
                _log.warning("owner has stopped renewing", owner=name)
        except Conflict:
            return
