"""Whether all API servers that store a resource write it in one version, and since when.

The rules are those of k8s.io/apiserver pkg/storageversion/updater.go, `localUpdateStorageVersion`,
`SetCommonEncodingVersion` and `setStatusCondition`, but for the clock: a transition is always told
to be later than the one before it. So two moments with the same common version and the same
transition time had no transition between them, however far the clocks of replicas are apart.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

ALL_ENCODING_VERSIONS_EQUAL = "AllEncodingVersionsEqual"

# The lastTransitionTime of a Kubernetes condition has no fractions of a second.
_TICK = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """What one API server does with a resource that it stores.

    Attributes:
        api_server_id: Its identity.
        encoding_version: The version in which it writes.
        decodable_versions: Those that it can read, in its own order.
        served_versions: Those that it serves, in its own order.
    """

    api_server_id: str
    encoding_version: str
    decodable_versions: tuple[str, ...] = ()
    served_versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that is said of a StorageVersion.

    Attributes:
        type: Such as `AllEncodingVersionsEqual`.
        status: `True`, `False` or `Unknown`.
        reason: For programs.
        message: For people.
        observed_generation: Generation of the object of which it was said.
        last_transition_time: Since when, in UTC and whole seconds; None when that is not told.
    """

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of the storage versions of one resource.

    Attributes:
        entries: At most one of each API server, in the order in which they first reported.
        common_encoding_version: What all of them write; None when they differ or there is none.
        conditions: At most one of each type, in the order in which they were first said.
    """

    entries: tuple[Entry, ...] = ()
    common_encoding_version: str | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def condition(self) -> Condition | None:
        """The condition that says whether all write the same version; None when it is not there."""
        found = (c for c in self.conditions if c.type == ALL_ENCODING_VERSIONS_EQUAL)
        return next(found, None)

    @property
    def agreed(self) -> bool:
        """Whether there are entries, and all write the same version."""
        return len({entry.encoding_version for entry in self.entries}) == 1


def reported(
    status: Status, entry: Entry, *, generation: int, now: datetime, gone: Collection[str] = ()
) -> Status:
    """Return the status after a report.

    Args:
        status: As it was.
        entry: Takes the place of the former one of its API server, or is the last.
        generation: Of the object.
        now: In UTC; fractions of a second are dropped.
        gone: Identities of API servers whose entries are removed with the same change.

    Returns:
        Equal to `status` if that said all this already.
    """
    kept = [e for e in status.entries if e.api_server_id not in gone]
    ids = [e.api_server_id for e in kept]
    if entry.api_server_id not in ids:
        return _agreeing(status, (*kept, entry), generation, now)
    place = ids.index(entry.api_server_id)
    others = tuple(e for e in kept[place + 1 :] if e.api_server_id != entry.api_server_id)
    return _agreeing(status, (*kept[:place], entry, *others), generation, now)


def without(
    status: Status, api_server_ids: Collection[str], *, generation: int, now: datetime
) -> Status:
    """Return the status without the entries of some API servers.

    Returns:
        With no common version if it had no others. The condition is said anew in any case.
    """
    kept = tuple(e for e in status.entries if e.api_server_id not in api_server_ids)
    return _agreeing(status, kept, generation, now)


def _agreeing(status: Status, entries: tuple[Entry, ...], generation: int, now: datetime) -> Status:
    """Return the status with other entries, and with what follows from them."""
    versions = {entry.encoding_version for entry in entries}
    common = versions.pop() if len(versions) == 1 else None
    said = _said(common, generation)
    before = status.condition
    if before is None:
        conditions = (*status.conditions, replace(said, last_transition_time=_whole(now)))
    else:
        has_moved = _has_moved(status.common_encoding_version, before, common, said)
        since = _later(before.last_transition_time, now) if has_moved else None
        said = replace(said, last_transition_time=since or before.last_transition_time)
        conditions = tuple(said if c is before else c for c in status.conditions)
    return Status(entries, common, conditions)


def _said(common: str | None, generation: int) -> Condition:
    word, status = ("Unset", "False") if common is None else ("Set", "True")
    return Condition(
        ALL_ENCODING_VERSIONS_EQUAL,
        status,
        f"CommonEncodingVersion{word}",
        f"Common encoding version {word.lower()}",
        generation,
    )


def _has_moved(
    old_common: str | None, before: Condition, common: str | None, said: Condition
) -> bool:
    is_replaced = old_common is not None and common is not None and old_common != common
    return is_replaced or before.status != said.status


def _later(before: datetime | None, now: datetime) -> datetime:
    """Return now, or a second after the former moment if that is later still."""
    if before is None:
        return _whole(now)
    try:
        return max(_whole(now), before + _TICK)
    except OverflowError:  # the end of the year 9999: nothing is later
        return before


def _whole(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)
