"""Owners of registrations: their leases, and the removal of what they registered.

Each life of an owner has an id of its own, which its registrations have as well. Removing an owner
is one write; registrations with an id of no owner are orphans, and are removed later.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import structlog

from apidiscovery_service.kube.objects import go_time
from apidiscovery_service.sources.registrations.record import (
    InvalidRecord,
    OwnerRecord,
    Ownership,
    encode_owner,
    owner_key,
    owner_of,
)
from apidiscovery_service.sources.registrations.requests import (
    Denied,
    NoSuchOwner,
    OwnerLease,
    Requester,
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
from apidiscovery_service.waiting import happens_within

# Renewals in the time of a lease, as some may be lost.
_RENEWALS_A_LEASE = 3

# Between a failure of the store and the next attempt.
_RETRY_S = 1.0

_log = structlog.get_logger(__name__)


async def take(
    store: Store, owner: str, requester: Requester, lease: OwnerLease | None
) -> Ownership:
    """Find or create the owner of the next writes; this renews its lease.

    Raises:
        Denied: It is another caller's.
    """
    if not owner:
        return Ownership()
    while True:
        entry = await store.get(owner_key(owner))
        record = _taken(owner, entry, requester, lease)
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


async def peek(store: Store, owner: str, requester: Requester) -> Ownership:
    """Return the result of `take` without writing; there is no guard for a new owner.

    Raises:
        Denied: It is another caller's.
    """
    entry = await store.get(owner_key(owner)) if owner else None
    if entry is None:
        return Ownership(owner)
    record = _checked(owner, owner_of(entry), requester)
    return Ownership(owner, record.id, Guard(entry.key, entry.created))


async def renew(store: Store, owner: str, requester: Requester) -> float | None:
    """Renew the lease of an owner.

    Returns:
        The seconds within which it should renew again; None if it has no lease.

    Raises:
        NoSuchOwner: There is none, or none any more.
        Denied: It is another caller's.
    """
    while True:
        entry = await store.get(owner_key(owner))
        if entry is None:
            raise NoSuchOwner(owner)
        record = _renewed(_checked(owner, owner_of(entry), requester))
        if record.duration_s is None:
            return None
        try:
            await store.put(entry.key, encode_owner(record), expected=entry.revision)
        except Conflict:
            continue
        return record.duration_s / _RENEWALS_A_LEASE


async def find_removable(store: Store, owner: str, requester: Requester) -> Entry | None:
    """Return the entry of an owner that the caller may remove; None if there is no such owner.

    Raises:
        Denied: It is another caller's.
        InvalidRecord: It cannot be read, and the caller is not an admin.
    """
    entry = await store.get(owner_key(owner)) if owner else None
    if entry is None:
        return None
    try:
        _checked(owner, owner_of(entry), requester)
    except InvalidRecord:
        if not requester.is_admin:
            raise
    return entry


async def remove(store: Store, owner: str, requester: Requester) -> None:
    """Remove an owner; registrations with the id of its life are orphans then.

    Raises:
        Denied: It is another caller's.
        InvalidRecord: It cannot be read, and the caller is not an admin.
    """
    while (entry := await find_removable(store, owner, requester)) is not None:
        with contextlib.suppress(Conflict):
            await store.delete(entry.key, expected=entry.revision)


def _taken(
    owner: str, entry: Entry | None, requester: Requester, lease: OwnerLease | None
) -> OwnerRecord:
    """Return the record of an owner after a renewal, with another lease if one is given."""
    if entry is None:
        record = OwnerRecord(uuid.uuid4().hex, requester.caller.user)
    else:
        record = _checked(owner, owner_of(entry), requester)
    if lease is not None:
        record = replace(record, duration_s=lease.duration_s, removal_after_s=lease.removal_after_s)
    return _renewed(record)


def _renewed(record: OwnerRecord) -> OwnerRecord:
    if record.duration_s is None:
        return record
    return replace(record, stale_since="", renewals=record.renewals + 1)


def _checked(owner: str, record: OwnerRecord, requester: Requester) -> OwnerRecord:
    """Return the record of an owner, which is the caller's if it had no user.

    Callers that are not identified may use every owner. An owner that an admin uses keeps its user.

    Raises:
        Denied: It is another caller's.
    """
    user = requester.caller.user
    if record.user and (requester.is_admin or user in ("", record.user)):
        return record
    if record.user:
        raise Denied(f"the owner {owner!r} belongs to another user than {user!r}")
    return replace(record, user=user)


async def remove_orphans(store: Store, table: Table, now: str, guard: Guard | None = None) -> None:
    """Remove registrations of lives of owners that are over.

    Ids of lives are unique, so an orphan stays one until it is written anew, with a new revision.
    """
    for key in table.orphans():
        row = table.rows.get(key)
        entry = await store.get(key)
        if row is None or entry is None or entry.revision != row.revision:
            continue
        with contextlib.suppress(Conflict):
            await remove_entry(store, entry, now, guard=guard, leave_owner=True)
            _log.warning("registration removed with its owner", key=key, owner=row.owner)


class OwnerExpiry:
    """Marks owners that have stopped renewing, and later removes them with their registrations.

    Time is measured from when this process first saw a revision of an owner. So a process that
    takes this work over gives every owner its full time again, and none too little.

    Args:
        store: The store of the owners.
        table: The content of the store.
        clock: Unix time in seconds.
    """

    def __init__(self, store: Store, table: Table, clock: Callable[[], float]) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        # Revision of an owner, and when it was first seen.
        self._seen: dict[str, tuple[int, float]] = {}

    async def work(self, guard: Guard) -> None:
        """Expire owners until cancelled.

        Args:
            guard: Holds while no other process does this work.

        Raises:
            Fenced: Another process does it now.
        """
        while True:
            news = self._table.next_change()
            try:
                pause_s = await self._round(guard)
            except (StoreUnavailable, StoreRefused):  # logged where the store is called
                await asyncio.sleep(_RETRY_S)
            else:
                await happens_within(pause_s, news.wait())

    async def _round(self, guard: Guard) -> float | None:
        """Expire what is due; return the seconds until the next expiry, None without leases."""
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
        await remove_orphans(self._store, self._table, go_time.unix_text(self._clock()), guard)
        return min(pauses_s, default=None)

    def _left_s(self, name: str, row: OwnerRow, now: float) -> float | None:
        record = row.record
        if record.duration_s is None:
            return None
        allowed_s = record.removal_after_s if record.stale_since else record.duration_s
        return self._seen[name][1] + allowed_s - now

    async def _expire(self, name: str, row: OwnerRow, guard: Guard) -> None:
        """Mark an owner, or remove one that is marked, unless it was renewed meanwhile."""
        # If the watch is late, this revision is tried again only after a full period.
        self._seen[name] = (row.revision, time.monotonic())
        with contextlib.suppress(Conflict):
            if row.record.stale_since:
                await self._store.delete(owner_key(name), expected=row.revision, guard=guard)
                _log.warning("owner removed", owner=name)
            else:
                marked = replace(row.record, stale_since=go_time.unix_text(self._clock()))
                await self._store.put(
                    owner_key(name), encode_owner(marked), expected=row.revision, guard=guard
                )
                _log.warning("owner has stopped renewing", owner=name)
