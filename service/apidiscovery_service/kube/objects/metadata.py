"""Reading and changing the metadata of objects, and PartialObjectMetadata."""

from collections.abc import Mapping

from apidiscovery.meta.v1 import meta_pb2

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.go_structs import struct_of
from apidiscovery_service.kube.objects.kinds import PARTIAL_OBJECT_METADATA, Object, ObjectKind

_OBJECT_META = struct_of(meta_pb2.ObjectMeta.DESCRIPTOR)
_ORDER = {field.name: place for place, field in enumerate(_OBJECT_META.fields)}


def metadata_of(item: Mapping[str, JSONValue]) -> Object:
    """Return the metadata of an object, empty if it has none; do not change it in place."""
    metadata = item.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def finalizers_of(item: Mapping[str, JSONValue]) -> list[JSONValue]:
    """Return the finalizers of an object, which must be gone before it is deleted."""
    finalizers = metadata_of(item).get("finalizers")
    return finalizers if isinstance(finalizers, list) else []


def is_terminating(item: Mapping[str, JSONValue]) -> bool:
    """Whether an object is deleted as soon as it has no finalizers."""
    return metadata_of(item).get("deletionTimestamp") is not None


def with_metadata(item: Object, changes: Mapping[str, JSONValue]) -> Object:
    """Return a copy of an object with some of its metadata changed, keys in Go's order.

    Args:
        item: The object, which is not changed.
        changes: Fields of ObjectMeta and their new values; null removes a field.
    """
    merged = {**metadata_of(item), **changes}
    present = [name for name, value in merged.items() if value is not None]
    return {
        **item,
        "metadata": {name: merged[name] for name in sorted(present, key=_ORDER.__getitem__)},
    }


def partial(item: Object, kind: ObjectKind = PARTIAL_OBJECT_METADATA) -> Object:
    """Return the metadata of an object as PartialObjectMetadata.

    Source: k8s.io/apiserver pkg/endpoints/handlers/response.go (asPartialObjectMetadata).

    Args:
        item: The object.
        kind: `PARTIAL_OBJECT_METADATA` or `PARTIAL_OBJECT_METADATA_V1BETA1`.
    """
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": item["metadata"]}
