"""The write gate: which requests an API server may admit before its report is acknowledged.

A write before the report would be in a version that nobody knows of, and a storage migration could
end without it (KEP-2339).

Source: k8s.io/apiserver pkg/endpoints/filters/storageversion.go `WithStorageVersionPrecondition`.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.service.v1 import storage_version_pb2

from apidiscovery_client.model import GroupVersionResource

READ_VERBS = frozenset({"get", "list", "watch"})
RETRY_AFTER_S = 1  # the interval at which a failed report is repeated

_SYSTEM_NAMESPACE = "kube-system"
# k8s.io/apiserver pkg/authentication/user/user.go `APIServerUser`, `SystemPrivilegedGroup`.
_API_SERVER_USER = "system:apiserver"
_PRIVILEGED_GROUP = "system:masters"
_NO_ERROR = "<nil>"  # as Go prints it


@dataclass(frozen=True, slots=True)
class GroupResource:
    """A resource without its version.

    Attributes:
        group: Empty for the core group.
        resource: Plural, in lower case.
    """

    group: str
    resource: str

    def __str__(self) -> str:
        """Return `resource.group`, as apimachinery runtime/schema `GroupResource.String` does."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


_STORAGE_VERSIONS = GroupResource("internal.apiserver.k8s.io", "storageversions")
_NAMESPACES = GroupResource("", "namespaces")
_LEASES = GroupResource("coordination.k8s.io", "leases")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResource:
    """A resource that an API server stores, and its versions.

    Attributes:
        group: Empty for the core group.
        resource: Plural, in lower case.
        encoding_version: The version it writes: `group/version`, `version` alone for the core
            group.
        decodable_versions: The versions it reads, in the order of their registration; includes
            `encoding_version`.
        served_versions: The versions it serves; all are decodable.
        equivalents: Other resources that serve the same objects.

    Raises:
        ValueError: It has no name, or a version is written or served that is not decodable.
        TypeError: Its versions are a string.
    """

    group: str
    resource: str
    encoding_version: str
    decodable_versions: tuple[str, ...]
    served_versions: tuple[str, ...] = ()
    equivalents: tuple[GroupVersionResource, ...] = ()

    def __post_init__(self) -> None:
        if not self.resource:
            raise ValueError(f"a resource of group {self.group!r} has no name")
        for versions in (self.decodable_versions, self.served_versions):
            if isinstance(versions, str):
                raise TypeError(f"{self.group_resource}: {versions!r} must be a tuple of versions")
        for version in (self.encoding_version, *self.served_versions):
            if version not in self.decodable_versions:
                readable = ", ".join(self.decodable_versions)
                raise ValueError(
                    f"{self.group_resource}: a server that does not read {version!r}, only"
                    f" {readable!r}, can neither write nor serve it"
                )

    @property
    def group_resource(self) -> GroupResource:
        """The resource without its version."""
        return GroupResource(self.group, self.resource)

    def names(self) -> Iterator[GroupResource]:
        """Yield the resources by which its objects can be written: itself, then the equivalents."""
        yield self.group_resource
        for equivalent in self.equivalents:
            yield GroupResource(equivalent.group, equivalent.resource)

    def message(self) -> storage_version_pb2.ReportedResource:
        """Return the message for a report."""
        return storage_version_pb2.ReportedResource(
            group=self.group,
            resource=self.resource,
            encoding_version=self.encoding_version,
            decodable_versions=self.decodable_versions,
            served_versions=self.served_versions,
            equivalents=[
                meta_pb2.GroupVersionResource(group=e.group, version=e.version, resource=e.resource)
                for e in self.equivalents
            ],
        )


@dataclass(frozen=True, slots=True)
class RequestAttributes:
    """The attributes of a request that the gate examines.

    Attributes:
        verb: Kubernetes verb, such as `list`; the HTTP method in lower case for other requests.
        group: API group; empty for the core group.
        resource: Plural; empty for other requests.
        namespace: Empty for cluster-scoped resources and for all namespaces.
        subresource: Such as `status`; empty for none.
        is_resource: Whether the request is for objects of an API group.
        user: The user; empty when unknown.
        groups: The groups of the user.
        version: API version; empty for other requests.
        name: Name of the object; empty for lists and the like.
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
    """The refusal of a request.

    Attributes:
        message: The text, as kube-apiserver's.
        retry_after_s: When to retry, in seconds.
    """

    message: str
    retry_after_s: int = RETRY_AFTER_S


class Gate(Protocol):
    """The gate as middleware and interceptors use it, from any thread and for every request."""

    @property
    def confirmed(self) -> bool:
        """Whether all resources have been reported: nothing is refused."""
        ...

    @property
    def was_confirmed(self) -> bool:
        """Whether that has been the case at any time."""
        ...

    @property
    def last_error(self) -> str | None:
        """The error of the last attempt; None if it succeeded."""
        ...

    def refusal(self, attributes: RequestAttributes) -> Refusal | None:
        """Return the refusal of a request; None if it is admitted."""
        ...


@dataclass(frozen=True, slots=True)
class WriteGate:
    """The state of the gate at one moment.

    Attributes:
        confirmed: Whether all resources have been reported.
        pending: Resources that have not been reported, and their equivalents.
        last_error: The error of the last attempt; None if it succeeded.
        was_confirmed: Whether all resources had been reported at any time.
    """

    confirmed: bool
    pending: frozenset[GroupResource] = field(default_factory=frozenset[GroupResource])
    last_error: str | None = None
    was_confirmed: bool = False

    def refusal(self, attributes: RequestAttributes) -> Refusal | None:
        """Return the refusal of a request; None if it is admitted."""
        if self.confirmed or _always_passes(attributes):
            return None
        # Resources that are not stored at all are admitted too.
        if attributes.group_resource not in self.pending:
            return None
        return Refusal(waiting_for(f"resource: {attributes.group_resource}", self.last_error))


def waiting_for(what: str, last_error: str | None) -> str:
    """Return the text of a refusal."""
    return (
        f"wait for storage version registration to complete for {what},"
        f" last seen error: {last_error or _NO_ERROR}"
    )


def _always_passes(request: RequestAttributes) -> bool:
    """Tell whether a request writes nothing, or is needed for reporting itself."""
    return (
        not request.is_resource
        or request.verb in READ_VERBS
        or request.group_resource == _STORAGE_VERSIONS
        or _is_own_namespace(request)
        or (request.group_resource == _LEASES and request.namespace == _SYSTEM_NAMESPACE)
    )


def _is_own_namespace(request: RequestAttributes) -> bool:
    """Tell whether the API server itself creates a namespace, such as that of its lease."""
    return (
        request.group_resource == _NAMESPACES
        and request.verb == "create"
        and request.user == _API_SERVER_USER
        and _PRIVILEGED_GROUP in request.groups
    )
