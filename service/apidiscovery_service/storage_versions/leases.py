"""The identity lease of an API server, as an object.

Its fields are those that kube-apiserver writes: k8s.io/component-helpers
apimachinery/lease/controller.go, `newLease`, and kubernetes/kubernetes
pkg/controlplane/apiserver/server.go, `labelAPIServerHeartbeatFunc`. A change of the holder counts
as a transition, as in k8s.io/client-go tools/leaderelection; kube-apiserver keeps the holder's
identity and the lease.
"""

import base64
import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime

from apidiscovery_formats.times import time_text

from apidiscovery_service.kube.objects import json_fields
from apidiscovery_service.kube.objects.kinds import LEASE, Object
from apidiscovery_service.kube.objects.metadata import metadata_of

KUBE_APISERVER = "kube-apiserver"

NAMESPACE = "kube-system"
COMPONENT_LABEL = "apiserver.kubernetes.io/identity"
HOSTNAME_LABEL = "kubernetes.io/hostname"

# Our own annotation: the identities of earlier holders, latest first, separated by blanks.
EARLIER_HOLDERS = "apidiscovery/earlier-holders"
_MAX_EARLIER = 32

DEFAULT_DURATION_S = 3600

_INT32_MAX = 2**31 - 1

_HASHED_BYTES = 16


def identity(hostname: str, component: str = KUBE_APISERVER) -> str:
    """Return the identity of an API server, which stays the same when it restarts.

    Sources: k8s.io/apiserver pkg/server/config.go, `NewConfig`; kubernetes/kubernetes
    pkg/controlplane/apiserver/server.go, which names the lease by it.

    >>> identity("node-1")
    'apiserver-lgabes5ywnaqeagh5dny4zlzs4'

    Args:
        hostname: Of the machine; at most 65,535 bytes.
        component: The kind of API server; at most 65,535 bytes.

    Returns:
        `apiserver-` and 26 letters and digits: the first 16 bytes of a SHA-256 in lower-case base32
        without padding.
    """
    digest = hashlib.sha256(_with_length(hostname) + _with_length(component)).digest()
    text = base64.b32encode(digest[:_HASHED_BYTES]).decode("ascii")
    return f"apiserver-{text.rstrip('=').lower()}"


def _with_length(text: str) -> bytes:
    """Return a text after its length, so that no two pairs of texts give the same bytes."""
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The holder of a lease.

    Attributes:
        api_server_id: Name of the lease.
        identity: The API server and the instance, `holderIdentity`.
        labels: Component and hostname.
        duration_s: The lease ends after this time without a renewal.
    """

    api_server_id: str
    identity: str
    labels: dict[str, str]
    duration_s: int


def created(new: LeaseHolder, now: datetime) -> Object:
    """Return the first lease of an API server."""
    metadata: Object = {
        "name": new.api_server_id,
        "namespace": NAMESPACE,
        "uid": str(uuid.uuid4()),
        "creationTimestamp": time_text(now),
        "labels": new.labels,
    }
    spec: Object = {
        "holderIdentity": new.identity,
        "leaseDurationSeconds": new.duration_s,
        "renewTime": time_text(now, "microseconds"),
    }
    return {"kind": LEASE.kind, "apiVersion": LEASE.api_version, "metadata": metadata, "spec": spec}


def succeeding(lease: Object, new: LeaseHolder, now: datetime) -> Object:
    """Return a new lease for a new holder, one transition after this lease."""
    transitions = json_fields.integer(json_fields.mapping(lease, "spec"), "leaseTransitions") + 1
    successor = created(new, now)
    earlier = [holder(lease), *earlier_holders(lease)][:_MAX_EARLIER]
    metadata = metadata_of(successor) | {"annotations": {EARLIER_HOLDERS: " ".join(earlier)}}
    spec = dict(json_fields.mapping(successor, "spec")) | {
        "acquireTime": time_text(now, "microseconds"),
        "leaseTransitions": min(transitions, _INT32_MAX),
    }
    return successor | {"metadata": metadata, "spec": spec}


def renewed(lease: Object, by: LeaseHolder, now: datetime) -> Object:
    """Return the lease renewed by its holder."""
    spec = dict(json_fields.mapping(lease, "spec")) | {
        "leaseDurationSeconds": by.duration_s,
        "renewTime": time_text(now, "microseconds"),
    }
    metadata = metadata_of(lease)
    labels = dict(json_fields.string_map(metadata, "labels")) | by.labels
    return lease | {
        "metadata": metadata | {"labels": labels},
        "spec": spec,
    }


def duration_s(lease: Object) -> int:
    """Return the duration of a lease; an hour unless it has been renewed and has a positive one."""
    spec = json_fields.mapping(lease, "spec")
    duration = json_fields.integer(spec, "leaseDurationSeconds")
    is_valid = duration > 0 and bool(json_fields.text(spec, "renewTime"))
    return duration if is_valid else DEFAULT_DURATION_S


def name(lease: Object) -> str:
    """Return `metadata.name`, the identity of the API server."""
    return json_fields.text(metadata_of(lease), "name")


def holder(lease: Object) -> str:
    """Return `spec.holderIdentity`; empty when there is none."""
    return json_fields.text(json_fields.mapping(lease, "spec"), "holderIdentity")


def earlier_holders(lease: Object) -> list[str]:
    """Return the identities of earlier holders, latest first; at most 32."""
    annotations = json_fields.string_map(metadata_of(lease), "annotations")
    return annotations.get(EARLIER_HOLDERS, "").split()
