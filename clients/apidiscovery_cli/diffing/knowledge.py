"""What each of two sides can speak for: nothing is a removal that is only not known."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from apidiscovery_client.model import (
    CURRENT,
    Current,
    Freshness,
    Group,
    GroupVersion,
    Snapshot,
    Stale,
    Version,
    path_of,
)
from apidiscovery_client.snapshots.releases import PREFIX, known_groups

from apidiscovery_cli.diffing.findings import Doubt, Finding, Rule
from apidiscovery_cli.diffing.moves import Destinations


@dataclass(frozen=True, slots=True)
class Names:
    """What two sides are called in a report."""

    before: str
    after: str


class Sides:
    """Two snapshots, without the groups that one of them cannot speak for.

    Args:
        before: The first.
        after: The second.
        names: What they are called where they are told of.

    Attributes:
        before: The first.
        after: The second.
        names: What they are called.
        doubts: What was left out, or is not certain on both sides.
    """

    def __init__(self, before: Snapshot, after: Snapshot, names: Names) -> None:
        self.names = names
        self._whole = (before, after)
        foreign = _foreign(before, after)
        self._lost = {*before.failures, *after.failures}
        self.before, self.after = (
            _only(side, lambda group: group.name not in foreign and not self.is_lost(group.name))
            for side in (before, after)
        )
        self._by_name = tuple(
            {group.name: group for group in reversed(side.groups)}
            for side in (self.before, self.after)
        )
        self.destinations = Destinations(self.after)
        self.doubts = (*self._common_doubts(), *self._foreign_doubts(foreign))

    def group_before(self, name: str) -> Group | None:
        """Return a group of the first, as `Snapshot.group` does, and at once."""
        return self._by_name[0].get(name)

    def group_after(self, name: str) -> Group | None:
        """Return a group of the second, as `Snapshot.group` does, and at once."""
        return self._by_name[1].get(name)

    def version_before(self, gv: GroupVersion) -> Version | None:
        """Return a version of the first, as `Snapshot.version` does, and at once."""
        group = self.group_before(gv.group)
        return group.version(gv.version) if group else None

    def version_after(self, gv: GroupVersion) -> Version | None:
        """Return a version of the second, as `Snapshot.version` does, and at once."""
        group = self.group_after(gv.group)
        return group.version(gv.version) if group else None

    def is_lost(self, group: str) -> bool:
        """Whether one of the sides could not tell the part that this group is in."""
        return path_of(group) in self._lost

    def is_doubtful(self, group: str) -> bool:
        """Whether one of the sides cannot speak for all versions of a group."""
        return any(
            version.freshness != CURRENT
            for found in (self.group_before(group), self.group_after(group))
            if found
            for version in found.versions
        )

    def is_certain(self, gv: GroupVersion) -> bool:
        """Whether both sides that have a group-version can speak for it."""
        found = (self.version_before(gv), self.version_after(gv))
        return all(version is None or version.freshness == CURRENT for version in found)

    def findings(self) -> Iterator[Finding]:
        """Yield where one side knows less than the other."""
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
        """Return that one side can speak for a group-version that both have, the other not."""
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
    """Return the groups of which a release cannot say anything, where one side is a release."""
    if not any(side.server.startswith(PREFIX) for side in sides):
        return frozenset()
    return frozenset(group.name for side in sides for group in side.groups) - known_groups()


def _told(freshness: Freshness) -> str:
    if isinstance(freshness, Current):
        return "is current"
    word = "stale" if isinstance(freshness, Stale) else "unknown"
    return f"is {word} ({freshness.reason})"
