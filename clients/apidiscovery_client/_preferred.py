"""Which version of each resource a server prefers, as kubectl chooses it."""

from apidiscovery_client._documents import Discovery, GroupVersion, Resource


def preferred_resources(
    discovery: Discovery,
) -> tuple[tuple[GroupVersion, tuple[Resource, ...]], ...]:
    """Return the group-versions in discovery order, each with the resources preferred from it.

    A resource is taken from its group's preferred version, or where that lacks it from the first
    version that has it. Subresources are left out. A group-version may be left with no resource.
    Source: client-go discovery/discovery_client.go `ServerPreferredResources`.
    """
    chosen: dict[tuple[str, str], tuple[GroupVersion, Resource]] = {}
    for group in discovery.groups:
        for gv in group.group_versions:
            for resource in discovery.resources.get(gv, ()):
                key = group.name, resource.name
                is_preferred = gv.version == group.preferred_version
                if "/" not in resource.name and (is_preferred or key not in chosen):
                    chosen[key] = gv, resource
    lists: dict[GroupVersion, list[Resource]] = {
        gv: [] for group in discovery.groups for gv in group.group_versions
    }
    for gv, resource in chosen.values():
        lists[gv].append(resource)
    return tuple((gv, tuple(resources)) for gv, resources in lists.items())
