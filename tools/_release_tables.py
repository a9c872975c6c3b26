"""Data about releases of Kubernetes that its generated clients lack, written by hand.

Sources: the deprecated API migration guide and the changelogs of Kubernetes; kubernetes
cmd/kube-apiserver/app/aggregator.go `apiVersionPriorities`; apiserver and kubernetes
pkg/registry/core/rest/storage_core.go for subresources that have no typed client.
"""

from typing import NamedTuple

OLDEST, NEWEST = 8, 36
ALWAYS = (OLDEST, NEWEST)

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
ITEM_VERBS = ("get", "patch", "update")
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")

# Folders of client-go `kubernetes/typed` whose groups are not called `<folder>.k8s.io`.
GROUPS = {
    "core": "",
    "apps": "apps",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "extensions": "extensions",
    "policy": "policy",
    "apiserverinternal": "internal.apiserver.k8s.io",
    "flowcontrol": "flowcontrol.apiserver.k8s.io",
    "rbac": "rbac.authorization.k8s.io",
}

# By group: priorities and the first release of each; the highest priority is first in discovery.
PRIORITIES: dict[str, list[tuple[int, int]]] = {
    "": [(OLDEST, 30000)],
    "apiregistration.k8s.io": [(OLDEST, 20000)],
    "extensions": [(OLDEST, 17900), (20, 17150)],  # below networking.k8s.io since 1.20
    "apps": [(OLDEST, 17800)],
    "events.k8s.io": [(OLDEST, 17750)],
    "authentication.k8s.io": [(OLDEST, 17700)],
    "authorization.k8s.io": [(OLDEST, 17600)],
    "autoscaling": [(OLDEST, 17500)],
    "batch": [(OLDEST, 17400)],
    "certificates.k8s.io": [(OLDEST, 17300)],
    "networking.k8s.io": [(OLDEST, 17200)],
    "policy": [(OLDEST, 17100)],
    "rbac.authorization.k8s.io": [(OLDEST, 17000)],
    "settings.k8s.io": [(OLDEST, 16900)],
    "storage.k8s.io": [(OLDEST, 16800)],
    "admissionregistration.k8s.io": [(OLDEST, 16700)],
    "apiextensions.k8s.io": [(OLDEST, 16700)],
    "scheduling.k8s.io": [(OLDEST, 16600)],
    "coordination.k8s.io": [(OLDEST, 16500)],
    "auditregistration.k8s.io": [(OLDEST, 16400)],
    "node.k8s.io": [(OLDEST, 16300)],
    "discovery.k8s.io": [(OLDEST, 16200)],
    "resource.k8s.io": [(OLDEST, 15900), (34, 16200)],
    "flowcontrol.apiserver.k8s.io": [(OLDEST, 16100)],
    "internal.apiserver.k8s.io": [(OLDEST, 16000)],
    "storagemigration.k8s.io": [(OLDEST, 15800)],
}

# Only groups whose order differs from that of version names (apimachinery pkg/version/helpers.go).
VERSION_ORDER = {"autoscaling": ("v2", "v1", "v2beta1", "v2beta2")}

# The first release without a kind that k8s.io/api does not mark: alpha versions whose types stayed.
REMOVED = {
    **{
        ("rbac.authorization.k8s.io", "v1alpha1", kind): 23
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    },
    ("scheduling.k8s.io", "v1alpha1", "PriorityClass"): 23,
    ("node.k8s.io", "v1alpha1", "RuntimeClass"): 25,
    # Servers dropped them with v1beta1 in 1.31; their types stayed until 1.33.
    ("networking.k8s.io", "v1alpha1", "IPAddress"): 31,
    ("networking.k8s.io", "v1alpha1", "ServiceCIDR"): 31,
    ("extensions", "v1beta1", "ThirdPartyResource"): OLDEST,
}

# Short names of resources that no recorded server has.
SHORT_NAMES = {("networking.k8s.io", "clustercidrs"): ("cc",)}

# Types with a client that are not resources of a server.
NO_RESOURCES = {
    ("extensions", "scale"),
    ("policy", "evictions"),
    ("policy", "pods"),
}

# Resources whose verbs differ from the methods of their typed clients.
OTHER_VERBS: dict[tuple[str, str], tuple[str, ...]] = {("", "componentstatuses"): ("get", "list")}
DELETES_SERVICES_FROM = 23  # as a collection, which typed clients still cannot

# Versions of a resource with a field `status`, but without the subresource.
NO_STATUS = {
    ("storage.k8s.io", "v1alpha1", "volumeattachments"),
    ("storage.k8s.io", "v1beta1", "volumeattachments"),
}


class Extra(NamedTuple):
    """A resource without a typed client.

    Attributes:
        releases: The first and the last that serve it.
    """

    group: str
    version: str
    name: str
    kind: str
    is_namespaced: bool
    verbs: tuple[str, ...]
    releases: tuple[int, int]


_CLUSTER, _NAMESPACED = False, True

EXTRAS = (
    Extra("", "v1", "bindings", "Binding", _NAMESPACED, ("create",), ALWAYS),
    # Its typed client exists only since 1.15, the last release that serves it.
    Extra(
        "extensions",
        "v1beta1",
        "networkpolicies",
        "NetworkPolicy",
        _NAMESPACED,
        ALL_VERBS,
        (OLDEST, 15),
    ),
    Extra(
        "extensions",
        "v1beta1",
        "replicationcontrollers",
        "ReplicationControllerDummy",
        _NAMESPACED,
        (),
        (OLDEST, 15),
    ),
    *(
        Extra(
            "apiextensions.k8s.io",
            version,
            "customresourcedefinitions",
            "CustomResourceDefinition",
            _CLUSTER,
            ALL_VERBS,
            releases,
        )
        for version, releases in (("v1beta1", (OLDEST, 21)), ("v1", (16, NEWEST)))
    ),
    *(
        Extra(
            "apiregistration.k8s.io",
            version,
            "apiservices",
            "APIService",
            _CLUSTER,
            ALL_VERBS,
            releases,
        )
        for version, releases in (("v1beta1", (OLDEST, 21)), ("v1", (10, NEWEST)))
    ),
)


class Below(NamedTuple):
    """A subresource that typed clients do not show.

    Attributes:
        kind: With group and version if they differ from those of the resource.
        releases: The first and the last that serve it.
        gated: The first and the last of these in which its feature gate is off by default.
    """

    group: str
    version: str
    resource: str
    name: str
    kind: str
    verbs: tuple[str, ...]
    releases: tuple[int, int] = ALWAYS
    gated: tuple[int, int] | None = None


_CREATE = ("create",)
_STREAM = ("create", "get")
_APPROVAL = (
    "certificates.k8s.io",
    "v1beta1",
    "certificatesigningrequests",
    "approval",
    "CertificateSigningRequest",
)

BELOW = (
    Below("", "v1", "namespaces", "finalize", "Namespace", ("update",)),
    Below("", "v1", "nodes", "proxy", "NodeProxyOptions", _PROXY_VERBS),
    Below("", "v1", "pods", "attach", "PodAttachOptions", _STREAM),
    Below("", "v1", "pods", "binding", "Binding", _CREATE),
    Below("", "v1", "pods", "eviction", "policy/v1beta1/Eviction", _CREATE, (OLDEST, 21)),
    Below("", "v1", "pods", "eviction", "policy/v1/Eviction", _CREATE, (22, NEWEST)),
    Below("", "v1", "pods", "exec", "PodExecOptions", _STREAM),
    Below("", "v1", "pods", "log", "Pod", ("get",)),
    Below("", "v1", "pods", "portforward", "PodPortForwardOptions", _STREAM),
    Below("", "v1", "pods", "proxy", "PodProxyOptions", _PROXY_VERBS),
    Below("", "v1", "pods", "ephemeralcontainers", "Pod", ITEM_VERBS, (23, NEWEST)),
    # Feature gate InPlacePodVerticalScaling, on since 1.33.
    Below("", "v1", "pods", "resize", "Pod", ITEM_VERBS, (32, NEWEST), gated=(32, 32)),
    Below("", "v1", "replicationcontrollers", "scale", "autoscaling/v1/Scale", ITEM_VERBS),
    Below(
        "",
        "v1",
        "serviceaccounts",
        "token",
        "authentication.k8s.io/v1/TokenRequest",
        _CREATE,
        (20, NEWEST),  # before, only with a configured service account issuer
    ),
    Below("", "v1", "services", "proxy", "ServiceProxyOptions", _PROXY_VERBS),
    *(
        Below("apps", version, resource, "scale", f"apps/{version}/Scale", ITEM_VERBS)
        for version, resource in (
            ("v1beta1", "deployments"),
            ("v1beta1", "statefulsets"),
            ("v1beta2", "deployments"),
            ("v1beta2", "replicasets"),
            ("v1beta2", "statefulsets"),
        )
    ),
    *(
        Below("apps", "v1", resource, "scale", "autoscaling/v1/Scale", ITEM_VERBS)
        for resource in ("deployments", "replicasets", "statefulsets")
    ),
    *(
        Below("extensions", "v1beta1", name, "scale", "extensions/v1beta1/Scale", ITEM_VERBS)
        for name in ("deployments", "replicasets")
    ),
    Below("extensions", "v1beta1", "replicationcontrollers", "scale", "Scale", ITEM_VERBS),
    *(
        Below(group, "v1beta1", "deployments", "rollback", "DeploymentRollback", _CREATE)
        for group in ("apps", "extensions")
    ),
    Below(*_APPROVAL, ("update",), (OLDEST, 18)),
    Below(*_APPROVAL, ITEM_VERBS, (19, 21)),
    Below(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "approval",
        "CertificateSigningRequest",
        ITEM_VERBS,
    ),
    *(
        Below(group, version, name, "status", kind, ITEM_VERBS)
        for group, name, kind in (
            ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
            ("apiregistration.k8s.io", "apiservices", "APIService"),
        )
        for version in ("v1", "v1beta1")
    ),
)
