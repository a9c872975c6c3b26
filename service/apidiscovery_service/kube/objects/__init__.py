"""StorageVersions and Leases as values: their fields, forms on the wire, events and tables.

Pure: nothing here waits, stores or answers a request. An object is its JSON form, keys in the order
of the Go struct and only what Go would write; it is never changed in place.
"""

from apidiscovery_service.kube.objects.decoding import (
    Decoded,
    Undecodable,
    decode,
    from_value,
    refusal,
)
from apidiscovery_service.kube.objects.encoding import ListMeta, encode, encode_list, encode_value
from apidiscovery_service.kube.objects.kinds import (
    DELETE_OPTIONS,
    LEASE,
    PARTIAL_OBJECT_METADATA,
    PARTIAL_OBJECT_METADATA_V1BETA1,
    STORAGE_VERSION,
    Kind,
    Object,
)
from apidiscovery_service.kube.objects.metadata import metadata_of, partial, with_metadata
from apidiscovery_service.kube.objects.tables import IncludeObject, table
from apidiscovery_service.kube.objects.watch_events import EventType, bookmark, frame

__all__ = [
    "DELETE_OPTIONS",
    "LEASE",
    "PARTIAL_OBJECT_METADATA",
    "PARTIAL_OBJECT_METADATA_V1BETA1",
    "STORAGE_VERSION",
    "Decoded",
    "EventType",
    "IncludeObject",
    "Kind",
    "ListMeta",
    "Object",
    "Undecodable",
    "bookmark",
    "decode",
    "encode",
    "encode_list",
    "encode_value",
    "frame",
    "from_value",
    "metadata_of",
    "partial",
    "refusal",
    "table",
    "with_metadata",
]
