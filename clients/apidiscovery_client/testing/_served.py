"""What a fake API server is made of, and how that changes."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from apidiscovery_client.model import Group, GroupVersion, Snapshot, Version
from apidiscovery_client.testing.building import builtin_groups

# Groups, a snapshot, or the file of a saved one.
Serves: TypeAlias = Iterable[Group] | Snapshot | str | os.PathLike[str]


def read_groups(serves: Serves | None) -> tuple[Group, ...]:
    """Return the groups of it; of None those that are built into Kubernetes."""
    if serves is None:
        return builtin_groups()
    if isinstance(serves, Snapshot):
        return serves.groups
    if isinstance(serves, (str, os.PathLike)):
        from apidiscovery_client.snapshots.file import load  # noqa: PLC0415 - only for saved ones

        path = Path(serves)
        return load(path.read_bytes(), str(path)).groups
    return tuple(serves)


def added(groups: tuple[Group, ...], more: Iterable[Group]) -> tuple[Group, ...]:
    """Return the groups with more, whose versions come first in a group that is there."""
    merged = {group.name: group for group in groups}
    for group in more:
        before = merged.get(group.name)
        merged[group.name] = _merged(before, group) if before else group
    return tuple(merged.values())


def _merged(before: Group, group: Group) -> Group:
    new: dict[str, Version] = {version.name: version for version in group.versions}
    kept = tuple(version for version in before.versions if version.name not in new)
    return replace(before, versions=(*new.values(), *kept), stated_preference="")


def removed(groups: tuple[Group, ...], gvs: set[GroupVersion]) -> tuple[Group, ...]:
    """Return the groups without these versions, and without those that have no other."""
    left = (
        replace(group, versions=tuple(found for found in group.versions if found.gv not in gvs))
        for group in groups
    )
    return tuple(group for group in left if group.versions)
