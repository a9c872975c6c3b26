"""Encodes documents that are not aggregated: the older discovery documents, and Status.

A document has a JSON value, for JSON and YAML, and a protobuf message. Keys are in the order of the
Go structs in k8s.io/apimachinery pkg/apis/meta/v1/types.go. Documents without `apiVersion`:
k8s.io/apiserver pkg/endpoints/discovery/util.go.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apidiscovery.meta.v1 import discovery_pb2, status_pb2
from apidiscovery_formats import go_yaml
from apidiscovery_formats.negotiation import JSON, YAML, Representation
from google.protobuf.message import Message

from apidiscovery_service.core.cluster import Addresses
from apidiscovery_service.core.model import (
    CORE_GROUP,
    Group,
    GroupVersionKind,
    Resource,
    Scope,
    Version,
)
from apidiscovery_service.core.snapshot import Document
from apidiscovery_service.kube import go_json, wire
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.messages import message_of

# Groups whose resource lists have no apiVersion, for old clients.
# Source: k8s.io/apiserver pkg/endpoints/discovery/version.go, keepUnversioned.
_UNVERSIONED_GROUPS = (CORE_GROUP, "extensions")


@dataclass(frozen=True, slots=True)
class PlainDocument:
    """A document before it is encoded.

    Attributes:
        kind: Its kind, always written.
        api_version: `v1`, or empty for a document without apiVersion.
        fields: The other fields of the JSON object.
        message: Makes the protobuf message of the same content.
    """

    kind: str
    api_version: str
    fields: dict[str, JSONValue]
    message: Callable[[], Message]


def encode(document: PlainDocument, representation: Representation) -> bytes:
    """Return the body of a document."""
    if representation.serializer not in (JSON, YAML):
        raw = document.message().SerializeToString()
        return wire.envelope(document.api_version, document.kind, raw)
    value: dict[str, JSONValue] = {"kind": document.kind}
    if document.api_version:
        value["apiVersion"] = document.api_version
    value.update(document.fields)
    if representation.serializer is YAML:
        return go_yaml.dump(value)
    return go_json.dumps_pretty(value) if representation.pretty else go_json.dumps(value) + b"\n"


def _document(
    kind: str, api_version: str, fields: dict[str, JSONValue], message: type[Message]
) -> PlainDocument:
    return PlainDocument(kind, api_version, fields, lambda: message_of(message, fields))


def api_versions(core: Document, addresses: Addresses) -> PlainDocument:
    """Return `APIVersions`, which `/api` serves.

    Args:
        core: The document of the core group.
        addresses: Where clients reach the server.
    """
    versions = [version.version for group in core.groups for version in group.group.versions]
    fields = {"versions": versions, **_address_fields(addresses)}
    return _document("APIVersions", "", fields, discovery_pb2.APIVersions)


def for_any_client(server_address: str) -> Addresses:
    """Return the addresses of a server that has one for all clients."""
    return (("0.0.0.0/0", server_address),)


def _address_fields(addresses: Addresses) -> dict[str, JSONValue]:
    fields: list[JSONValue] = [
        {"clientCIDR": clients, "serverAddress": address} for clients, address in addresses
    ]
    return {"serverAddressByClientCIDRs": fields}


def group_list(named: Document, server_address: str = "") -> PlainDocument:
    """Return `APIGroupList`, which `/apis` serves, in the order of kube-aggregator.

    Args:
        named: The document of the named groups.
        server_address: `host:port` of an extension API server, which adds it to each group and has
            no apiVersion; empty for the form of kube-aggregator. Source: k8s.io/apiserver
            pkg/endpoints/discovery/root.go, `groupsLocked` and `ServeHTTP`.
    """
    address = _address_fields(for_any_client(server_address)) if server_address else {}
    groups: list[JSONValue] = [
        {**_group_fields(published.group), **address} for published in named.listed
    ]
    api_version = "" if server_address else "v1"
    return _document("APIGroupList", api_version, {"groups": groups}, discovery_pb2.APIGroupList)


def group(group: Group) -> PlainDocument:
    """Return `APIGroup`, which `/apis/{group}` serves; the first version is the preferred one."""
    return _document("APIGroup", "v1", _group_fields(group), discovery_pb2.APIGroup)


def _group_fields(group: Group) -> dict[str, JSONValue]:
    versions: list[JSONValue] = [
        {"groupVersion": f"{group.name}/{version.version}", "version": version.version}
        for version in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(
    group: Group, version: Version, *, storage_version_hashes: bool = True
) -> PlainDocument:
    """Return `APIResourceList`, which `/api/{version}` and `/apis/{group}/{version}` serve."""
    name = f"{group.name}/{version.version}" if group.name else version.version
    lines = list(_lines(group.name, version, hashes=storage_version_hashes))
    if version.listed:
        places = {listed: place for place, listed in enumerate(version.listed)}
        lines.sort(key=lambda line: places.get(str(line["name"]), len(places)))
    return PlainDocument(
        "APIResourceList",
        "" if group.name in _UNVERSIONED_GROUPS else "v1",
        {"groupVersion": name, "resources": lines},
        lambda: message_of(
            discovery_pb2.APIResourceList,
            {"groupVersion": name, "resources": list(map(_message_fields, lines))},
        ),
    )


def _lines(group: str, version: Version, *, hashes: bool) -> Iterator[dict[str, JSONValue]]:
    """Yield an entry for each resource and for each subresource."""
    own = (group, version.version)
    for resource in version.resources:
        if not resource.is_made_up:
            line = _line(resource, resource.resource, resource.singular_resource)
            line |= _kind_fields(own, resource.response_kind) | {"verbs": resource.verbs}
            if resource.short_names:
                line["shortNames"] = resource.short_names
            if resource.categories:
                line["categories"] = resource.categories
            if hashes and resource.storage_version_hash:
                line["storageVersionHash"] = resource.storage_version_hash
            yield line
        for subresource in resource.subresources:
            line = _line(resource, f"{resource.resource}/{subresource.subresource}", "")
            line |= _kind_fields(own, subresource.response_kind) | {"verbs": subresource.verbs}
            yield line


def _line(resource: Resource, name: str, singular: str) -> dict[str, JSONValue]:
    is_namespaced = resource.scope == Scope.NAMESPACED
    return {"name": name, "singularName": singular, "namespaced": is_namespaced}


def _kind_fields(own: tuple[str, str], kind: GroupVersionKind | None) -> dict[str, JSONValue]:
    """Return group, version and kind of an entry; the list's own group and version are omitted."""
    fields: dict[str, JSONValue] = {}
    if kind is not None and (kind.group, kind.version) != own:
        named = {"group": kind.group, "version": kind.version}
        fields |= {name: text for name, text in named.items() if text}
    return {**fields, "kind": kind.kind if kind else ""}


def _message_fields(line: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
    """Return the fields of an entry's message, whose verbs are a message; null verbs are absent."""
    fields = {name: value for name, value in line.items() if name != "verbs"}
    return fields if line["verbs"] is None else {**fields, "verbs": {"items": line["verbs"]}}


def status(
    code: int, reason: str, message: str, *, details: bool = False, retry_after_s: int = 0
) -> PlainDocument:
    """Return the `Status` of a failed request.

    Args:
        code: HTTP status code.
        reason: Machine-readable reason, such as `NotFound`.
        message: Text for people.
        details: Whether to write details even if they are empty, as go-restful's errors do.
        retry_after_s: Seconds after which to retry; 0 for no advice.
    """
    fields: dict[str, JSONValue] = {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if retry_after_s:
        fields["details"] = {"retryAfterSeconds": retry_after_s}
    elif details:
        fields["details"] = {}
    fields["code"] = code
    return _document("Status", "v1", fields, status_pb2.Status)


def index(paths: Sequence[str]) -> bytes:
    """Return the body of `/`: pretty JSON without kind, the paths sorted and each once.

    Source: k8s.io/apiserver pkg/server/routes/index.go.
    """
    return go_json.dumps_pretty({"paths": sorted(set(paths))})
