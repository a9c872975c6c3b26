"""Builds groups, versions and resources for servers in tests.

>>> from apidiscovery_client.testing import group, resource
>>> apps = group("apps", v1=[resource("deployments", "Deployment", short_names=["deploy"])])
>>> apps.versions[0].resources[0].gvr
GroupVersionResource(group='apps', version='v1', resource='deployments')
"""

from collections.abc import Iterable
from dataclasses import replace

from apidiscovery_client.model import (
    NAMESPACED,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Subresource,
    Version,
)

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS = ("get", "patch", "update")

_NOWHERE = GroupVersion("", "")
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


def group(name: str, /, **versions: Iterable[Resource]) -> Group:
    """Return a group; its versions are in the order of the arguments, the preferred one first.

    Args:
        name: Empty for the core group.
        versions: The resources of each; `resource` makes them.
    """
    return Group(name, tuple(_version(GroupVersion(name, key), versions[key]) for key in versions))


def _version(gv: GroupVersion, resources: Iterable[Resource]) -> Version:
    placed = tuple(replace(resource, gv=gv) for resource in resources)
    return Version(gv, placed, stated_freshness="Current")


def resource(  # noqa: PLR0913 - what a document says of a resource, all but two with a default
    name: str,
    kind: str,
    *,
    namespaced: bool = True,
    singular_name: str | None = None,
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
    verbs: Iterable[str] = ALL_VERBS,
    subresources: Iterable[str | Subresource] = (),
) -> Resource:
    """Return a resource; `group` sets its group-version.

    Args:
        name: The plural, as in paths.
        kind: The kind of its objects, in the same group-version.
        namespaced: Whether objects live in namespaces.
        singular_name: By default the kind in lower case.
        short_names: Such as `deploy`.
        categories: Such as `all`.
        verbs: By default all verbs of Kubernetes.
        subresources: A name stands for a subresource that can be read and written, with the kind
            of the resource; `scale` has the kind `autoscaling/v1 Scale`.
    """
    return Resource(
        gv=_NOWHERE,
        name=name,
        singular_name=kind.lower() if singular_name is None else singular_name,
        scope=NAMESPACED if namespaced else "Cluster",
        response_kind=GroupVersionKind("", "", kind),
        verbs=tuple(verbs),
        short_names=tuple(short_names),
        categories=tuple(categories),
        subresources=tuple(_subresource(found, kind) for found in subresources),
    )


def _subresource(told: str | Subresource, kind: str) -> Subresource:
    if isinstance(told, Subresource):
        return told
    own = GroupVersionKind("", "", kind)
    return Subresource(told, _SCALE if told == "scale" else own, SUBRESOURCE_VERBS)


def builtin_groups(release: str = "") -> tuple[Group, ...]:
    """Return the APIs of Kubernetes that are on by default, the core group first.

    Args:
        release: Such as `1.31`; by default the newest that is known.

    Raises:
        InvalidConfiguration: It is not a known release (`apidiscovery_client.snapshots.releases`).
    """
    from apidiscovery_client.snapshots import releases  # noqa: PLC0415 - slow, and few need it

    return releases.release(release or releases.known_releases()[-1]).groups
