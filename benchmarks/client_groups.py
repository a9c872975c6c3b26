"""The groups of the servers that clients are measured with, and the right answers.

63 groups with 123 group-versions of 4 resources each, as on a cluster with many operators.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from apidiscovery_client.model import (
    NAMESPACED,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Stale,
    Subresource,
    Version,
)

GROUPS = 63

_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")
_CORE = ("Pod", "Service", "Secret", "Node")
_APPS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_DEAD = ("Ghost", "Phantom", "Spectre", "Wraith")
_PARTS = ("Backup", "Policy", "Route", "Tenant")
_CLUSTER_SCOPED = ("Node", "Gadget")


class Wanted(NamedTuple):
    """A kind, and what a client needs to request its objects."""

    kind: str
    group: str
    version: str
    plural: str
    is_namespaced: bool


DEPLOYMENT = Wanted("Deployment", "apps", "v1", "deployments", is_namespaced=True)
TYPO = Wanted("Depoyment", "apps", "v1", "", is_namespaced=True)
GADGET = Wanted("Gadget", "new.example.com", "v1", "gadgets", is_namespaced=False)
GHOST = Wanted("Ghost", "dead.example.com", "v1", "ghosts", is_namespaced=True)


def usual() -> tuple[Group, ...]:
    """Return the groups of a healthy server, the core group first."""
    return tuple(_groups())


def with_gadget() -> tuple[Group, ...]:
    """Return the same with the group of a CustomResourceDefinition that is new."""
    gadget = _resource(GroupVersion(GADGET.group, GADGET.version), GADGET.kind)
    return (*usual(), Group(GADGET.group, (Version(gadget.gv, (gadget,)),)))


def with_dead() -> tuple[Group, ...]:
    """Return the usual groups, of which one does not answer.

    Source: kube-aggregator pkg/apiserver/handler_discovery.go: it is listed without them.
    """
    return tuple(_dead(group) if group.name == GHOST.group else group for group in usual())


def definition(resource: Resource) -> dict[str, object]:
    """Return a CustomResourceDefinition of a resource, with a minimal schema."""
    names = {
        "plural": resource.name,
        "singular": resource.singular_name,
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.gv.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.name}.{resource.gv.group}"},
        "spec": {
            "group": resource.gv.group,
            "names": names,
            "scope": resource.scope,
            "versions": [version],
        },
    }


def _groups() -> Iterator[Group]:
    yield _group("", ("v1",), _CORE)
    yield _group(DEPLOYMENT.group, ("v1",), _APPS)
    yield _group(GHOST.group, ("v1",), _DEAD)
    for number in range(GROUPS - 3):
        kinds = tuple(f"{part}{number}" for part in _PARTS)
        yield _group(f"team{number:02}.example.com", ("v1", "v1beta1"), kinds)


def _group(name: str, versions: tuple[str, ...], kinds: tuple[str, ...]) -> Group:
    names = [GroupVersion(name, version) for version in versions]
    found = [Version(gv, tuple(_resource(gv, kind) for kind in kinds)) for gv in names]
    return Group(name, tuple(found))


def _resource(gv: GroupVersion, kind: str) -> Resource:
    singular = kind.lower()
    named = GroupVersionKind(gv.group, gv.version, kind)
    return Resource(
        gv,
        singular[:-1] + "ies" if singular.endswith("y") else singular + "s",
        singular,
        "Cluster" if kind in _CLUSTER_SCOPED else NAMESPACED,
        named,
        _VERBS,
        short_names=("deploy",) if kind == DEPLOYMENT.kind else (),
        categories=("all",),
        subresources=(Subresource("status", named, _STATUS_VERBS),),
    )


def _dead(group: Group) -> Group:
    reason = "the server does not answer"
    since = datetime.now(tz=UTC)
    gone = [Version(version.gv, (), Stale(since, reason)) for version in group.versions]
    return Group(group.name, tuple(gone))
