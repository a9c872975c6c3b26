"""The status of CustomResourceDefinitions, written back when it has changed.

Names of a group are shared, so a change of one may change the status of others. What is served
never waits for this: the status in the store is for those who read it, and for which names were
accepted before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import orjson
import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.sources import crd_names
from apidiscovery_service.sources.crd_model import CustomResourceDefinition
from apidiscovery_service.sources.crd_names import CrdStatus
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.registrations.objects import with_status
from apidiscovery_service.sources.registrations.record import (
    Kind,
    Object,
    as_object,
    encode,
    key_of,
    record_of,
)
from apidiscovery_service.sources.registrations.requests import Written
from apidiscovery_service.sources.registrations.table import Table, declared_by
from apidiscovery_service.storage import Conflict, Entry, Store

# Others may write at the same time, and see to the statuses of the group themselves then.
_ATTEMPTS = 5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Statuses:
    """Writes back what has become of CustomResourceDefinitions."""

    store: Store
    table: Table
    declarations: Declarations

    async def write_back(self, groups: Iterable[str], now: str) -> None:
        """See that the status of each CustomResourceDefinition of some groups is stored.

        It never fails; what could not be written is by the next change of the group.
        """
        for group in sorted(groups):
            try:
                for _ in range(_ATTEMPTS):
                    if not await self._group(group, now):
                        break
            except (DiscoveryError, ValueError) as error:
                _log.warning("statuses cannot be stored", group=group, error=str(error))

    async def _group(self, group: str, now: str) -> bool:
        """Write what differs; True when there was anything."""
        revision = 0
        for name, status in self.declarations.group_statuses(group).items():
            row = self.table.rows.get(key_of(Kind.CRD, name))
            if row is None or not self._is_in_force(row.declared.crds[0]):
                continue
            try:
                entry = await self._one(key_of(Kind.CRD, name), row.revision, status, now)
            except Conflict:
                revision = max(revision, self.table.revision + 1)  # it is on its way here
            else:
                revision = max(revision, entry.revision if entry else 0)
        return revision > 0 and await self.table.seen(lambda: self.table.revision >= revision)

    def foreseen(self, planned: Iterable[Written], now: str) -> list[Written]:
        """Return what is planned with the statuses that there will be once it is done.

        Whoever else writes before that may change them.
        """
        written = list(planned)
        crds = {
            one.registered.name: declared_by(Kind.CRD, one.registered.record).crds[0]
            for one in written
            if one.registered.kind is Kind.CRD and self._is_ours(one.registered.name)
        }
        statuses: dict[str, CrdStatus] = {}
        for group in {crd.group for crd in crds.values()}:
            members = {name: self.declarations.crds[name] for name in self._names(group)}
            members |= {name: crd for name, crd in crds.items() if crd.group == group}
            statuses |= crd_names.statuses(crd for crd in members.values() if not _is_gone(crd))
        return [
            _with_status(one, statuses[one.registered.name], now)
            if one.registered.kind is Kind.CRD and one.registered.name in statuses
            else one
            for one in written
        ]

    def _names(self, group: str) -> Iterable[str]:
        return self.declarations.group_statuses(group)

    def _is_ours(self, name: str) -> bool:
        """Tell whether a registration of this name is or would be in force."""
        row = self.table.rows.get(key_of(Kind.CRD, name))
        if row is None:
            return name not in self.declarations.crds
        return self._is_in_force(row.declared.crds[0])

    def _is_in_force(self, crd: CustomResourceDefinition) -> bool:
        """Tell whether the status is that of the registration, not of a file of the same name."""
        return self.declarations.crds.get(crd.name) == crd

    async def _one(
        self, key: str, revision: int, status: dict[str, JSONValue], now: str
    ) -> Entry | None:
        """Store a status; None if it stands there already or what it is of does no longer."""
        entry = await self.store.get(key)
        if entry is None or entry.revision != revision:
            return None
        record = record_of(entry)
        content = with_status(as_object(record.content), _plain(status), now)
        if content == record.content:
            return None
        value = encode(replace(record, content=content))
        return await self.store.put(key, value, expected=revision)


def _is_gone(crd: CustomResourceDefinition) -> bool:
    return crd.terminating and not crd.finalizers


def _plain(status: dict[str, JSONValue]) -> Object:
    return as_object(cast("object", orjson.loads(orjson.dumps(status))))


def _with_status(written: Written, status: CrdStatus, now: str) -> Written:
    registered = written.registered
    value = _plain(crd_names.status_value(status))
    content = with_status(as_object(registered.record.content), value, now)
    record = replace(registered.record, content=content)
    return replace(written, registered=replace(registered, record=record))
