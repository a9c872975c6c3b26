"""The Go structs of the kinds: names of fields in JSON, their types, and when Go writes them.

Names, types and order are those of the generated messages. What messages do not have (pointers,
fields without `omitempty`, named types) is listed here. Sources: Go's encoding/json (Marshal);
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
    """Types of fields that are not structs."""

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
    """The form of a field in a Go struct."""

    VALUE = auto()  # always written in protobuf
    POINTER = auto()  # written when set, even to a zero value
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
        attribute: Its name in the generated message; empty when the message has no such field.
        type: Its type; for a list, that of the elements.
        shape: Its form in the struct.
        always: Whether JSON has it even when it is zero: it has no `omitempty`, or is a struct. Of
            no meaning for pointers, lists and maps, which Go omits.
        named: Its Go type where that has a name of its own, such as `types.UID`.
    """

    name: str
    attribute: str = ""
    type: FieldType = Scalar.STRING
    shape: Shape = Shape.VALUE
    always: bool = False
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
    """Facts of a struct that its message does not have.

    Attributes:
        pointers: Fields that are pointers.
        always: Fields without `omitempty` and `omitzero`, apart from structs.
        named: Fields whose types are named string types.
        first: Fields that precede those with lower numbers.
    """

    pointers: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    first: tuple[str, ...] = ()


_SOURCES: Mapping[str, _Source] = {
    "v1.OwnerReference": _Source(
        pointers=("controller", "blockOwnerDeletion"),
        always=("apiVersion", "kind", "name", "uid"),
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
    "v1.APIResource": _Source(pointers=("verbs",)),
    "v1.Status": _Source(pointers=("details",)),
    "v2.APIResourceDiscovery": _Source(pointers=("responseKind",)),
    "v2.APISubresourceDiscovery": _Source(pointers=("responseKind",)),
    "v1.ListMeta": _Source(pointers=("remainingItemCount", "shardInfo")),
    "v1alpha1.StorageVersionCondition": _Source(
        always=("type", "status", "lastTransitionTime", "reason"),
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
    """Return the Go struct of a message."""
    go_type = _go_type(message)
    source = _SOURCES.get(go_type, _Source())
    fields = [_field(one, source) for one in message.fields]
    return Struct(go_type, tuple(sorted(fields, key=lambda one: one.name not in source.first)))


def _go_type(message: Descriptor) -> str:
    return f"{message.file.package.rpartition('.')[2]}.{message.name}"


def _field(one: FieldDescriptor, source: _Source) -> Field:
    shape = _shape(one, source)
    field_type = Scalar.STRING if shape is Shape.STRING_MAP else _type(one)
    return Field(
        one.json_name,
        one.name,
        field_type,
        shape,
        always=isinstance(field_type, Struct) or one.json_name in source.always,
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
    """Return the fields of a struct that Go writes, in the order of the Go source.

    Args:
        struct: The struct.
        fields: In any order; missing ones are zero.
    """
    form: dict[str, JSONValue] = {}
    for one in struct.fields:
        if one.shape is Shape.VALUE:
            value = _value(one, fields.get(one.name))
            if value or one.always:
                form[one.name] = value
        elif one.name in fields:
            value = _contents(one, fields[one.name])
            if value or one.shape is Shape.POINTER:
                form[one.name] = value
    return form


def _value(one: Field, value: JSONValue) -> JSONValue:
    if isinstance(one.type, Struct):
        return in_go_form(one.type, as_mapping(value))
    return ZEROS.get(one.type) if value is None else value


def _contents(one: Field, value: JSONValue) -> JSONValue:
    """Return the contents of a pointer, list or map."""
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
