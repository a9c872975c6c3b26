"""The kinds of objects that are served, and the options of a deletion.

Sources: k8s.io/api apiserverinternal/v1alpha1 and coordination/v1, register.go and types.go;
k8s.io/apimachinery pkg/apis/meta/v1/types.go, DeleteOptions.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.meta.v1 import objects_pb2
from apidiscovery.meta.v1beta1 import objects_pb2 as v1beta1_pb2
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2
from google.protobuf.message import Message

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.go_structs import Struct, struct_of

Object: TypeAlias = dict[str, JSONValue]
"""An object in its JSON form, `kind` and `apiVersion` first."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectKind:
    """A kind of object in one version; compared by identity.

    Attributes:
        group: The API group.
        version: The version of the group.
        kind: The kind as documents say it, such as `StorageVersion`.
        message: Its message, which has no `kind` and `apiVersion`.
        list_message: The message of a list of such objects; None if there are no lists.
        plural: The resource, as in paths; empty for a kind without a resource.
        singular: The resource in the singular.
        namespaced: Whether its objects are in namespaces.
        in_every_group: Whether the kind exists in every version of every group.
    """

    group: str
    version: str
    kind: str
    message: type[Message]
    list_message: type[Message] | None = None
    plural: str = ""
    singular: str = ""
    namespaced: bool = False
    in_every_group: bool = False

    @property
    def struct(self) -> Struct:
        """Its fields, without `kind` and `apiVersion`."""
        return struct_of(self.message.DESCRIPTOR)

    @property
    def api_version(self) -> str:
        """The group and version as `apiVersion` says them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        """The kind of a list of such objects."""
        return f"{self.kind}List"


STORAGE_VERSION = ObjectKind(
    group="internal.apiserver.k8s.io",
    version="v1alpha1",
    kind="StorageVersion",
    plural="storageversions",
    singular="storageversion",
    message=storageversion_pb2.StorageVersion,
    list_message=storageversion_pb2.StorageVersionList,
)

LEASE = ObjectKind(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    singular="lease",
    namespaced=True,
    message=lease_pb2.Lease,
    list_message=lease_pb2.LeaseList,
)

# The body of a DELETE, no resource.
DELETE_OPTIONS = ObjectKind(
    group="meta.k8s.io",
    version="v1",
    kind="DeleteOptions",
    message=objects_pb2.DeleteOptions,
    in_every_group=True,
)

# For clients that ask for the metadata of objects alone.
PARTIAL_OBJECT_METADATA = ObjectKind(
    group="meta.k8s.io",
    version="v1",
    kind="PartialObjectMetadata",
    message=objects_pb2.PartialObjectMetadata,
    list_message=objects_pb2.PartialObjectMetadataList,
)
PARTIAL_OBJECT_METADATA_V1BETA1 = replace(
    PARTIAL_OBJECT_METADATA,
    version="v1beta1",
    list_message=v1beta1_pb2.PartialObjectMetadataList,
)
