"""What kubectl would see in a snapshot: only what is current, and an error for the rest.

Source: client-go discovery/aggregated_discovery.go `convertAPIGroup`, `convertAPIResource`.
"""

from collections.abc import Iterable, Iterator

from apidiscovery_client._reading.staleness import STALE
from apidiscovery_client.model import (
    CURRENT,
    Current,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Version,
)


def listed_versions(group: Group) -> tuple[Version, ...]:
    """Return the versions of a group but those that the server itself calls stale.

    One whose own document could not be had is among them, without resources.
    """
    return tuple(version for version in group.versions if version.stated_freshness != STALE)


def listed_resources(version: Version) -> tuple[Resource, ...]:
    """Return the resources of a current version, but those of no kind; of another one nothing."""
    if version.freshness != CURRENT:
        return ()
    return tuple(
        resource
        for resource in version.resources
        if resource.response_kind not in (None, GroupVersionKind("", "", ""))
    )


def all_resources(snapshot: Snapshot) -> Iterator[tuple[GroupVersion, Resource]]:
    """Yield every listed resource with its group-version, in order of preference."""
    for group in snapshot.groups:
        for version in listed_versions(group):
            for resource in listed_resources(version):
                yield version.gv, resource


def failures(snapshot: Snapshot) -> dict[str, str]:
    """Return why group-versions, or `/api` as a whole, could not be discovered, by name."""
    return _reasons(snapshot.troubled) | dict(snapshot.failures)


def failures_of_groups(snapshot: Snapshot) -> dict[str, str]:
    """Return the same apart from documents of one group-version, which need not be had."""
    told = (version for version in snapshot.troubled if version.stated_freshness)
    return _reasons(told) | dict(snapshot.failures)


def _reasons(versions: Iterable[Version]) -> dict[str, str]:
    return {
        str(version.gv): version.freshness.reason
        for version in versions
        if not isinstance(version.freshness, Current)
    }
