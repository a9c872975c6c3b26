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

from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.sources.crd_model import CustomResourceDefinition
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.registrations.objects import with_status
from apidiscovery_service.sources.registrations.record import (
    Kind,
    as_object,
    decode,
    encode,
    key_of,
)
from apidiscovery_service.sources.registrations.table import Table
from apidiscovery_service.storage import Conflict, Entry, Store, StoreUnavailable

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
            except (StoreUnavailable, ValueError) as error:
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
        record = decode(entry.value)
        plain = as_object(cast("object", orjson.loads(orjson.dumps(status))))
        content = with_status(as_object(record.content), plain, now)
        if content == record.content:
            return None
        value = encode(replace(record, content=content))
        return await self.store.put(key, value, expected=revision)
