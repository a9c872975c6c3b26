"""The answers of DiscoveryService, for all stubs, and how they change a snapshot."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._reading import retained
from apidiscovery_client._reading.parsed import STALE
from apidiscovery_client.model import CURRENT, Current, Group, GroupVersion, Snapshot, Version

SERVICE = "apidiscovery.service.v1.DiscoveryService"

Message: TypeAlias = Any  # of either family of stubs


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything that is served.

    Attributes:
        at: The time of the answer.
        etag: Of all groups together.
        groups: The core group first.
        hashes: Of each group, in the same order; empty when the server sent none.
    """

    at: datetime
    etag: str
    groups: tuple[Group, ...]
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Changed:
    """A group that was added or changed.

    Attributes:
        name: The name in the difference.
        position: Among the named groups, or among the core ones.
        group: Its new content.
    """

    name: str
    hash: str
    position: int
    group: Group


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes from the known groups to those that are served.

    Attributes:
        changed: In ascending order of position, the core group before the named ones.
        hashes: Of each group after the changes, in order; None when the server does not send
            them, as in a watch.
    """

    at: datetime
    etag: str
    changed: Sequence[Changed]
    removed: Sequence[str]
    hashes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """Nothing has changed."""

    at: datetime
    etag: str


Answer: TypeAlias = Whole | Difference | Same


@dataclass(frozen=True, slots=True)
class Source:
    """A source of the server.

    Attributes:
        since: The time of its last change of state; None when the server does not know.
        error: Why it is stale; empty when it is not.
        serves: The group-versions that are served from it.
    """

    name: str
    since: datetime | None
    error: str
    serves: frozenset[GroupVersion]


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources; empty where they are not available."""

    all: tuple[Source, ...] = ()


class InconsistentError(ValueError):
    """An answer contradicts earlier ones or itself."""


def known_hashes(fetched: FetchedSnapshot | None) -> Mapping[str, str] | None:
    """Return the hashes of the groups of a snapshot; None when they are not all known."""
    if fetched is None or not fetched.hashes:
        return None
    groups = fetched.snapshot.groups
    names = [group.name for group in groups]
    if sorted(names) != sorted(fetched.hashes) or any(map(_is_doubted, groups)):
        return None
    return fetched.hashes


def _is_doubted(group: Group) -> bool:
    """Whether a version is not current for another reason than the server's statement."""
    return any(
        version.freshness != CURRENT and version.stated_freshness not in ("", STALE)
        for version in group.versions
    )


def same(fetched: FetchedSnapshot | None, answer: Same) -> FetchedSnapshot:
    """Return the snapshot, checked now.

    Raises:
        InconsistentError: There is no snapshot, or it has another ETag.
    """
    if fetched is None:
        raise InconsistentError("it says that nothing has changed, to a caller that knows nothing")
    if fetched.etags.get("", answer.etag) != answer.etag:
        raise InconsistentError(
            "it says that nothing has changed, and names another ETag than before"
        )
    snapshot = replace(fetched.snapshot, checked_at=answer.at, freshness=CURRENT)
    return replace(fetched, snapshot=snapshot)


def listed(answer: Whole | Difference, known: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups after an answer; unchanged groups are the same objects.

    Raises:
        InconsistentError: The answer is inconsistent.
    """
    groups = answer.groups if isinstance(answer, Whole) else _patched(known, answer)
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise InconsistentError(f"it has a group twice: {', '.join(sorted(names))}")
    told = answer.hashes
    # A whole document can be used without hashes; a difference could not be verified.
    is_bare = isinstance(answer, Whole) and not told
    if told is not None and not is_bare and list(told) != names:
        raise InconsistentError(
            f"it has hashes for the groups {_quoted(told)}, but leads to {_quoted(names)}"
        )
    return groups


def hashes(
    answer: Whole | Difference, groups: Iterable[Group], fetched: FetchedSnapshot | None
) -> dict[str, str]:
    """Return the hash of each group, in order, after an answer."""
    if answer.hashes is not None:
        return dict(answer.hashes)
    now = {
        **(fetched.hashes if fetched else {}),
        **{change.name: change.hash for change in answer.changed},
    }
    return {group.name: now[group.name] for group in groups if group.name in now}


def troubled(groups: Iterable[Group], known: Iterable[Group]) -> bool:
    """Whether a version is not current in one of the groups that changed."""
    seen = set(map(id, known))
    fresh = (group for group in groups if id(group) not in seen)
    return any(version.freshness != CURRENT for group in fresh for version in group.versions)


def explained(
    groups: Iterable[Group], known: Iterable[Group], sources: Sources
) -> tuple[Group, ...]:
    """Return the groups with the reasons of the sources for versions that are not current.

    Unchanged groups already have their reasons.
    """
    told = {gv: source for source in sources.all for gv in source.serves}
    seen = set(map(id, known))
    return tuple(group if id(group) in seen else _explained_group(group, told) for group in groups)


def settled(groups: tuple[Group, ...], before: tuple[Group, ...] | None) -> tuple[Group, ...]:
    """Return the groups with retained resources, and the same objects for equal ones."""
    if before is None:
        return groups
    known = {group.name: group for group in before}
    fresh = tuple(group for group in groups if known.get(group.name) is not group)
    kept = iter(retained(fresh, before))
    result: list[Group] = []
    for group in groups:
        old = known.get(group.name)
        new = group if old is group else next(kept)
        result.append(old if old is not None and old == new else new)
    is_same = len(result) == len(before) and all(map(operator.is_, result, before))
    return before if is_same else tuple(result)


def snapshot_of(
    server: str, answer: Whole | Difference, groups: tuple[Group, ...], known: Mapping[str, str]
) -> FetchedSnapshot:
    """Return the result of an answer."""
    return FetchedSnapshot(
        snapshot=Snapshot(groups=groups, server=server, checked_at=answer.at),
        etags={"": answer.etag} if answer.etag else {},
        hashes=known,
    )


def _patched(known: Sequence[Group], difference: Difference) -> tuple[Group, ...]:
    """Return the known groups with a difference applied, as discovery.proto defines it."""
    names = {group.name for group in known}
    if stray := [name for name in difference.removed if name not in names]:
        raise InconsistentError(f"it removes groups that are not known: {_quoted(stray)}")
    gone = {*difference.removed, *(change.name for change in difference.changed)}
    kept = [group for group in known if group.name not in gone]
    core = [group for group in kept if not group.name]
    named = [group for group in kept if group.name]
    for change in difference.changed:
        _insert(named if change.name else core, change)
    return (*core, *named)


def _insert(groups: list[Group], change: Changed) -> None:
    if change.group.name != change.name:
        raise InconsistentError(
            f"it has group {change.group.name!r} under the name {change.name!r}"
        )
    if change.position > len(groups):
        raise InconsistentError(
            f"it puts group {change.name!r} at position {change.position} of {len(groups)}"
        )
    groups.insert(change.position, change.group)


def _explained_group(group: Group, told: Mapping[GroupVersion, Source]) -> Group:
    versions = tuple(_explained_version(version, told) for version in group.versions)
    if all(new is old for new, old in zip(versions, group.versions, strict=True)):
        return group
    return replace(group, versions=versions)


def _explained_version(version: Version, told: Mapping[GroupVersion, Source]) -> Version:
    freshness, source = version.freshness, told.get(version.gv)
    if isinstance(freshness, Current) or source is None:
        return version
    # The server's clock may be ahead of ours.
    since = min(source.since or freshness.since, freshness.since)
    error = " ".join(source.error.split())
    reason = f"{source.name}: {error}" if error else freshness.reason
    return replace(version, freshness=replace(freshness, since=since, reason=reason))


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
