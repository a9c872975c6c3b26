"""Compares what two servers, releases or saved snapshots serve, for those who use the first."""

from collections.abc import Iterable, Iterator
from itertools import chain

from apidiscovery_client.model import CURRENT, Group, Resource, Snapshot, Version

from apidiscovery_cli.diffing.findings import Finding, Report, Rule
from apidiscovery_cli.diffing.knowledge import Names, Sides
from apidiscovery_cli.diffing.names import name_findings
from apidiscovery_cli.diffing.resources import compared_resources, compared_words


def compare(before: Snapshot, after: Snapshot, names: Names | None = None) -> Report:
    """Return what changes for clients of `before` when they meet `after`.

    Only what both sides can speak for is compared: parts and versions of which one does not know
    are told (as findings where the other does know), and never count as removed. Where one side is
    a release of Kubernetes, groups that no release has are left out. Fields that a side lacks, such
    as hashes of storage versions, are not compared.

    Args:
        before: What is there.
        after: What takes its place.
        names: What the report calls them; without, each is called by its server, which is the same
            for what was saved and what is there now.
    """
    names = names or Names(before.server, after.server)
    sides = Sides(before, after, names)
    findings = chain(sides.findings(), _groups(sides), name_findings(sides))
    return Report(names.before, names.after, tuple(findings), sides.doubts)


def _groups(sides: Sides) -> Iterator[Finding]:
    for group in sides.before.groups:
        if found := sides.group_after(group.name):
            yield from _versions(sides, group, found)
            yield from compared_words(sides, group, found)
        else:
            yield from _group_removed(sides, group)
    for group in sides.after.groups:
        if sides.group_before(group.name) is None:
            versions = ", ".join(version.name for version in group.versions)
            message = f"added with {versions or 'no versions'}"
            yield Finding(Rule.GROUP_ADDED, _group_name(group), message)


def _group_removed(sides: Sides, group: Group) -> Iterator[Finding]:
    current = [version for version in group.versions if version.freshness == CURRENT]
    if current or not group.versions:  # what was stale is in the doubts
        moves = sides.destinations.moves_of(_resources(current))
        versions = ", ".join(version.name for version in group.versions) or "no versions"
        message = f"removed, with {versions}{_and(moves.text)}"
        yield Finding(Rule.GROUP_REMOVED, _group_name(group), message, moves_to=moves.targets)


def _versions(sides: Sides, before: Group, after: Group) -> Iterator[Finding]:
    for version in before.versions:
        found = after.version(version.name)
        if found is None:
            yield from _version_removed(sides, version)
        elif sides.is_certain(version.gv):
            yield from compared_resources(version, found, sides.destinations)
        elif freshness := sides.freshness(version.gv):
            yield freshness
    for version in after.versions:
        if before.version(version.name) is None:
            kinds = ", ".join(resource.kind or resource.name for resource in version.resources)
            yield Finding(
                Rule.VERSION_ADDED, str(version.gv), f"added with {kinds or 'no resources'}"
            )
    yield from _preference(before, after)


def _version_removed(sides: Sides, version: Version) -> Iterator[Finding]:
    if version.freshness == CURRENT:
        moves = sides.destinations.moves_of(version.resources)
        message = f"removed{_and(moves.text)}"
        yield Finding(Rule.VERSION_REMOVED, str(version.gv), message, moves_to=moves.targets)


def _preference(before: Group, after: Group) -> Iterator[Finding]:
    was, now = before.preferred_version, after.preferred_version
    still = after.version(was)
    if was != now and still and still.freshness == CURRENT:
        yield Finding(
            Rule.PREFERRED_VERSION_CHANGED,
            _group_name(before),
            f"prefers {now}, and preferred {was}",
            was,
            now,
        )


def _resources(versions: Iterable[Version]) -> list[Resource]:
    """Return each resource once, in the most preferred version."""
    found: dict[str, Resource] = {}
    for version in versions:
        for resource in version.resources:
            found.setdefault(resource.name, resource)
    return list(found.values())


def _group_name(group: Group) -> str:
    return group.name or "core"


def _and(text: str) -> str:
    return f": {text}" if text else ""
