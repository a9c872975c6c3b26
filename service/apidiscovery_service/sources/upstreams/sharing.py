"""Holds equal content of upstreams once.

A process has the groups of an upstream several times: as its poller knows them, as the follower
reads them from the store, and as lists were compared with them. The clusters of a fleet serve the
same groups, too. Equal versions are therefore one object, which lives as long as anybody uses it.
"""

from collections.abc import Iterable
from weakref import WeakValueDictionary

from apidiscovery_service.core.model import Group, Version

# By the hash of their content.
_versions: WeakValueDictionary[int, Version] = WeakValueDictionary()


def shared_version(version: Version) -> Version:
    """Return the equal version that is in use, or this one for later callers; thread-safe."""
    held = _versions.setdefault(hash(version), version)
    # Unequal content with an equal hash is not shared.
    return held if held == version else version


def shared_groups(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return groups with shared versions."""
    return tuple(
        Group(group.name, tuple([shared_version(version) for version in group.versions]))
        for group in groups
    )
