"""Which requests an API server may let through before it has reported what it writes.

A write that goes ahead of the report would be in a version that nobody knows of, and a storage
migration could end without having seen it (KEP-2339).

Source: k8s.io/apiserver pkg/endpoints/filters/storageversion.go `WithStorageVersionPrecondition`.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from apidiscovery_client.storage_versions.resources import GroupResource

READ_VERBS = frozenset({"get", "list", "watch"})
RETRY_AFTER_S = 1  # how often a report that fails is repeated

_STORAGE_VERSIONS = GroupResource("internal.apiserver.k8s.io", "storageversions")
_NAMESPACES = GroupResource("", "namespaces")
_LEASES = GroupResource("coordination.k8s.io", "leases")
_SYSTEM_NAMESPACE = "kube-system"
# k8s.io/apiserver pkg/authentication/user/user.go `APIServerUser`, `SystemPrivilegedGroup`.
_API_SERVER_USER = "system:apiserver"
_PRIVILEGED_GROUP = "system:masters"
_NO_ERROR = "<nil>"  # as Go prints it


@dataclass(frozen=True, slots=True)
class RequestAttributes:
    """What of a request the gate looks at.

    Attributes:
        verb: Of Kubernetes, such as `list`; for what is no resource the HTTP method in lower case.
        group: API group; empty for the core group.
        resource: Plural; empty for what is no resource.
        namespace: Empty for what is in none, or in all.
        subresource: Such as `status`; empty without.
        is_resource: Whether the request is for an object, or objects, of an API group.
        user: Who asks; empty when that is not known.
        groups: Of the user.
        version: Of the API; empty for what is no resource.
        name: Of the object; empty for lists and the like.
    """

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    subresource: str = ""
    is_resource: bool = True
    user: str = ""
    groups: Collection[str] = ()
    version: str = ""
    name: str = ""

    @property
    def group_resource(self) -> GroupResource:
        """Return the resource, without its version."""
        return GroupResource(self.group, self.resource)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let through.

    Attributes:
        message: In kube-apiserver's words.
        retry_after_s: When to try again, in seconds.
    """

    message: str
    retry_after_s: int = RETRY_AFTER_S


class Gate(Protocol):
    """What middleware and interceptors ask, from any thread and for every request."""

    @property
    def confirmed(self) -> bool:
        """Whether everything that is stored has been reported: nothing is refused."""
        ...

    @property
    def was_confirmed(self) -> bool:
        """Whether that has ever been so."""
        ...

    @property
    def last_error(self) -> str | None:
        """What went wrong last, if the last attempt did."""
        ...

    def refusal(self, attributes: RequestAttributes) -> Refusal | None:
        """Say why a request is not let through; None when it is."""
        ...


@dataclass(frozen=True, slots=True)
class WriteGate:
    """The decision, at one moment.

    Attributes:
        confirmed: Whether all that is stored has been reported.
        pending: What has not been reported, by every name that it is served under.
        last_error: What went wrong last, if the last attempt did.
        was_confirmed: Whether all had been reported before, at any time.
    """

    confirmed: bool
    pending: frozenset[GroupResource] = field(default_factory=frozenset[GroupResource])
    last_error: str | None = None
    was_confirmed: bool = False

    def refusal(self, attributes: RequestAttributes) -> Refusal | None:
        """Say why a request is not let through; None when it is."""
        if self.confirmed or _always_passes(attributes):
            return None
        if attributes.group_resource not in self.pending:  # also what is not stored at all
            return None
        return Refusal(waiting_for(f"resource: {attributes.group_resource}", self.last_error))


def waiting_for(what: str, last_error: str | None) -> str:
    """Return the sentence with which something is refused."""
    return (
        f"wait for storage version registration to complete for {what},"
        f" last seen error: {last_error or _NO_ERROR}"
    )


def _always_passes(asked: RequestAttributes) -> bool:
    """Tell whether a request does no harm, or is needed to be able to report at all."""
    return (
        not asked.is_resource
        or asked.verb in READ_VERBS
        or asked.group_resource == _STORAGE_VERSIONS
        or _is_own_namespace(asked)
        or (asked.group_resource == _LEASES and asked.namespace == _SYSTEM_NAMESPACE)
    )


def _is_own_namespace(asked: RequestAttributes) -> bool:
    """Tell whether the API server itself makes a namespace, such as that of its lease."""
    return (
        asked.group_resource == _NAMESPACES
        and asked.verb == "create"
        and asked.user == _API_SERVER_USER
        and _PRIVILEGED_GROUP in asked.groups
    )
