"""What DiscoveryService answers, whichever stubs read it, and how that changes what is held."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._reading import retained
from apidiscovery_client._reading.parsed import STALE
from apidiscovery_client.model import CURRENT, Current, Group, GroupVersion, Snapshot, Version

SERVICE = "apidiscovery.service.v1.DiscoveryService"

Message: TypeAlias = Any  # of one family of stubs; the other one has classes of its own


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything that is served.

    Attributes:
        at: When it came.
        etag: Of all together.
        groups: The core group first.
        hashes: Of each group, in the same order; empty when the server told none.
    """

    at: datetime
    etag: str
    groups: tuple[Group, ...]
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Changed:
    """A group that is new, or not as it was.

    Attributes:
        name: As the difference has it.
        position: Among the named groups, or among the core ones if it is of those.
        group: What it is now.
    """

    name: str
    hash: str
    position: int
    group: Group


@dataclass(frozen=True, slots=True)
class Difference:
    """What leads from the groups that are known to those that are served.

    Attributes:
        changed: In ascending order of position, the core group before the named ones.
        hashes: Of each group once this is applied, in order; None when the server does not tell,
            as in a watch.
    """

    at: datetime
    etag: str
    changed: Sequence[Changed]
    removed: Sequence[str]
    hashes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """What is known is what is served."""

    at: datetime
    etag: str


Answer: TypeAlias = Whole | Difference | Same


@dataclass(frozen=True, slots=True)
class Source:
    """Where some of what is served comes from.

    Attributes:
        since: When it became as it is; None when the server does not know.
        error: Why it is stale; empty when it is not.
        serves: The group-versions that are served from it.
    """

    name: str
    since: datetime | None
    error: str
    serves: frozenset[GroupVersion]


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources; none where they could not be had."""

    all: tuple[Source, ...] = ()


class InconsistentError(ValueError):
    """An answer does not fit what is held, or contradicts itself."""


class Messages(Protocol):
    """Writes requests and reads answers of one family of stubs.

    What reads raises `UnreadableError` for an answer that has no result, or a group without names.
    """

    def get_request(self, etag: str, known: Mapping[str, str] | None) -> Message:
        """Return what asks for all, or for the difference to the groups with these hashes."""
        ...

    def watch_request(self, known: Mapping[str, str], heartbeat_s: float) -> Message:
        """Return what asks for the difference to these, and for all that come after it."""
        ...

    def sources_request(self) -> Message:
        """Return what asks for the sources."""
        ...

    def answer(self, message: Message, at: datetime) -> Answer:
        """Return what the answer of GetDiscovery says."""
        ...

    def event(self, message: Message, at: datetime) -> Answer:
        """Return what a message of WatchDiscovery says."""
        ...

    def sources(self, message: Message) -> Sources:
        """Return what the answer of ListSources says."""
        ...


def known_hashes(fetched: FetchedSnapshot | None) -> Mapping[str, str] | None:
    """Return the hashes of exactly the groups that are held; None when they cannot be told."""
    if fetched is None or not fetched.hashes:
        return None
    groups = fetched.snapshot.groups
    names = [group.name for group in groups]
    if sorted(names) != sorted(fetched.hashes) or any(map(_is_doubted, groups)):
        return None
    return fetched.hashes


def _is_doubted(group: Group) -> bool:
    """Whether something else than the server said that a version is not current."""
    return any(
        version.freshness != CURRENT and version.stated_freshness not in ("", STALE)
        for version in group.versions
    )


def same(fetched: FetchedSnapshot | None, answer: Same) -> FetchedSnapshot:
    """Return what is held, as of now.

    Raises:
        InconsistentError: Nothing is held, or something else.
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
    """Return the groups that an answer tells or leads to; those that it does not touch as they are.

    Raises:
        InconsistentError: That makes no sense.
    """
    groups = answer.groups if isinstance(answer, Whole) else _patched(known, answer)
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise InconsistentError(f"it has a group twice: {', '.join(sorted(names))}")
    told = answer.hashes
    # Without any hash a whole document can be used all the same, a difference cannot be checked.
    is_bare = isinstance(answer, Whole) and not told
    if told is not None and not is_bare and list(told) != names:
        raise InconsistentError(
            f"it has hashes for the groups {_quoted(told)}, but leads to {_quoted(names)}"
        )
    return groups


def hashes(
    answer: Whole | Difference, groups: Iterable[Group], fetched: FetchedSnapshot | None
) -> dict[str, str]:
    """Return the hash of each group, in order, once an answer is applied to what is held."""
    if answer.hashes is not None:
        return dict(answer.hashes)
    now = {
        **(fetched.hashes if fetched else {}),
        **{change.name: change.hash for change in answer.changed},
    }
    return {group.name: now[group.name] for group in groups if group.name in now}


def troubled(groups: Iterable[Group], known: Iterable[Group]) -> bool:
    """Whether a version is not current in one of the groups that are not known as they are."""
    seen = set(map(id, known))
    fresh = (group for group in groups if id(group) not in seen)
    return any(version.freshness != CURRENT for group in fresh for version in group.versions)


def explained(
    groups: Iterable[Group], known: Iterable[Group], sources: Sources
) -> tuple[Group, ...]:
    """Return the groups with what the sources tell of versions that are not current.

    Those that are known as they are were explained when they came.
    """
    told = {gv: source for source in sources.all for gv in source.serves}
    seen = set(map(id, known))
    return tuple(group if id(group) in seen else _explained_group(group, told) for group in groups)


def settled(groups: tuple[Group, ...], before: tuple[Group, ...] | None) -> tuple[Group, ...]:
    """Return the groups with what was known before, and the same objects for what is the same."""
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
    is_same = len(result) == len(before) and all(map(_is, result, before))
    return before if is_same else tuple(result)


def snapshot_of(
    server: str, answer: Whole | Difference, groups: tuple[Group, ...], known: Mapping[str, str]
) -> FetchedSnapshot:
    """Return what is held once an answer is taken in."""
    return FetchedSnapshot(
        snapshot=Snapshot(groups=groups, server=server, checked_at=answer.at),
        etags={"": answer.etag} if answer.etag else {},
        hashes=known,
    )


def _is(one: Group, other: Group) -> bool:
    return one is other


def _patched(known: Sequence[Group], difference: Difference) -> tuple[Group, ...]:
    """Return the groups that are known with the difference applied, as discovery.proto tells."""
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
    # The clock of the server may be ahead of ours.
    since = min(source.since or freshness.since, freshness.since)
    error = " ".join(source.error.split())
    reason = f"{source.name}: {error}" if error else freshness.reason
    return replace(version, freshness=replace(freshness, since=since, reason=reason))


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
