"""The status of CustomResourceDefinitions, written with them or back when it has changed.

Names of a group are shared, so a change of one may change the status of others. What is served
never waits for those: the status in the store is for those who read it, and for which names were
accepted before.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, cast

import orjson
import structlog

from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.crds import names as crd_names
from apidiscovery_service.sources.crds.model import (
    Condition,
    CustomResourceDefinition,
    Names,
    StatedStatus,
    packed,
    without_versions,
)
from apidiscovery_service.sources.crds.names import CrdStatus
from apidiscovery_service.sources.declarations import Declarations, Declared
from apidiscovery_service.sources.fields import object_json
from apidiscovery_service.sources.registrations.objects import metadata_of, with_status
from apidiscovery_service.sources.registrations.record import (
    Kind,
    Object,
    as_list,
    as_object,
    encode,
    key_of,
    read_record,
)
from apidiscovery_service.sources.registrations.requests import Outcome, Written
from apidiscovery_service.sources.registrations.table import Table, declared_by
from apidiscovery_service.sources.registrations.writes import Plan
from apidiscovery_service.store import MAX_VALUE_BYTES, Conflict, Entry, Store
from apidiscovery_service.workers import run_sized

# Others may write at the same time, and see to the statuses of the group themselves then.
_ATTEMPTS = 5

_NO_NAMES = Names("", "", "", "")

# What a plan declares, but for the document itself, and its status.
_Told: TypeAlias = tuple[CustomResourceDefinition, CrdStatus]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Statuses:
    """Foretells and writes back what becomes of CustomResourceDefinitions.

    What is accepted stays accepted, so nothing is foretold of a group unless the table has all that
    this process has written to it.

    Attributes:
        unsettled: Groups in which there may be writes of this process that the table has not.
    """

    store: Store
    table: Table
    declarations: Declarations
    unsettled: set[str] = field(default_factory=set[str])

    async def write_back(self, groups: Iterable[str], now: str) -> None:
        """See that the status of each CustomResourceDefinition of some groups is stored.

        It never fails; what could not be written is by the next change of the group. Whoever calls
        has the turns of the groups.
        """
        for group in sorted(groups):
            was_settled = group not in self.unsettled
            self.unsettled.add(group)
            try:
                is_done = await self._written_back(group, now)
            except (DiscoveryError, ValueError) as error:
                _log.warning("statuses cannot be stored", group=group, error=str(error))
            else:
                if is_done and was_settled:
                    self.unsettled.discard(group)

    async def _written_back(self, group: str, now: str) -> bool:
        """Write what differs until nothing does; False when that takes too long."""
        for _ in range(_ATTEMPTS):
            revision = await self._group(group, now)
            if not revision:
                return True
            await self.table.seen(partial(self._has, revision))
        return False

    def _has(self, revision: int) -> bool:
        return self.table.revision >= revision

    async def _group(self, group: str, now: str) -> int:
        """Write what differs; return the revision from which on all of it is there, 0 for none."""
        revision = 0
        for name in sorted(self.declarations.statuses(group)):
            key = key_of(Kind.CRD, name)
            row, status = self.table.rows.get(key), self.declarations.statuses(group).get(name)
            if row is None or status is None or not self._is_in_force(row.declared.crds[0]):
                continue
            if _states(row.declared.crds[0], status):
                continue
            try:
                entry = await self._one(key, row.revision, crd_names.status_value(status), now)
            except Conflict:
                revision = max(revision, self.table.revision + 1)  # it is on its way here
            else:
                revision = max(revision, entry.revision if entry else 0)
        return revision

    def still_holds(self, planned: Plan) -> bool:
        """Tell whether nobody else was given names meanwhile that a plan says are accepted."""
        if planned.declared is None:
            return True
        (crd,) = planned.declared.crds
        names = (crd.stated and crd.stated.accepted) or _NO_NAMES
        return not crd_names.is_of_another(crd.name, names, self._members(crd.group).values())

    def _members(self, group: str) -> dict[str, CustomResourceDefinition]:
        """Return what is in force of a group, by name."""
        return {name: self.declarations.crds[name] for name in self.declarations.statuses(group)}

    def about_to(self, planned: Plan) -> None:
        """Note that something is written next."""
        if planned.wanted.crd is not None:
            self.unsettled.add(planned.wanted.crd.group)
        if planned.declared is not None:
            self.table.hand(planned.wanted.key, planned.value, planned.record, planned.declared)

    def rehearse(self, planned: Plan) -> Snapshot | None:
        """Work ahead for what a plan declares; return what will be served if that is known.

        Its ETags are not made yet.
        """
        for crd in planned.declared.crds if planned.declared else ():
            with contextlib.suppress(DiscoveryError):  # whoever publishes it is told
                return self.declarations.rehearse(crd)
        return None

    def settled(self, written: Iterable[Written]) -> None:
        """Note that the table has all that was written."""
        for one in written:
            if one.registered.kind is Kind.CRD and one.outcome is not Outcome.UNCHANGED:
                self.unsettled.discard(_group_of(one.registered.name))

    def foretold(self, plans: Sequence[Plan], now: str) -> Callable[[], list[Plan]]:
        """Tell the statuses that there will be once all plans are carried out.

        Returns:
            What returns the plans with these; it may be called in another thread.

        Where that cannot be told for sure they stay as they are, and the status is written back.
        Whoever calls has the turns of the groups.
        """
        of_group: dict[str, list[Plan]] = {}
        for planned in plans:
            if planned.wanted.crd is not None:
                of_group.setdefault(planned.wanted.crd.group, []).append(planned)
        told: dict[str, _Told] = {}
        for group, some in of_group.items():
            told |= self._told(group, some)
        return lambda: [
            _foretold_plan(one, *told[one.wanted.key], now) if one.wanted.key in told else one
            for one in plans
        ]

    def _told(self, group: str, plans: Sequence[Plan]) -> "dict[str, _Told]":
        """Return by key what is known of the plans of a group, none if it cannot be told."""
        if group in self.unsettled or not all(map(self._is_of_table, plans)):
            return {}
        before = self._members(group)
        crds = {
            planned.wanted.name: crd
            for planned in plans
            if planned.outcome is not Outcome.UNCHANGED
            and (crd := _planned_crd(planned, before.get(planned.wanted.name)))
        }
        if not crds:
            return {}
        statuses = crd_names.statuses((before | crds).values())
        # It would have it twice if this process ended in between.
        if any(
            crd_names.is_of_another(name, statuses[name].accepted, before.values()) for name in crds
        ):
            return {}
        return {
            planned.wanted.key: (crds[name], statuses[name])
            for planned in plans
            if (name := planned.wanted.name) in crds
        }

    def _is_of_table(self, planned: Plan) -> bool:
        """Tell whether a plan replaces what the table has, and will be in force."""
        row = self.table.rows.get(planned.wanted.key)
        revision = row.revision if row else 0
        return (
            planned.revision == revision and not planned.gone and self._is_ours(planned.wanted.name)
        )

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
            planned_here = {name: crd for name, crd in crds.items() if crd.group == group}
            members = self._members(group) | planned_here
            statuses |= crd_names.statuses(crd for crd in members.values() if not _is_gone(crd))
        return [
            _with_status(one, statuses[one.registered.name], now)
            if one.registered.kind is Kind.CRD and one.registered.name in statuses
            else one
            for one in written
        ]

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
        record = await read_record(entry)
        content = with_status(as_object(record.content), _plain(status), now)
        if content == record.content:
            return None
        written = replace(record, content=content)
        value = await run_sized(len(entry.value), lambda: encode(written))
        return await self.store.put(key, value, expected=revision)


def _is_gone(crd: CustomResourceDefinition) -> bool:
    return crd.terminating and not crd.finalizers


def _group_of(name: str) -> str:
    return name.partition(".")[2]


def _states(crd: CustomResourceDefinition, status: CrdStatus) -> bool:
    """Tell whether a status stands in the document already, apart from times."""
    stated = crd.stated or StatedStatus()
    times = [condition.since for condition in stated.conditions]
    if not all(times) or len(times) != len(status.conditions):
        return False
    return stated == _stated(status, times)


def _stated(status: CrdStatus, times: Iterable[str]) -> StatedStatus:
    """Return a status as it is read again once it stands in the store."""
    return StatedStatus(
        None if status.accepted == _NO_NAMES else status.accepted,
        tuple(
            Condition(one.type, one.status, one.reason, one.message, since)
            for one, since in zip(status.conditions, times, strict=True)
        ),
        status.stored_versions,
        final=False,
    )


def _planned_crd(
    planned: Plan, before: CustomResourceDefinition | None
) -> CustomResourceDefinition | None:
    """Return what a plan declares, but for the document itself; before its status is decided."""
    content = as_object(planned.record.content)
    metadata = metadata_of(content)
    stored = as_list(as_object(content.get("status")).get("storedVersions"))
    stated = before.stated if before and before.stated else StatedStatus(final=False)
    stated = replace(stated, stored_versions=tuple(map(str, stored)))
    return planned.wanted.crd and replace(
        planned.wanted.crd,
        created=str(metadata.get("creationTimestamp") or ""),
        terminating=bool(metadata.get("deletionTimestamp")),
        stated=None if stated == StatedStatus(final=False) else stated,
    )


def _foretold_plan(
    planned: Plan, crd: CustomResourceDefinition, status: CrdStatus, now: str
) -> Plan:
    """Return a plan with a status, and with what will be read of it."""
    plain = _plain(crd_names.status_value(status))
    content = with_status(as_object(planned.record.content), plain, now)
    record = replace(planned.record, content=content)
    document = object_json(content, ())
    value = encode(record, document)
    if len(value) > MAX_VALUE_BYTES:
        return planned
    conditions = as_list(as_object(content["status"])["conditions"])
    times = [str(as_object(condition)["lastTransitionTime"]) for condition in conditions]
    outline = packed(object_json(without_versions(content), ()))
    read = replace(crd, stated=_stated(status, times), packed=outline)
    return replace(planned, record=record, value=value, declared=Declared(crds=(read,)))


def _plain(status: dict[str, JSONValue]) -> Object:
    return as_object(cast("object", orjson.loads(orjson.dumps(status))))


def _with_status(written: Written, status: CrdStatus, now: str) -> Written:
    registered = written.registered
    value = _plain(crd_names.status_value(status))
    content = with_status(as_object(registered.record.content), value, now)
    record = replace(registered.record, content=content)
    return replace(written, registered=replace(registered, record=record))
