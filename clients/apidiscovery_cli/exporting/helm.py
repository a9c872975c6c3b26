"""Lists the API versions of a server as Helm's `.Capabilities.APIVersions` has them."""

from collections.abc import Iterator

from apidiscovery_client.model import CURRENT, GroupVersionKind, Resource, Snapshot

_NO_KIND = GroupVersionKind("", "", "")


def helm_api_versions(snapshot: Snapshot) -> list[str]:
    """Return `apps/v1`, `apps/v1/Deployment` and so on, sorted, each once.

    Kinds of subresources are there too, below the group-version of their resource: `v1/Eviction`,
    `apps/v1/Scale`. What is not current is not, for client-go leaves it out.
    Source: helm pkg/action/action.go `GetVersionSet`; client-go discovery/aggregated_discovery.go
    `convertAPIGroup`.
    """
    found: set[str] = set()
    for version in snapshot.versions:
        if version.freshness == CURRENT:
            found.add(str(version.gv))
            for resource in version.resources:
                found |= {f"{version.gv}/{kind}" for kind in _kinds(resource) if kind}
    return sorted(found)


def _kinds(resource: Resource) -> Iterator[str]:
    told = (resource.response_kind, *(below.response_kind for below in resource.subresources))
    for kind in told:
        if kind is not None and kind != _NO_KIND:
            yield kind.kind
