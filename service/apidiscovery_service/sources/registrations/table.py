"""The registrations and owners in the store, as its watch reports them, and their declarations.

Every replica learns of them only here, also of its own writes.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import structlog

from apidiscovery_service.sources.api_service import read_api_service
from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.crds.reading import read_crd
from apidiscovery_service.sources.declarations import Declarations, Declared
from apidiscovery_service.sources.fields import InvalidField, Node, path_text
from apidiscovery_service.sources.registrations import published
from apidiscovery_service.sources.registrations.record import (
    OWNERS,
    PREFIX,
    InvalidRecord,
    OwnerRecord,
    Record,
    RegistrationKind,
    decode,
    decode_owner,
    owner_key,
    parse_key,
)
from apidiscovery_service.sources.registrations.requests import NotServed
from apidiscovery_service.sources.registrations.writes import Prepared
from apidiscovery_service.store import Batch, Change, Entry, Store
from apidiscovery_service.store.following import follow
from apidiscovery_service.waiting import Wakeup
from apidiscovery_service.workers import INLINE_BYTES

# How long a writer waits until it sees its own write. When a server of the store hangs, its watch
# moves to another one in less time.
VISIBLE_WITHIN_S = 10.0

# More changes are read in a thread, since they take more than a few milliseconds.
_MANY = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Row:
    """A registration without its content.

    Attributes:
        owner_id: The id of the owner's life.
        declared: Its declarations while its owner is alive.
        by: The user who wrote it last; empty when callers are not identified.
    """

    kind: RegistrationKind
    name: str
    revision: int
    owner: str
    owner_id: str
    declared: Declared
    by: str

    @property
    def origin(self) -> str:
        """Its name as an origin of declarations."""
        return f"registrations:{self.kind}/{self.name}"

    @property
    def terminating(self) -> bool:
        """Whether it is to go as soon as it has no finalizers."""
        return any(crd.terminating for crd in self.declared.crds)


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """An owner with its revisions.

    Attributes:
        created: The revision that created an owner of this name.
    """

    record: OwnerRecord
    revision: int
    created: int


# The row of a key; None if the registration is gone, text if it cannot be read.
_Outcome: TypeAlias = Row | str | None


def declared_by(kind: RegistrationKind, record: Record) -> Declared:
    """Return what a registration declares.

    Raises:
        InvalidField: Its content is not valid.
    """
    match kind:
        case RegistrationKind.GROUPS:
            groups = published.from_json(record.content)
            return Declared(
                offers=published.offers_of(groups), documents=published.documents_of(groups)
            )
        case RegistrationKind.CRD:
            return Declared(crds=(_of_store(read_crd(Node(record.content))),))
        case RegistrationKind.API_SERVICE:
            return Declared(api_services=(read_api_service(Node(record.content)),))


def _of_store(crd: CustomResourceDefinition) -> CustomResourceDefinition:
    """Return a definition whose status may be decided anew.

    The status in a document is final, which is right only for the document of another server. A
    status in the store was decided here, and the next decision starts from it.
    """
    return replace(crd, stated=crd.stated and replace(crd.stated, final=False))


class Table:
    """The content of the store at `revision`; all of it is declared.

    Args:
        store: The store to follow.
        declarations: The declarations to keep up to date.
    """

    def __init__(self, store: Store, declarations: Declarations) -> None:
        self._store = store
        self._declarations = declarations
        # The last entry taken under each key, also of one that cannot be read.
        self._marks: dict[str, tuple[int, int]] = {}
        self._rows: dict[str, Row] = {}
        self._owners: dict[str, OwnerRow] = {}
        # Keys of registrations by the name of their owner.
        self._owned: dict[str, set[str]] = {}
        self._problems: dict[str, str] = {}
        # Own writes, by key, so that they need not be read when the watch reports them.
        self._prepared: dict[str, Prepared] = {}
        self._news = Wakeup()
        # Whether changes may be missing. A restored store uses the same revisions again.
        self._is_behind = False
        self.revision = 0

    @property
    def rows(self) -> Mapping[str, Row]:
        """The registrations by key."""
        return MappingProxyType(self._rows)

    @property
    def owners(self) -> Mapping[str, OwnerRow]:
        """The owners by name."""
        return MappingProxyType(self._owners)

    @property
    def problems(self) -> Mapping[str, str]:
        """Why entries cannot be read, by key; their last readable content is still served."""
        return MappingProxyType(self._problems)

    def missing(self) -> list[str]:
        """Return a line for each registration that cannot be read and never could.

        Its groups are not served. Kinds of newer releases do not count.
        """
        return [
            f"{key} in the store cannot be read: {what}"
            for key, what in sorted(self._problems.items())
            if parse_key(key) is not None and key not in self._rows
        ]

    def expect(self, prepared: Prepared) -> None:
        """Assign a prepared change without reading it, when the watch reports it."""
        self._prepared[prepared.wanted.key] = prepared

    def forget(self, keys: Iterable[str]) -> None:
        """Expect no prepared changes of these keys any more."""
        for key in keys:
            self._prepared.pop(key, None)

    def owned_by(self, owner: str) -> list[str]:
        """Return the keys of the registrations of an owner, sorted."""
        return sorted(self._owned.get(owner, ()))

    def stale_since(self, owner: str, owner_id: str) -> str | None:
        """Return since when an owner is stale; None while it is alive, empty when not known.

        One whose record cannot be read counts as alive: a newer release may have written it.
        """
        if not owner or self.is_unreadable(owner):
            return None
        row = self._owners.get(owner)
        if row is None or row.record.id != owner_id:
            return ""  # that life is over, and its registrations are removed soon
        return row.record.stale_since or None

    def is_unreadable(self, owner: str) -> bool:
        """Return whether the record of an owner cannot be read."""
        return owner_key(owner) in self._problems

    def orphans(self) -> list[str]:
        """Return the keys of registrations whose owner's life is over, sorted.

        An owner whose record cannot be read has no orphans, since its life is not known.
        """
        return sorted(
            key
            for owner, keys in self._owned.items()
            if not self.is_unreadable(owner)
            for key in keys
            if (row := self._owners.get(owner)) is None or row.record.id != self._rows[key].owner_id
        )

    async def load(self) -> int:
        """Take the content of the store, in one step; return its revision.

        Raises:
            StoreUnavailable: It does not answer.
        """
        listing = await self._store.list(PREFIX)
        present = {entry.key for entry in listing.entries}
        changes = [Change(entry.key, entry) for entry in listing.entries]
        changes += [Change(key, None) for key in self._marks.keys() - present]
        await self._take(changes, listing.revision, has_causes=False)
        self._is_behind = False  # before those run who wait for it
        return listing.revision

    async def follow(self) -> None:
        """Take every change, until cancelled.

        Everything stays as it is while the store does not answer, or refuses: a password may be
        changed, and later changed back.
        """

        async def take(batch: Batch) -> None:
            await self._take(batch.changes, batch.revision)

        def lost() -> None:
            self._is_behind = True

        await follow(self._store, PREFIX, self.load, take, after=self.revision, lost=lost)

    def next_change(self) -> asyncio.Event:
        """Return the event that the next change sets."""
        return self._news.next()

    async def seen(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on this table is met, and no change of the store is missing.

        Raises:
            NotServed: That takes longer than `VISIBLE_WITHIN_S`.
        """
        try:
            async with asyncio.timeout(VISIBLE_WITHIN_S):
                await self._news.until(lambda: not self._is_behind and condition())
        except TimeoutError:
            raise NotServed(
                f"no news of the store for {VISIBLE_WITHIN_S:g} s after a write"
            ) from None

    async def _take(
        self, changes: Iterable[Change], revision: int, *, has_causes: bool = True
    ) -> None:
        """Take changes of the store, and declare what they change, in one step.

        Args:
            changes: The present entries of some keys.
            revision: The last one of the store.
            has_causes: Whether a request or a lease caused each change; unknown for a list, in
                which most entries are unchanged.
        """
        news = [change for change in changes if self._is_news(change)]
        outcomes: dict[str, _Outcome] = {
            change.key: row for change in news if (row := self._prepared_row(change))
        }
        others = [change for change in news if change.key not in outcomes]
        outcomes |= await asyncio.to_thread(_read, others) if _is_much(others) else _read(others)
        for change in news:
            if change.entry is None:
                self._marks.pop(change.key, None)
            else:
                self._marks[change.key] = change.entry.mark
        touched = self._take_owners(news) | outcomes.keys()
        before = {key: row for key in touched if (row := self._rows.get(key))}
        for key, outcome in outcomes.items():
            self._take_row(key, outcome)
        after = {key: row for key in touched if (row := self._rows.get(key))}
        gone = [row.origin for key, row in before.items() if key not in after]
        if after or gone:
            causes = {self._cause(before.get(key), after.get(key)) for key in touched}
            cause = ", ".join(sorted(filter(None, causes))) if has_causes else ""
            declared = {row.origin: self._as_of_owner(row) for row in after.values()}
            self._declarations.update(declared, gone, cause)
        self.revision = revision
        self._news.ring()

    def _cause(self, before: Row | None, after: Row | None) -> str:
        """Return why a registration is another one now, or another state of its owner counts."""
        row = after or before
        if row is None:
            return ""
        if self.stale_since(row.owner, row.owner_id) is not None:
            return "lease ended"
        if after is None or after.terminating:
            return "withdraw"
        if before is not None and before.revision == after.revision:
            return "lease renewed"
        verb = "publish" if after.kind is RegistrationKind.GROUPS else "apply"
        return f"{verb} by {after.by}" if after.by else verb

    def _prepared_row(self, change: Change) -> Row | None:
        """Return the row of a change that was prepared here; None if it has to be read."""
        prepared, entry = self._prepared.get(change.key), change.entry
        if prepared is None or prepared.declared is None or entry is None:
            return None
        if entry.value != prepared.value:
            return None
        wanted = prepared.wanted
        return _row_of(wanted.kind, wanted.name, entry.revision, prepared.record, prepared.declared)

    def _is_news(self, change: Change) -> bool:
        return change.entry is None or self._marks.get(change.key) != change.entry.mark

    def _take_row(self, key: str, outcome: _Outcome) -> None:
        """Take the registration that a key has now."""
        if isinstance(outcome, str):
            self._problems[key] = outcome
            _log.error("registration cannot be read, it stays as it was", key=key, error=outcome)
            return
        self._problems.pop(key, None)
        former = self._rows.pop(key, None)
        if former is not None and former.owner:
            self._owned[former.owner].discard(key)
            if not self._owned[former.owner]:
                del self._owned[former.owner]
        if outcome is not None:
            self._rows[key] = outcome
            if outcome.owner:
                self._owned.setdefault(outcome.owner, set()).add(key)

    def _take_owners(self, changes: Iterable[Change]) -> set[str]:
        """Take the owners among changes; return the keys of registrations that change with them."""
        touched: set[str] = set()
        for change in changes:
            if not change.key.startswith(OWNERS):
                continue
            name = change.key.removeprefix(OWNERS)
            before = self._life(name)
            self._take_owner(name, change)
            if self._life(name) != before:
                touched |= self._owned.get(name, set())
        return touched

    def _take_owner(self, name: str, change: Change) -> None:
        self._problems.pop(change.key, None)
        if change.entry is None:
            self._owners.pop(name, None)
            return
        try:
            record = decode_owner(change.entry.value)
        except InvalidRecord as error:
            self._problems[change.key] = str(error)
            _log.error("owner cannot be read, it stays as it was", owner=name, error=str(error))
        else:
            self._owners[name] = OwnerRow(record, change.entry.revision, change.entry.created)

    def _life(self, owner: str) -> tuple[str, bool] | None:
        """Return what registrations depend on: the id of a life, and whether it is stale.

        None if the record of the owner cannot be read.
        """
        if self.is_unreadable(owner):
            return None
        row = self._owners.get(owner)
        return (row.record.id, bool(row.record.stale_since)) if row else ("", False)

    def _as_of_owner(self, row: Row) -> Declared:
        stale = self.stale_since(row.owner, row.owner_id) is not None
        return replace(row.declared, stale=True) if stale else row.declared


def _is_much(changes: Sequence[Change]) -> bool:
    size = sum(len(change.entry.value) for change in changes if change.entry)
    return len(changes) > _MANY or size > INLINE_BYTES


def _read(changes: Iterable[Change]) -> dict[str, _Outcome]:
    return {
        change.key: _row(change.key, change.entry)
        for change in changes
        if not change.key.startswith(OWNERS)
    }


def _row(key: str, entry: Entry | None) -> _Outcome:
    if entry is None:
        return None
    place = parse_key(key)
    if place is None:
        return "want a key of groups, crds or apiservices"
    try:
        record = decode(entry.value)
        declared = declared_by(place[0], record)
    except InvalidField as error:
        return f"{path_text(error.path)}: {error}"
    except (InvalidRecord, ValueError) as error:
        return str(error)
    return _row_of(*place, entry.revision, record, declared)


def _row_of(
    kind: RegistrationKind, name: str, revision: int, record: Record, declared: Declared
) -> Row:
    return Row(
        kind,
        name,
        revision,
        record.owner,
        record.owner_id,
        declared,
        record.by,
    )
