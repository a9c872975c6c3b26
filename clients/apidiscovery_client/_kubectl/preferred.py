"""Which version of each resource a server prefers, as kubectl chooses it."""

from apidiscovery_client._kubectl.view import listed_resources, listed_versions
from apidiscovery_client.model import GroupVersion, Resource, Snapshot


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
