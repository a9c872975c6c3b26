"""The fields of the kinds: their names in JSON, numbers in protobuf, Go types, and when they show.

Sources: k8s.io/apimachinery pkg/apis/meta/v1/types.go; k8s.io/api apiserverinternal/v1alpha1 and
coordination/v1, types.go (order, JSON tags and Go types) and generated.proto (numbers).
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias


class Scalar(Enum):
    """What a field holds that is no struct."""

    STRING = auto()
    BOOL = auto()
    INT32 = auto()
    INT64 = auto()
    TIME = auto()  # metav1.Time: whole seconds
    MICRO_TIME = auto()  # metav1.MicroTime: microseconds
    RAW_JSON = auto()  # metav1.FieldsV1: any JSON, which protobuf carries as text


class Shape(Enum):
    """How a Go struct holds a field."""

    VALUE = auto()  # always there; protobuf always has it
    POINTER = auto()  # written when set, even to nothing
    LIST = auto()
    STRING_MAP = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A Go struct; compared by identity, for it is looked up for every object.

    Attributes:
        go_type: Its name with its package, as Go's errors say it: `v1.ObjectMeta`.
        fields: In the order of the Go source, which is that of the JSON.
    """

    go_type: str
    fields: "tuple[Field, ...]"


FieldType: TypeAlias = Scalar | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a Go struct.

    Attributes:
        name: Its name in JSON.
        number: Its number in protobuf.
        type: What it holds; for a list, what each element is.
        shape: How the struct holds it.
        kept: Whether JSON has it even when it is zero: there is no `omitempty`, or Go cannot tell
            (a struct). Of no meaning for pointers, lists and maps, which Go leaves out.
        named: Its Go type where that is no plain one, such as `types.UID`.
    """

    name: str
    number: int
    type: FieldType = Scalar.STRING
    shape: Shape = Shape.VALUE
    kept: bool = False
    named: str = ""

    @property
    def element_go_type(self) -> str:
        """The Go type of the value, or of one element of a list or map."""
        if isinstance(self.type, Struct):
            return self.type.go_type
        return self.named or _GO_TYPES[self.type]

    @property
    def go_type(self) -> str:
        """The Go type as Go's errors say it; they look through pointers."""
        if self.shape is Shape.LIST:
            return f"[]{self.element_go_type}"
        return "map[string]string" if self.shape is Shape.STRING_MAP else self.element_go_type


_GO_TYPES = {
    Scalar.STRING: "string",
    Scalar.BOOL: "bool",
    Scalar.INT32: "int32",
    Scalar.INT64: "int64",
    Scalar.TIME: "v1.Time",
    Scalar.MICRO_TIME: "v1.MicroTime",
    Scalar.RAW_JSON: "v1.FieldsV1",
}

_OWNER_REFERENCE = Struct(
    "v1.OwnerReference",
    (
        Field("apiVersion", 5, kept=True),
        Field("kind", 1, kept=True),
        Field("name", 3, kept=True),
        Field("uid", 4, kept=True, named="types.UID"),
        Field("controller", 6, Scalar.BOOL, Shape.POINTER),
        Field("blockOwnerDeletion", 7, Scalar.BOOL, Shape.POINTER),
    ),
)

_MANAGED_FIELDS_ENTRY = Struct(
    "v1.ManagedFieldsEntry",
    (
        Field("manager", 1),
        Field("operation", 2, named="v1.ManagedFieldsOperationType"),
        Field("apiVersion", 3),
        Field("time", 4, Scalar.TIME, Shape.POINTER),
        Field("fieldsType", 6),
        Field("fieldsV1", 7, Scalar.RAW_JSON, Shape.POINTER),
        Field("subresource", 8),
    ),
)

# creationTimestamp has `omitzero` since Kubernetes v1.34; before, its zero was `null`.
OBJECT_META = Struct(
    "v1.ObjectMeta",
    (
        Field("name", 1),
        Field("generateName", 2),
        Field("namespace", 3),
        Field("selfLink", 4),
        Field("uid", 5, named="types.UID"),
        Field("resourceVersion", 6),
        Field("generation", 7, Scalar.INT64),
        Field("creationTimestamp", 8, Scalar.TIME),
        Field("deletionTimestamp", 9, Scalar.TIME, Shape.POINTER),
        Field("deletionGracePeriodSeconds", 10, Scalar.INT64, Shape.POINTER),
        Field("labels", 11, shape=Shape.STRING_MAP),
        Field("annotations", 12, shape=Shape.STRING_MAP),
        Field("ownerReferences", 13, _OWNER_REFERENCE, Shape.LIST),
        Field("finalizers", 14, shape=Shape.LIST),
        Field("managedFields", 17, _MANAGED_FIELDS_ENTRY, Shape.LIST),
    ),
)

_METADATA = Field("metadata", 1, OBJECT_META, kept=True)

LIST_META = Struct(
    "v1.ListMeta",
    (
        Field("selfLink", 1),
        Field("resourceVersion", 2),
        Field("continue", 3),
        Field("remainingItemCount", 4, Scalar.INT64, Shape.POINTER),
    ),
)

_SERVER_STORAGE_VERSION = Struct(
    "v1alpha1.ServerStorageVersion",
    (
        Field("apiServerID", 1),
        Field("encodingVersion", 2),
        Field("decodableVersions", 3, shape=Shape.LIST),
        Field("servedVersions", 4, shape=Shape.LIST),
    ),
)

_STORAGE_VERSION_CONDITION = Struct(
    "v1alpha1.StorageVersionCondition",
    (
        Field("type", 1, kept=True, named="v1alpha1.StorageVersionConditionType"),
        Field("status", 2, kept=True, named="v1alpha1.ConditionStatus"),
        Field("observedGeneration", 3, Scalar.INT64),
        Field("lastTransitionTime", 4, Scalar.TIME, kept=True),
        Field("reason", 5, kept=True),
        Field("message", 6),
    ),
)

_STORAGE_VERSION_STATUS = Struct(
    "v1alpha1.StorageVersionStatus",
    (
        Field("storageVersions", 1, _SERVER_STORAGE_VERSION, Shape.LIST),
        Field("commonEncodingVersion", 2, shape=Shape.POINTER),
        Field("conditions", 3, _STORAGE_VERSION_CONDITION, Shape.LIST),
    ),
)

STORAGE_VERSION = Struct(
    "v1alpha1.StorageVersion",
    (
        _METADATA,
        Field("spec", 2, Struct("v1alpha1.StorageVersionSpec", ()), kept=True),
        Field("status", 3, _STORAGE_VERSION_STATUS, kept=True),
    ),
)

_LEASE_SPEC = Struct(
    "v1.LeaseSpec",
    (
        Field("holderIdentity", 1, shape=Shape.POINTER),
        Field("leaseDurationSeconds", 2, Scalar.INT32, Shape.POINTER),
        Field("acquireTime", 3, Scalar.MICRO_TIME, Shape.POINTER),
        Field("renewTime", 4, Scalar.MICRO_TIME, Shape.POINTER),
        Field("leaseTransitions", 5, Scalar.INT32, Shape.POINTER),
        Field("strategy", 6, shape=Shape.POINTER, named="v1.CoordinatedLeaseStrategy"),
        Field("preferredHolder", 7, shape=Shape.POINTER),
    ),
)

LEASE = Struct("v1.Lease", (_METADATA, Field("spec", 2, _LEASE_SPEC, kept=True)))

PARTIAL_OBJECT_METADATA = Struct("v1.PartialObjectMetadata", (_METADATA,))

_PRECONDITIONS = Struct(
    "v1.Preconditions",
    (
        Field("uid", 1, shape=Shape.POINTER, named="types.UID"),
        Field("resourceVersion", 2, shape=Shape.POINTER),
    ),
)

DELETE_OPTIONS = Struct(
    "v1.DeleteOptions",
    (
        Field("gracePeriodSeconds", 1, Scalar.INT64, Shape.POINTER),
        Field("preconditions", 2, _PRECONDITIONS, Shape.POINTER),
        Field("orphanDependents", 3, Scalar.BOOL, Shape.POINTER),
        Field("propagationPolicy", 4, shape=Shape.POINTER, named="v1.DeletionPropagation"),
        Field("dryRun", 5, shape=Shape.LIST),
        Field("ignoreStoreReadErrorWithClusterBreakingPotential", 6, Scalar.BOOL, Shape.POINTER),
    ),
)
