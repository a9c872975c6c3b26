"""metav1.Table: objects as rows, which is what `kubectl get` asks for.

A Table has no protobuf: kube-apiserver takes an Accept clause that asks for one as not acceptable
(k8s.io/apiserver pkg/endpoints/handlers/rest.go, AllowsMediaTypeTransform). Sources:
k8s.io/kubernetes pkg/printers/internalversion/printers.go and pkg/printers/tablegenerator.go;
k8s.io/apiserver pkg/endpoints/handlers/response.go (asTable). The descriptions of columns are not
Kubernetes'.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from apidiscovery_formats.go_text import human_duration

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.encoding import ListMeta
from apidiscovery_service.kube.objects.go_structs import as_list, as_mapping
from apidiscovery_service.kube.objects.kinds import (
    LEASE,
    PARTIAL_OBJECT_METADATA,
    PARTIAL_OBJECT_METADATA_V1BETA1,
    STORAGE_VERSION,
    Object,
    ObjectKind,
)
from apidiscovery_service.kube.objects.metadata import metadata_of, partial
from apidiscovery_service.kube.objects.watch_events import INITIAL_EVENTS_END

GROUP = "meta.k8s.io"
_PARTIALS = {
    partials.version: partials
    for partials in (PARTIAL_OBJECT_METADATA, PARTIAL_OBJECT_METADATA_V1BETA1)
}

_MOST_SERVERS = 3  # printers.go, formatStorageVersions


class IncludeObject(StrEnum):
    """How much of its object a row has; the metadata by default."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def table(  # noqa: PLR0913 - each is an option of the request
    kind: ObjectKind,
    items: Sequence[Object],
    metadata: ListMeta,
    *,
    now: datetime,
    include: IncludeObject = IncludeObject.METADATA,
    version: str = "v1",
    headers: bool = True,
) -> Object:
    """Return the Table of objects, to be written by `encoding.encode_value`.

    Args:
        kind: `STORAGE_VERSION` or `LEASE`.
        items: The objects, in the order of the rows.
        metadata: That of the list; for a single object, its resourceVersion alone.
        now: The time, for ages; with a time zone.
        include: How much of its object each row has.
        version: Of meta.k8s.io: `v1` or `v1beta1`.
        headers: Whether to define the columns; a watch does so in its first event alone.
    """
    printer = _PRINTERS[kind.kind]
    columns: JSONValue = [column.fields() for column in printer.columns] if headers else None
    return {
        "kind": "Table",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": metadata.fields(),
        "columnDefinitions": columns,
        "rows": [
            {"cells": printer.cells(item, now), "object": _included(item, include, version)}
            for item in items
        ],
    }


def _included(item: Object, include: IncludeObject, version: str) -> JSONValue:
    if include is IncludeObject.OBJECT:
        return item
    if include is IncludeObject.NONE and not _ends_initial_events(item):
        return None
    return partial(item, _PARTIALS[version])


def _ends_initial_events(item: Object) -> bool:
    """Return whether it is the bookmark that clients must recognise, which needs its metadata."""
    annotations = as_mapping(metadata_of(item).get("annotations"))
    return annotations.get(INITIAL_EVENTS_END) == "true"


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    description: str
    format: str = ""

    def fields(self) -> dict[str, JSONValue]:
        return {
            "name": self.name,
            "type": "string",
            "format": self.format,
            "description": self.description,
            "priority": 0,
        }


@dataclass(frozen=True, slots=True)
class _Printer:
    """The columns and cells of a kind."""

    columns: tuple[_Column, ...]
    cells: Callable[[Object, datetime], list[JSONValue]]


_NAME = _Column("Name", "The name of the object, unique among those of its kind.", "name")
_AGE = _Column("Age", "How long ago the object was created.")


def _storage_version_cells(item: Object, now: datetime) -> list[JSONValue]:
    status = as_mapping(item.get("status"))
    return [
        _name(item),
        status.get("commonEncodingVersion", "<unset>"),
        _servers(status.get("storageVersions")),
        _age(item, now),
    ]


def _servers(entries: JSONValue) -> str:
    servers = map(as_mapping, as_list(entries))
    texts = [f"{one.get('apiServerID', '')}={one.get('encodingVersion', '')}" for one in servers]
    text = ",".join(texts[:_MOST_SERVERS])
    if len(texts) > _MOST_SERVERS:
        return f"{text} + {len(texts) - _MOST_SERVERS} more..."
    return text or "<unset>"


def _lease_cells(item: Object, now: datetime) -> list[JSONValue]:
    return [_name(item), as_mapping(item.get("spec")).get("holderIdentity", ""), _age(item, now)]


_PRINTERS = {
    STORAGE_VERSION.kind: _Printer(
        (
            _NAME,
            _Column("CommonEncodingVersion", "The version that all servers store, if they agree."),
            _Column("StorageVersions", "The servers and the version that each of them stores."),
            _AGE,
        ),
        _storage_version_cells,
    ),
    LEASE.kind: _Printer(
        (_NAME, _Column("Holder", "Who holds the lease."), _AGE),
        _lease_cells,
    ),
}


def _name(item: Object) -> JSONValue:
    return metadata_of(item).get("name", "")


def _age(item: Object, now: datetime) -> str:
    created = metadata_of(item).get("creationTimestamp")
    if not isinstance(created, str):
        return "<unknown>"
    return human_duration(int((now - datetime.fromisoformat(created)).total_seconds()))
