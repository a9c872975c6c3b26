"""The kinds of object that are kept, and the options of a deletion.

Sources: k8s.io/api apiserverinternal/v1alpha1 and coordination/v1, register.go and types.go;
k8s.io/apimachinery pkg/apis/meta/v1/types.go, DeleteOptions.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects import fields
from apidiscovery_service.kube_objects.fields import Struct

Object: TypeAlias = dict[str, JSONValue]
"""An object in its JSON form, `kind` and `apiVersion` first."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of object in one version; compared by identity.

    Attributes:
        group: The API group.
        version: The version of the group.
        kind: The kind as documents say it, such as `StorageVersion`.
        plural: The resource, as in paths.
        singular: The resource in the singular.
        namespaced: Whether its objects stand in namespaces.
        struct: Its fields, without `kind` and `apiVersion`.
        in_every_group: Whether every version of every group has the kind too.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    struct: Struct
    in_every_group: bool = False

    @property
    def api_version(self) -> str:
        """The group and version as `apiVersion` says them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        """The kind of a list of such objects."""
        return f"{self.kind}List"


STORAGE_VERSION = Kind(
    group="internal.apiserver.k8s.io",
    version="v1alpha1",
    kind="StorageVersion",
    plural="storageversions",
    singular="storageversion",
    namespaced=False,
    struct=fields.STORAGE_VERSION,
)

LEASE = Kind(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    singular="lease",
    namespaced=True,
    struct=fields.LEASE,
)

# The body of a DELETE, no resource.
DELETE_OPTIONS = Kind(
    group="meta.k8s.io",
    version="v1",
    kind="DeleteOptions",
    plural="",
    singular="",
    namespaced=False,
    struct=fields.DELETE_OPTIONS,
    in_every_group=True,
)

# What of an object a client gets that asks for its metadata alone.
PARTIAL_OBJECT_METADATA = Kind(
    group="meta.k8s.io",
    version="v1",
    kind="PartialObjectMetadata",
    plural="",
    singular="",
    namespaced=False,
    struct=fields.PARTIAL_OBJECT_METADATA,
)
PARTIAL_OBJECT_METADATA_V1BETA1 = replace(PARTIAL_OBJECT_METADATA, version="v1beta1")
