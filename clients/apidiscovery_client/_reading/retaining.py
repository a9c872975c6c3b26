"""Keeps what was known of versions of which a server tells nothing now."""

from collections.abc import Mapping
from dataclasses import replace

from apidiscovery_client.model import (
    Current,
    Group,
    GroupVersion,
    Stale,
    Version,
)


def retained(groups: tuple[Group, ...], before: tuple[Group, ...] | None) -> tuple[Group, ...]:
    """Return the groups with what `before` knew of the versions that are not current.

    A version without resources gets those that it had, and is `Stale` and `retained` then. A
    version that was not current before either keeps the time since when it is not.
    """
    if not before:
        return groups
    known = {version.gv: version for group in before for version in group.versions}
    return tuple(_retained_group(group, known) for group in groups)


def _retained_group(group: Group, known: Mapping[GroupVersion, Version]) -> Group:
    versions = tuple(_retained_version(version, known) for version in group.versions)
    if all(new is old for new, old in zip(versions, group.versions, strict=True)):
        return group
    return replace(group, versions=versions)


def _retained_version(version: Version, known: Mapping[GroupVersion, Version]) -> Version:
    before = known.get(version.gv)
    now = version.freshness
    if isinstance(now, Current) or before is None:
        return version
    since = now.since if isinstance(before.freshness, Current) else before.freshness.since
    if version.resources or not before.resources:
        return (
            version if since == now.since else replace(version, freshness=replace(now, since=since))
        )
    stale = Stale(since, now.reason, retained=True)
    return replace(version, resources=before.resources, freshness=stale)
