"""The identity lease of an API server, as an object.

Its fields are those that kube-apiserver writes: k8s.io/component-helpers
apimachinery/lease/controller.go, `newLease`, and kubernetes/kubernetes
pkg/controlplane/apiserver/server.go, `labelAPIServerHeartbeatFunc`. A new holder is counted as
k8s.io/client-go tools/leaderelection does it; kube-apiserver keeps the name of the old one, and its
lease.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime

from apidiscovery_service.kube.objects import reading
from apidiscovery_service.kube.objects.kinds import LEASE, Object
from apidiscovery_service.storage_versions import timestamps

NAMESPACE = "kube-system"
COMPONENT_LABEL = "apiserver.kubernetes.io/identity"
HOSTNAME_LABEL = "kubernetes.io/hostname"

# Who held it before, the last of them first, separated by blanks; our own.
EARLIER_HOLDERS = "apidiscovery/earlier-holders"
_MAX_EARLIER = 32

DEFAULT_DURATION_S = 3600

# k8s.io/api coordination/v1/types.go, LeaseSpec.
_SPEC_ORDER = (
    "holderIdentity",
    "leaseDurationSeconds",
    "acquireTime",
    "renewTime",
    "leaseTransitions",
    "strategy",
    "preferredHolder",
)
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds a lease, and for how long.

    Attributes:
        api_server_id: Name of the lease.
        holder: The API server in one of its lives.
        labels: What it is, where.
        duration_s: How long it may be silent.
    """

    api_server_id: str
    holder: str
    labels: dict[str, str]
    duration_s: int


def created(holding: Holding, now: datetime) -> Object:
    """Return a lease that was not there before."""
    metadata: Object = {
        "name": holding.api_server_id,
        "namespace": NAMESPACE,
        "uid": str(uuid.uuid4()),
        "creationTimestamp": timestamps.seconds(now),
        "labels": holding.labels,
    }
    spec: Object = {
        "holderIdentity": holding.holder,
        "leaseDurationSeconds": holding.duration_s,
        "renewTime": timestamps.micros(now),
    }
    return {"kind": LEASE.kind, "apiVersion": LEASE.api_version, "metadata": metadata, "spec": spec}


def succeeding(lease: Object, holding: Holding, now: datetime) -> Object:
    """Return the lease of another holder after this one: a lease of its own, one transition on."""
    transitions = reading.integer(reading.mapping(lease, "spec"), "leaseTransitions") + 1
    new = created(holding, now)
    earlier = [holder(lease), *earlier_holders(lease)][:_MAX_EARLIER]
    metadata = dict(reading.mapping(new, "metadata")) | {
        "annotations": {EARLIER_HOLDERS: " ".join(earlier)}
    }
    spec = dict(reading.mapping(new, "spec")) | {
        "acquireTime": timestamps.micros(now),
        "leaseTransitions": min(transitions, _INT32_MAX),
    }
    spec = {name: spec[name] for name in _SPEC_ORDER if name in spec}
    return new | {"metadata": metadata, "spec": spec}


def renewed(lease: Object, holding: Holding, now: datetime) -> Object:
    """Return the lease renewed by its holder."""
    old = reading.mapping(lease, "spec")
    spec = dict(old) | {
        "leaseDurationSeconds": holding.duration_s,
        "renewTime": timestamps.micros(now),
    }
    metadata = reading.mapping(lease, "metadata")
    labels = dict(reading.string_map(metadata, "labels")) | holding.labels
    return lease | {
        "metadata": dict(metadata) | {"labels": dict(sorted(labels.items()))},
        "spec": {name: spec[name] for name in _SPEC_ORDER if name in spec},
    }


def duration_s(lease: Object) -> int:
    """Return how long the holder may be silent; an hour when the lease does not tell.

    It tells with `renewTime` and a positive `leaseDurationSeconds`.
    """
    spec = reading.mapping(lease, "spec")
    told = reading.integer(spec, "leaseDurationSeconds")
    is_whole = told > 0 and bool(reading.text(spec, "renewTime"))
    return told if is_whole else DEFAULT_DURATION_S


def name(lease: Object) -> str:
    """Return `metadata.name`, the identity of the API server."""
    return reading.text(reading.mapping(lease, "metadata"), "name")


def holder(lease: Object) -> str:
    """Return `spec.holderIdentity`; empty when there is none."""
    return reading.text(reading.mapping(lease, "spec"), "holderIdentity")


def earlier_holders(lease: Object) -> list[str]:
    """Return who held the lease before, the last of them first; not all when they are many."""
    annotations = reading.string_map(reading.mapping(lease, "metadata"), "annotations")
    return annotations.get(EARLIER_HOLDERS, "").split()
