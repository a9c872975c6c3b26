"""The Go structs of the kinds: their fields' names in JSON, types, and when they show.

Names, types and order are those of the generated messages. What a message does not say (what Go
holds by pointer, what has no `omitempty`, types with names) is listed here. Sources:
k8s.io/apimachinery pkg/apis/meta/v1/types.go; k8s.io/api apiserverinternal/v1alpha1 and
coordination/v1, types.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from apidiscovery_service.kube.go_json import JSONValue


class Scalar(Enum):
    """What a field holds that is no struct."""

    STRING = auto()
    BOOL = auto()
    INT32 = auto()
    INT64 = auto()
    TIME = auto()  # metav1.Time: whole seconds
    MICRO_TIME = auto()  # metav1.MicroTime: microseconds
    RAW_JSON = auto()  # metav1.FieldsV1: any JSON, which protobuf carries as text


ZEROS: Mapping[Scalar, JSONValue] = {
    Scalar.STRING: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
}
"""The zero value of scalars in JSON; of the others it is null."""


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
        attribute: Its name in the generated message; empty of what is no field of one.
        type: What it holds; for a list, what each element is.
        shape: How the struct holds it.
        kept: Whether JSON has it even when it is zero: there is no `omitempty`, or Go cannot tell
            (a struct). Of no meaning for pointers, lists and maps, which Go leaves out.
        named: Its Go type where that is no plain one, such as `types.UID`.
    """

    name: str
    attribute: str = ""
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

_SCALARS = {
    FieldDescriptor.TYPE_STRING: Scalar.STRING,
    FieldDescriptor.TYPE_BOOL: Scalar.BOOL,
    FieldDescriptor.TYPE_INT32: Scalar.INT32,
    FieldDescriptor.TYPE_INT64: Scalar.INT64,
}
_SCALAR_MESSAGES = {
    "v1.Time": Scalar.TIME,
    "v1.MicroTime": Scalar.MICRO_TIME,
    "v1.FieldsV1": Scalar.RAW_JSON,
}


@dataclass(frozen=True, slots=True)
class _Source:
    """What the Go source says of a struct and its message does not.

    Attributes:
        pointers: Fields that are held by pointer.
        kept: Fields without `omitempty` and `omitzero`; structs need not be named.
        named: Fields whose types are strings by another name.
        first: Fields that stand before those with lower numbers.
    """

    pointers: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    first: tuple[str, ...] = ()


_SOURCES: Mapping[str, _Source] = {
    "v1.OwnerReference": _Source(
        pointers=("controller", "blockOwnerDeletion"),
        kept=("apiVersion", "kind", "name", "uid"),
        named={"uid": "types.UID"},
        first=("apiVersion",),
    ),
    "v1.ManagedFieldsEntry": _Source(
        pointers=("time", "fieldsV1"),
        named={"operation": "v1.ManagedFieldsOperationType"},
    ),
    # creationTimestamp has `omitzero` since Kubernetes v1.34; before, its zero was `null`.
    "v1.ObjectMeta": _Source(
        pointers=("deletionTimestamp", "deletionGracePeriodSeconds"),
        named={"uid": "types.UID"},
    ),
    "v1.ListMeta": _Source(pointers=("remainingItemCount", "shardInfo")),
    "v1alpha1.StorageVersionCondition": _Source(
        kept=("type", "status", "lastTransitionTime", "reason"),
        named={
            "type": "v1alpha1.StorageVersionConditionType",
            "status": "v1alpha1.ConditionStatus",
        },
    ),
    "v1alpha1.StorageVersionStatus": _Source(pointers=("commonEncodingVersion",)),
    "v1.LeaseSpec": _Source(
        pointers=(
            "holderIdentity",
            "leaseDurationSeconds",
            "acquireTime",
            "renewTime",
            "leaseTransitions",
            "strategy",
            "preferredHolder",
        ),
        named={"strategy": "v1.CoordinatedLeaseStrategy"},
    ),
    "v1.Preconditions": _Source(pointers=("uid", "resourceVersion"), named={"uid": "types.UID"}),
    "v1.DeleteOptions": _Source(
        pointers=(
            "gracePeriodSeconds",
            "preconditions",
            "orphanDependents",
            "propagationPolicy",
            "ignoreStoreReadErrorWithClusterBreakingPotential",
        ),
        named={"propagationPolicy": "v1.DeletionPropagation"},
    ),
}


@cache
def struct_of(message: Descriptor) -> Struct:
    """Return the Go struct that a message stands for."""
    go_type = _go_type(message)
    source = _SOURCES.get(go_type, _Source())
    fields = [_field(one, source) for one in message.fields]
    return Struct(go_type, tuple(sorted(fields, key=lambda one: one.name not in source.first)))


def _go_type(message: Descriptor) -> str:
    return f"{message.file.package.rpartition('.')[2]}.{message.name}"


def _field(one: FieldDescriptor, source: _Source) -> Field:
    shape = _shape(one, source)
    held = Scalar.STRING if shape is Shape.STRING_MAP else _type(one)
    return Field(
        one.json_name,
        one.name,
        held,
        shape,
        kept=isinstance(held, Struct) or one.json_name in source.kept,
        named=source.named.get(one.json_name, ""),
    )


def _shape(one: FieldDescriptor, source: _Source) -> Shape:
    if one.message_type is not None and one.message_type.GetOptions().map_entry:
        return Shape.STRING_MAP
    if one.is_repeated:
        return Shape.LIST
    return Shape.POINTER if one.json_name in source.pointers else Shape.VALUE


def _type(one: FieldDescriptor) -> FieldType:
    if one.message_type is None:
        return _SCALARS[one.type]
    scalar = _SCALAR_MESSAGES.get(_go_type(one.message_type))
    return struct_of(one.message_type) if scalar is None else scalar


def in_go_form(struct: Struct, fields: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
    """Return fields in the order of the Go source, only those that Go would write.

    Args:
        struct: What they are fields of.
        fields: In any order; what is missing is zero.
    """
    form: dict[str, JSONValue] = {}
    for one in struct.fields:
        if one.shape is Shape.VALUE:
            value = _value(one, fields.get(one.name))
            if value or one.kept:
                form[one.name] = value
        elif one.name in fields:
            value = _held(one, fields[one.name])
            if value or one.shape is Shape.POINTER:
                form[one.name] = value
    return form


def _value(one: Field, value: JSONValue) -> JSONValue:
    if isinstance(one.type, Struct):
        return in_go_form(one.type, as_mapping(value))
    return ZEROS.get(one.type) if value is None else value


def _held(one: Field, value: JSONValue) -> JSONValue:
    """Return what a pointer, list or map holds."""
    if one.shape is Shape.LIST:
        return [_value(one, item) for item in as_list(value)]
    if one.shape is Shape.STRING_MAP:
        return dict(sorted(as_mapping(value).items()))
    return _value(one, value) if isinstance(one.type, Struct) else value


def as_list(value: JSONValue) -> Sequence[JSONValue]:
    """Return a JSON list, empty if the value is none."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def as_mapping(value: JSONValue) -> Mapping[str, JSONValue]:
    """Return a JSON object, empty if the value is none."""
    return value if isinstance(value, Mapping) else {}
