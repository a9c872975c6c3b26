"""The discovery of CustomResourceDefinitions.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_discovery_controller.go:sync.
Only established definitions are included. kube-apiserver also lists the groups of others in
`/apis`, and then answers 404 for them.
"""

from collections.abc import Collection, Iterable, Mapping

from apidiscovery_service.core.model import (
    Freshness,
    GroupVersionKind,
    Offer,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from apidiscovery_service.sources.crds.model import CrdVersion, CustomResourceDefinition
from apidiscovery_service.sources.crds.names import ESTABLISHED, TERMINATING, CrdStatus

GROUP_PRIORITY = 1000
VERSION_PRIORITY = 100

# In Kubernetes' order, which is not alphabetical.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
_SUBRESOURCE_VERBS = ("get", "patch", "update")
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


def group_offers(
    crds: Iterable[CustomResourceDefinition],
    statuses: Mapping[str, CrdStatus],
    stale: Collection[str] = (),
) -> tuple[Offer, ...]:
    """Return the offers of the CustomResourceDefinitions of one group, sorted by version name.

    Args:
        crds: All of the group, in any order.
        statuses: Of each, by name.
        stale: Names of those whose versions are Stale.
    """
    served: dict[str, list[Resource]] = {}
    stale_versions: set[str] = set()
    group = ""
    for crd in crds:
        status = statuses[crd.name]
        if not status.is_true(ESTABLISHED):
            continue
        group = crd.group
        for version in crd.versions:
            if version.served:
                served.setdefault(version.name, []).append(_resource(crd, version, status))
                if crd.name in stale:
                    stale_versions.add(version.name)
    return tuple(
        Offer(
            group,
            Version(
                name,
                tuple(sorted(served[name], key=lambda resource: resource.resource)),
                Freshness.STALE if name in stale_versions else Freshness.CURRENT,
            ),
            GROUP_PRIORITY,
            VERSION_PRIORITY,
        )
        for name in sorted(served)
    )


def _resource(crd: CustomResourceDefinition, version: CrdVersion, status: CrdStatus) -> Resource:
    names = status.accepted
    kind = GroupVersionKind(crd.group, version.name, names.kind)
    return Resource(
        resource=names.plural,
        response_kind=kind,
        scope=crd.scope,
        singular_resource=names.singular,
        verbs=_TERMINATING_VERBS if status.is_true(TERMINATING) else _VERBS,
        short_names=names.short_names,
        categories=names.categories,
        subresources=_subresources(version, kind),
        storage_version_hash=_hash(crd),
    )


def _subresources(version: CrdVersion, kind: GroupVersionKind) -> tuple[Subresource, ...]:
    status = (Subresource("status", kind, _SUBRESOURCE_VERBS),) if version.status else ()
    scale = (Subresource("scale", _SCALE, _SUBRESOURCE_VERBS),) if version.scale else ()
    return status + scale


def _hash(crd: CustomResourceDefinition) -> str:
    """Return the storage version hash; empty when the storage version is not served."""
    for version in crd.versions:
        if version.storage and version.served:
            return storage_version_hash(crd.group, version.name, crd.names.kind)
    return ""
