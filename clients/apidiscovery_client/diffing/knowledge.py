"""What each of two sides can speak for: nothing is a removal that is only not known."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from apidiscovery_client.diffing.findings import Doubt, Finding, Rule
from apidiscovery_client.halves import CORE, NAMED
from apidiscovery_client.model import (
    CURRENT,
    Current,
    Freshness,
    Group,
    GroupVersion,
    Snapshot,
    Stale,
)
from apidiscovery_client.snapshots.releases import PREFIX, known_groups


class Sides:
    """Two snapshots, without the groups that one of them cannot speak for.

    Attributes:
        before: The first.
        after: The second.
        doubts: What was left out, or is not certain on both sides.
    """

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self._whole = (before, after)
        foreign = _foreign(before, after)
        self._lost = {*before.failures, *after.failures}
        self.before, self.after = (
            _only(side, lambda group: group.name not in foreign and not self.is_lost(group.name))
            for side in (before, after)
        )
        self.doubts = (*self._common_doubts(), *_foreign_doubts(before, after, foreign))

    def is_lost(self, group: str) -> bool:
        """Whether one of the sides could not tell the part that this group is in."""
        return (NAMED if group else CORE) in self._lost

    def is_doubtful(self, group: str) -> bool:
        """Whether one of the sides cannot speak for all versions of a group."""
        return any(
            version.freshness != CURRENT
            for side in (self.before, self.after)
            if (found := side.group(group))
            for version in found.versions
        )

    def is_certain(self, gv: GroupVersion) -> bool:
        """Whether both sides that have a group-version can speak for it."""
        found = (side.version(gv) for side in (self.before, self.after))
        return all(version is None or version.freshness == CURRENT for version in found)

    def findings(self) -> Iterator[Finding]:
        """Yield where one side knows less than the other."""
        before, after = self._whole
        for path in sorted(before.failures.keys() ^ after.failures.keys()):
            side = before if path in before.failures else after
            message = f"{side.server} cannot tell it: {side.failures[path]}"
            yield Finding(Rule.PART_UNKNOWN, path, message)
        if type(before.freshness) is not type(after.freshness):
            message = f"{before.server} {_told(before.freshness)}; "
            message += f"{after.server} {_told(after.freshness)}"
            yield Finding(Rule.FRESHNESS_CHANGED, "the whole", message)

    def freshness(self, gv: GroupVersion) -> Finding | None:
        """Return that one side can speak for a group-version that both have, the other not."""
        one, other = self.before.version(gv), self.after.version(gv)
        if one is None or other is None or type(one.freshness) is type(other.freshness):
            return None
        message = f"it {_told(other.freshness)} now, and {_told(one.freshness)} before"
        return Finding(Rule.FRESHNESS_CHANGED, str(gv), message)

    def _common_doubts(self) -> Iterator[Doubt]:
        before, after = self._whole
        for path in sorted(before.failures.keys() & after.failures.keys()):
            yield Doubt(path, f"neither side can tell it: {after.failures[path]}")
        for version in self.after.troubled:
            yield Doubt(str(version.gv), f"{after.server}: it {_told(version.freshness)}")
        for version in self.before.troubled:
            yield Doubt(str(version.gv), f"{before.server}: it {_told(version.freshness)}")


def _only(side: Snapshot, wanted: Callable[[Group], bool]) -> Snapshot:
    return replace(side, groups=tuple(group for group in side.groups if wanted(group)))


def _foreign(*sides: Snapshot) -> frozenset[str]:
    """Return the groups of which a release cannot say anything, where one side is a release."""
    if not any(side.server.startswith(PREFIX) for side in sides):
        return frozenset()
    return frozenset(group.name for side in sides for group in side.groups) - known_groups()


def _foreign_doubts(before: Snapshot, after: Snapshot, foreign: frozenset[str]) -> Iterator[Doubt]:
    release = before if before.server.startswith(PREFIX) else after
    for name in sorted(foreign):
        yield Doubt(name, f"{release.server} does not tell of groups that Kubernetes does not have")


def _told(freshness: Freshness) -> str:
    if isinstance(freshness, Current):
        return "is current"
    word = "stale" if isinstance(freshness, Stale) else "unknown"
    return f"is {word} ({freshness.reason})"
