"""The two sides of a comparison: what each of them knows, and where removed resources moved.

A resource is not removed where a side could not be asked for it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from apidiscovery_client.diffing.findings import Doubt, Finding, Rule
from apidiscovery_client.model import (
    CURRENT,
    Current,
    Freshness,
    Group,
    GroupVersion,
    Resource,
    Snapshot,
    Stale,
    Version,
    path_of,
)
from apidiscovery_client.snapshots.releases import PREFIX, known_groups


@dataclass(frozen=True, slots=True)
class Moves:
    """Where removed resources are served now.

    Attributes:
        text: For a message; empty when there were no resources.
        targets: The group-versions that serve some of them, in order, without duplicates.
    """

    text: str
    targets: tuple[str, ...]


class Destinations:
    """The group-versions that serve each kind of a snapshot."""

    def __init__(self, after: Snapshot) -> None:
        self._found: dict[tuple[str, str], list[Resource]] = {}
        for version in after.versions:
            if version.freshness == CURRENT:
                for resource in version.resources:
                    self._found.setdefault((resource.kind, resource.name), []).append(resource)

    def moves_of(self, resources: Iterable[Resource]) -> Moves:
        """Return where the kinds of removed resources are served now."""
        kinds: dict[str, list[str]] = {}
        for resource in resources:
            found = self.of(resource)
            name = resource.kind or resource.name
            kinds.setdefault(str(found.gv) if found else "", []).append(name)
        gone = kinds.pop("", [])
        told = [f"{_list(names)} {_s(names, 'move')} to {gv}" for gv, names in kinds.items()]
        if gone:
            told.append(f"{_list(gone)} {'is' if len(gone) == 1 else 'are'} not served any more")
        return Moves("; ".join(told), tuple(kinds))

    def of(self, resource: Resource) -> Resource | None:
        """Return the resource that serves the same objects; None for none.

        In its own group that is the same kind in the most preferred version that has it. Another
        group counts only where both are groups of Kubernetes, as elsewhere equal names mean
        nothing.
        """
        candidates = self._found.get((resource.kind, resource.name), [])
        own = (found for found in candidates if found.gv.group == resource.gv.group)
        if nearest := next(own, None):
            return nearest
        if not candidates or resource.gv.group not in known_groups():
            return None
        return next((found for found in candidates if found.gv.group in known_groups()), None)


def _list(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _s(names: list[str], verb: str) -> str:
    return f"{verb}s" if len(set(names)) == 1 else verb


@dataclass(frozen=True, slots=True)
class Names:
    """The names of two sides in a report."""

    before: str
    after: str


class Sides:
    """Two snapshots, without the groups that one of them cannot know.

    Attributes:
        before: The first.
        after: The second.
        names: Their names.
        doubts: What was left out, or is unknown on both sides.
    """

    def __init__(self, before: Snapshot, after: Snapshot, names: Names) -> None:
        self.names = names
        self._whole = (before, after)
        foreign = _foreign(before, after)
        self._unread = {*before.failures, *after.failures}
        self.before, self.after = (
            _only(side, lambda group: group.name not in foreign and not self.is_unread(group.name))
            for side in (before, after)
        )
        self._by_name = tuple(
            {group.name: group for group in reversed(side.groups)}
            for side in (self.before, self.after)
        )
        self.destinations = Destinations(self.after)
        self.doubts = (*self._common_doubts(), *self._foreign_doubts(foreign))

    def group_before(self, name: str) -> Group | None:
        """Return a group of the first side as `Snapshot.group` does, in constant time."""
        return self._by_name[0].get(name)

    def group_after(self, name: str) -> Group | None:
        """Return a group of the second side; see `group_before`."""
        return self._by_name[1].get(name)

    def version_before(self, gv: GroupVersion) -> Version | None:
        """Return a version of the first side as `Snapshot.version` does."""
        group = self.group_before(gv.group)
        return group.version(gv.version) if group else None

    def version_after(self, gv: GroupVersion) -> Version | None:
        """Return a version of the second side as `Snapshot.version` does."""
        group = self.group_after(gv.group)
        return group.version(gv.version) if group else None

    def is_unread(self, group: str) -> bool:
        """Return whether one side failed to read the part that this group is in."""
        return path_of(group) in self._unread

    def is_doubtful(self, group: str) -> bool:
        """Return whether a version of a group is not current on one side."""
        return any(
            version.freshness != CURRENT
            for found in (self.group_before(group), self.group_after(group))
            if found
            for version in found.versions
        )

    def is_certain(self, gv: GroupVersion) -> bool:
        """Return whether a group-version is current on each side that has it."""
        found = (self.version_before(gv), self.version_after(gv))
        return all(version is None or version.freshness == CURRENT for version in found)

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about parts that only one side knows."""
        before, after = self._whole
        for path in sorted(before.failures.keys() ^ after.failures.keys()):
            if path in before.failures:
                message = f"{self.names.before} cannot tell it: {before.failures[path]}"
            else:
                message = f"{self.names.after} cannot tell it: {after.failures[path]}"
            yield Finding(Rule.PART_UNKNOWN, path, message)
        if type(before.freshness) is not type(after.freshness):
            message = f"{self.names.before} {_told(before.freshness)}; "
            message += f"{self.names.after} {_told(after.freshness)}"
            yield Finding(Rule.FRESHNESS_CHANGED, "the whole", message)

    def freshness(self, gv: GroupVersion) -> Finding | None:
        """Return the finding that a group-version of both sides is current on one side only."""
        one, other = self.version_before(gv), self.version_after(gv)
        if one is None or other is None or type(one.freshness) is type(other.freshness):
            return None
        message = f"it {_told(other.freshness)} now, and {_told(one.freshness)} before"
        return Finding(Rule.FRESHNESS_CHANGED, str(gv), message)

    def _common_doubts(self) -> Iterator[Doubt]:
        before, after = self._whole
        for path in sorted(before.failures.keys() & after.failures.keys()):
            yield Doubt(path, f"neither side can tell it: {after.failures[path]}")
        for version in self.after.troubled:
            yield Doubt(str(version.gv), f"{self.names.after}: it {_told(version.freshness)}")
        for version in self.before.troubled:
            yield Doubt(str(version.gv), f"{self.names.before}: it {_told(version.freshness)}")

    def _foreign_doubts(self, foreign: frozenset[str]) -> Iterator[Doubt]:
        is_before = self._whole[0].server.startswith(PREFIX)
        release = self.names.before if is_before else self.names.after
        for name in sorted(foreign):
            yield Doubt(name, f"{release} does not tell of groups that Kubernetes does not have")


def _only(side: Snapshot, wanted: Callable[[Group], bool]) -> Snapshot:
    return replace(side, groups=tuple(group for group in side.groups if wanted(group)))


def _foreign(*sides: Snapshot) -> frozenset[str]:
    """Return the groups outside Kubernetes where one side is a release, which lists none."""
    if not any(side.server.startswith(PREFIX) for side in sides):
        return frozenset()
    return frozenset(group.name for side in sides for group in side.groups) - known_groups()


def _told(freshness: Freshness) -> str:
    if isinstance(freshness, Current):
        return "is current"
    word = "stale" if isinstance(freshness, Stale) else "unknown"
    return f"is {word} ({freshness.reason})"
