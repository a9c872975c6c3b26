"""The status of CustomResourceDefinitions: written with them, or later if it changes.

Names of a group are shared, so a change of one definition may change the status of others. Serving
never waits for a status in the store: it is for readers, and says which names were accepted before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

import orjson
import structlog
from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.sources.crds import names as crd_names
from apidiscovery_service.sources.crds.model import (
    CustomResourceDefinition,
    StatedStatus,
)
from apidiscovery_service.sources.crds.names import NO_NAMES, CrdStatus
from apidiscovery_service.sources.declarations import Declarations, Declared
from apidiscovery_service.sources.registrations.object_defaults import with_status
from apidiscovery_service.sources.registrations.record import (
    Object,
    RegistrationKind,
    encode,
    key_of,
    read_record,
)
from apidiscovery_service.sources.registrations.requests import ApplyOutcome, ApplyResult
from apidiscovery_service.sources.registrations.table import Table
from apidiscovery_service.sources.registrations.writes import Prepared
from apidiscovery_service.store import MAX_VALUE_BYTES, Conflict, Entry, Store
from apidiscovery_service.workers import run_sized

# Other processes may write at the same time; the last one completes the statuses of the group.
_ATTEMPTS = 5


# A definition as it will be stored, and the status that it will have.
_Decided: TypeAlias = tuple[CustomResourceDefinition, CrdStatus]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Statuses:
    """Decides the status of CustomResourceDefinitions before they are written, or afterwards.

    Accepted names stay accepted. So a status is decided before the write only if the table has all
    earlier writes of this process to the group.

    Attributes:
        unsettled: Groups with writes of this process that the table may not have.
    """

    store: Store
    table: Table
    declarations: Declarations
    unsettled: set[str] = field(default_factory=set[str])

    def decided(self, changes: Sequence[Prepared], now: str) -> Callable[[], list[Prepared]]:
        """Decide the statuses that definitions will have once all changes are written.

        A status that is not certain stays as it is; `write_back` corrects it later. The caller
        holds the locks of the groups.

        Returns:
            A function that returns the changes with their statuses; it may run in another thread.
        """
        decided: dict[str, _Decided] = {}
        for group, of_group in _by_group(changes).items():
            if group in self.unsettled or not all(map(self._is_on_table, of_group)):
                continue
            found = self._decide(
                group,
                [change for change in of_group if change.outcome is not ApplyOutcome.UNCHANGED],
            )
            before = self.declarations.crds(group).values()
            # A process that ends between two writes must not leave a name accepted for both.
            if not any(
                crd_names.is_of_another(crd.name, status.accepted, before)
                for crd, status in found.values()
            ):
                decided |= found
        return lambda: [_with_decided(change, decided, now) for change in changes]

    def of_dry_run(self, changes: Sequence[Prepared], now: str) -> list[ApplyResult]:
        """Return the answer to a write of these changes; writes of others may change it."""
        decided: dict[str, _Decided] = {}
        for group, of_group in _by_group(changes).items():
            decided |= self._decide(
                group, [change for change in of_group if self._is_registered(change.wanted.name)]
            )
        return [_with_decided(change, decided, now).written() for change in changes]

    def _decide(self, group: str, changes: Iterable[Prepared]) -> dict[str, _Decided]:
        """Return the definitions and statuses of a group's changes, by key, once all are written.

        Definitions that are deleted by their change have none.
        """
        before = self.declarations.crds(group)
        crds: dict[str, CustomResourceDefinition] = {}
        for change in changes:
            former = before.pop(change.wanted.name, None)
            if not change.gone and (crd := _undecided(change, former)):
                crds[crd.name] = crd
        statuses = crd_names.statuses((before | crds).values())
        return {
            key_of(RegistrationKind.CRD, name): (crd, statuses[name]) for name, crd in crds.items()
        }

    def _is_on_table(self, change: Prepared) -> bool:
        """Return whether a change replaces what the table has, and will be in force."""
        row = self.table.rows.get(change.wanted.key)
        revision = row.revision if row else 0
        return (
            change.revision == revision
            and not change.gone
            and self._is_registered(change.wanted.name)
        )

    def is_current(self, change: Prepared) -> bool:
        """Return whether no other definition was given names that a decided status accepts."""
        if change.declared is None:
            return True
        (crd,) = change.declared.crds
        names = (crd.stated and crd.stated.accepted) or NO_NAMES
        return not crd_names.is_of_another(
            crd.name, names, self.declarations.crds(crd.group).values()
        )

    def about_to_write(self, change: Prepared) -> None:
        """Note that a change is written next."""
        if change.wanted.crd is not None:
            self.unsettled.add(change.wanted.crd.group)
        self.table.expect(change)

    def settled(self, written: Iterable[ApplyResult]) -> None:
        """Note that the table has all that was written."""
        for one in written:
            if (
                one.registered.kind is RegistrationKind.CRD
                and one.outcome is not ApplyOutcome.UNCHANGED
            ):
                self.unsettled.discard(one.registered.name.partition(".")[2])

    async def write_back(self, groups: Iterable[str], now: str) -> None:
        """Store the status of each CustomResourceDefinition of some groups, where it differs.

        It never fails: a status that cannot be written now is written with the next change of the
        group. The caller holds the locks of the groups.
        """
        for group in sorted(groups):
            was_settled = group not in self.unsettled
            self.unsettled.add(group)
            try:
                is_done = await self._write_back(group, now)
            except (DiscoveryError, ValueError) as error:
                _log.warning("statuses cannot be stored", group=group, error=str(error))
            else:
                if is_done and was_settled:
                    self.unsettled.discard(group)

    async def _write_back(self, group: str, now: str) -> bool:
        """Write until no status differs; False if others write as well, again and again."""
        for _ in range(_ATTEMPTS):
            revision = await self._write_differing(group, now)
            if not revision:
                return True
            await self._seen(revision)
        return False

    async def _seen(self, revision: int) -> None:
        await self.table.seen(lambda: self.table.revision >= revision)

    async def _write_differing(self, group: str, now: str) -> int:
        """Write the statuses that differ; return the revision that has all of them, 0 for none."""
        revision = 0
        for name in sorted(self.declarations.statuses(group)):
            key = key_of(RegistrationKind.CRD, name)
            row, status = self.table.rows.get(key), self.declarations.statuses(group).get(name)
            if row is None or status is None or not self._is_in_force(row.declared.crds[0]):
                continue
            if _states(row.declared.crds[0], status):
                continue
            try:
                entry = await self._write(key, row.revision, status, now)
            except Conflict:
                revision = max(revision, self.table.revision + 1)  # it is on its way here
            else:
                revision = max(revision, entry.revision if entry else 0)
        return revision

    async def _write(self, key: str, revision: int, status: CrdStatus, now: str) -> Entry | None:
        """Write a status; None if it is stored already, or its definition has changed."""
        entry = await self.store.get(key)
        if entry is None or entry.revision != revision:
            return None
        record = await read_record(entry)
        content = _with_status(record.content, status, now)
        if content == record.content:
            return None
        written = replace(record, content=content)
        value = await run_sized(len(entry.value), lambda: encode(written))
        return await self.store.put(key, value, expected=revision)

    def _is_registered(self, name: str) -> bool:
        """Return whether a registration of this name is or would be in force."""
        row = self.table.rows.get(key_of(RegistrationKind.CRD, name))
        if row is None:
            return self.declarations.crd(name) is None
        return self._is_in_force(row.declared.crds[0])

    def _is_in_force(self, crd: CustomResourceDefinition) -> bool:
        """Return whether this definition is in force, and not one of a file with the same name."""
        return self.declarations.crd(crd.name) == crd


def _by_group(changes: Iterable[Prepared]) -> dict[str, list[Prepared]]:
    """Return the changes of CustomResourceDefinitions by group."""
    groups: dict[str, list[Prepared]] = {}
    for change in changes:
        if change.wanted.crd is not None:
            groups.setdefault(change.wanted.crd.group, []).append(change)
    return groups


def _states(crd: CustomResourceDefinition, status: CrdStatus) -> bool:
    """Return whether a document has a status already; times may differ."""
    stated = crd.stated or StatedStatus()
    times = [condition.since for condition in stated.conditions]
    if not all(times) or len(times) != len(status.conditions):
        return False
    return stated == _stated(status, times)


def _stated(status: CrdStatus, times: Iterable[str]) -> StatedStatus:
    """Return a status as it is read from the store."""
    return StatedStatus(
        None if status.accepted == NO_NAMES else status.accepted,
        tuple(
            replace(condition, since=since)
            for condition, since in zip(status.conditions, times, strict=True)
        ),
        status.stored_versions,
        final=False,
    )


def _undecided(
    change: Prepared, before: CustomResourceDefinition | None
) -> CustomResourceDefinition | None:
    """Return the definition of a change before its status is decided."""
    content = as_object(change.record.content)
    metadata = metadata_of(content)
    stored = as_list(as_object(content.get("status")).get("storedVersions"))
    stated = before.stated if before and before.stated else StatedStatus(final=False)
    stated = replace(stated, stored_versions=tuple(map(str, stored)))
    return change.wanted.crd and replace(
        change.wanted.crd,
        created=str(metadata.get("creationTimestamp") or ""),
        terminating=bool(metadata.get("deletionTimestamp")),
        stated=None if stated == StatedStatus(final=False) else stated,
    )


def _with_decided(change: Prepared, decided: Mapping[str, _Decided], now: str) -> Prepared:
    """Return a change with the status of its key, and with the result of reading it again."""
    if change.wanted.key not in decided:
        return change
    crd, status = decided[change.wanted.key]
    content = _with_status(change.record.content, status, now)
    record = replace(change.record, content=content)
    value = encode(record)
    if len(value) > MAX_VALUE_BYTES:
        return change
    conditions = as_list(as_object(content["status"])["conditions"])
    times = [str(as_object(condition)["lastTransitionTime"]) for condition in conditions]
    declared = Declared(crds=(replace(crd, stated=_stated(status, times)),))
    return replace(change, record=record, value=value, declared=declared)


def _with_status(content: JSONValue, status: CrdStatus, now: str) -> Object:
    plain = cast("object", orjson.loads(orjson.dumps(crd_names.status_value(status))))
    return with_status(as_object(content), as_object(plain), now)
