"""The resources that kubectl lists: the current ones, in preferred versions, selected.

Source: client-go discovery/aggregated_discovery.go `convertAPIGroup`, `convertAPIResource`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from apidiscovery_client._reading.parsed import STALE
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
    """Return the versions of a group, except those that the server marks as stale.

    A version whose own document failed is among them, without resources.
    """
    return tuple(version for version in group.versions if version.stated_freshness != STALE)


def listed_resources(version: Version) -> tuple[Resource, ...]:
    """Return the resources of a current version that have a kind; none of other versions."""
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
    """Return the same without failures of documents of single group-versions."""
    told = (version for version in snapshot.troubled if version.stated_freshness)
    return _reasons(told) | dict(snapshot.failures)


def _reasons(versions: Iterable[Version]) -> dict[str, str]:
    return {
        str(version.gv): version.freshness.reason
        for version in versions
        if not isinstance(version.freshness, Current)
    }


def preferred_resources(
    snapshot: Snapshot,
) -> tuple[tuple[GroupVersion, tuple[Resource, ...]], ...]:
    """Return the group-versions in discovery order, each with the resources preferred from it.

    A resource is taken from its group's preferred version, or where that lacks it from the first
    version that has it. A group-version may be left with no resource.
    Source: client-go discovery/discovery_client.go `ServerPreferredResources`.
    """
    chosen: dict[tuple[str, str], Resource] = {}
    lists: dict[GroupVersion, list[Resource]] = {}
    for group in snapshot.groups:
        for version in listed_versions(group):
            lists[version.gv] = []
            is_preferred = version.name == group.preferred_version
            for resource in listed_resources(version):
                key = group.name, resource.name
                if "/" not in resource.name and (is_preferred or key not in chosen):
                    chosen[key] = resource
    for resource in chosen.values():
        lists[resource.gv].append(resource)
    return tuple((gv, tuple(resources)) for gv, resources in lists.items())


SORT_KEYS: Mapping[str, Callable[[Resource], str]] = {
    "": lambda resource: resource.gv.group,
    "name": lambda resource: resource.name,
    "kind": lambda resource: resource.kind,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which resources to keep.

    Attributes:
        api_group: Empty is the core group, None any.
        namespaced: None is either.
        verbs: All of them must be supported.
        categories: The resource must be in all of them.
    """

    api_group: str | None = None
    namespaced: bool | None = None
    verbs: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def has(self, resource: Resource) -> bool:
        """Return whether a resource is kept; one without verbs never is."""
        return (
            bool(resource.verbs)
            and self.api_group in (None, resource.gv.group)
            and self.namespaced in (None, resource.is_namespaced)
            and set(self.verbs) <= set(resource.verbs)
            and set(self.categories) <= set(resource.categories)
        )


def select(snapshot: Snapshot, selection: Selection, sort_by: str = "") -> list[Resource]:
    """Return the preferred resources that are selected.

    Sorted by the key of `SORT_KEYS`, then by name, then in discovery order.
    """
    value = SORT_KEYS[sort_by]
    return sorted(
        (
            resource
            for _, resources in preferred_resources(snapshot)
            for resource in resources
            if selection.has(resource)
        ),
        key=lambda resource: (value(resource), resource.name),
    )
