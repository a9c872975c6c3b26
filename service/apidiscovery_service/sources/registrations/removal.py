"""Removing a registration: at once, or once its finalizers are gone."""

from dataclasses import replace

import structlog

from apidiscovery_service.sources.registrations.objects import (
    finalizers_of,
    terminating,
)
from apidiscovery_service.sources.registrations.record import (
    InvalidRecord,
    Kind,
    Record,
    as_object,
    encode,
    parse_key,
    record_of,
)
from apidiscovery_service.sources.registrations.table import Table
from apidiscovery_service.store import Conflict, Entry, Guard, Store

_log = structlog.get_logger(__name__)


async def remove(
    store: Store,
    entry: Entry,
    now: str,
    *,
    guard: Guard | None = None,
    leave_owner: bool = False,
) -> Entry | None:
    """Remove a registration, or mark a CustomResourceDefinition with finalizers as terminating.

    Args:
        store: Where it stands.
        entry: What stands there.
        now: RFC 3339.
        guard: What must hold.
        leave_owner: Whether one that stays has no owner from now on.

    Returns:
        What stands there now.

    Raises:
        Conflict: Something else stands there.
    """
    left = _left(entry, now, leave_owner=leave_owner)
    if left is None:
        await store.delete(entry.key, expected=entry.revision, guard=guard)
        return None
    if left == record_of(entry):
        return entry
    return await store.put(entry.key, encode(left), expected=entry.revision, guard=guard)


def _left(entry: Entry, now: str, *, leave_owner: bool) -> Record | None:
    """Return what is left of a registration that is removed; nothing of what cannot be read."""
    place = parse_key(entry.key)
    try:
        record = record_of(entry)
    except InvalidRecord:
        return None
    manifest = as_object(record.content)
    if place is None or place[0] is not Kind.CRD or not finalizers_of(manifest):
        return None
    left = replace(record, content=terminating(manifest, now))
    return replace(left, owner="", owner_id="") if leave_owner else left


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
            await remove(store, entry, now, guard=guard, leave_owner=True)
        except Conflict:
            continue
        _log.warning("registration removed with its owner", key=key, owner=row.owner)
