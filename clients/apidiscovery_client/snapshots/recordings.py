"""The groups that a recorded release of Kubernetes served, as clients read them."""

import functools
from dataclasses import replace
from datetime import UTC, datetime

from apidiscovery_formats.media_types import JSON, aggregated
from apidiscovery_releases import Release

from apidiscovery_client._reading import read_document, read_resources
from apidiscovery_client.model import PATHS, DiscoveryPath, Group, Resource, Version

UNTIMED = datetime.fromtimestamp(0, UTC)  # releases have no time, and equal ones are to be equal


@functools.cache
def recorded_groups(release: Release) -> tuple[Group, ...]:
    """Return all groups of a release in its order, with the hashes of storage versions.

    They are read from the aggregated documents, or where the release has none (1.26 and older) from
    the lists. What a document says of itself, such as the `creationTimestamp` of groups, is left
    out.
    """
    return tuple(
        _complete(release, group)
        for path in PATHS
        for group in read_document(path, *_answer(release, path), UNTIMED).groups
    )


def _answer(release: Release, path: DiscoveryPath) -> tuple[str, bytes]:
    """Return Content-Type and body of the best answer of a release."""
    if not release.aggregated_versions:
        return JSON, release.plain(path)
    version = release.aggregated_versions[0]
    return aggregated(JSON, version), release.aggregated(path, version)


def _complete(release: Release, group: Group) -> Group:
    """Return a group with what only the lists tell of it."""
    return Group(group.name, tuple(_listed(release, version) for version in group.versions))


def _listed(release: Release, version: Version) -> Version:
    listed = read_resources(version.gv, JSON, release.plain(version.gv.path))
    if not release.aggregated_versions:
        return Version(version.gv, listed, stated_freshness="Current")
    hashes = {resource.name: resource.storage_version_hash for resource in listed}
    return replace(version, resources=tuple(_hashed(one, hashes) for one in version.resources))


def _hashed(resource: Resource, hashes: dict[str, str]) -> Resource:
    return replace(resource, storage_version_hash=hashes.get(resource.name, ""))
