"""Encodes documents that are not aggregated: the older discovery documents, and Status.

A document has a JSON value, for JSON and YAML, and a protobuf message. Keys are in the order of the
Go structs in k8s.io/apimachinery pkg/apis/meta/v1/types.go. Documents without `apiVersion`:
k8s.io/apiserver pkg/endpoints/discovery/util.go.
"""

from collections.abc import Callable, Iterator, Sequence
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
    Subresource,
    Version,
)
from apidiscovery_service.core.snapshot import Document
from apidiscovery_service.kube import go_json, wire
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.wire import list_meta

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


def api_versions(core: Document, addresses: Addresses) -> PlainDocument:
    """Return `APIVersions`, which `/api` serves.

    Args:
        core: The document of the core group.
        addresses: Where clients reach the server.
    """
    versions = [version.version for group in core.groups for version in group.group.versions]
    return PlainDocument(
        "APIVersions",
        "",
        {"versions": versions, **_address_fields(addresses)},
        lambda: discovery_pb2.APIVersions(
            versions=versions, server_address_by_client_cidrs=_address_messages(addresses)
        ),
    )


def for_any_client(server_address: str) -> Addresses:
    """Return the addresses of a server that has one for all clients."""
    return (("0.0.0.0/0", server_address),)


def _address_fields(addresses: Addresses) -> dict[str, JSONValue]:
    fields: list[JSONValue] = [
        {"clientCIDR": clients, "serverAddress": address} for clients, address in addresses
    ]
    return {"serverAddressByClientCIDRs": fields}


def _address_messages(addresses: Addresses) -> list[discovery_pb2.ServerAddressByClientCIDR]:
    return [
        discovery_pb2.ServerAddressByClientCIDR(client_cidr=clients, server_address=address)
        for clients, address in addresses
    ]


def group_list(named: Document, server_address: str = "") -> PlainDocument:
    """Return `APIGroupList`, which `/apis` serves, in the order of kube-aggregator.

    Args:
        named: The document of the named groups.
        server_address: `host:port` of an extension API server, which adds it to each group and has
            no apiVersion; empty for the form of kube-aggregator. Source: k8s.io/apiserver
            pkg/endpoints/discovery/root.go, `groupsLocked` and `ServeHTTP`.
    """
    groups = [published.group for published in named.listed]
    if server_address:
        return _group_list_at(groups, for_any_client(server_address))
    return PlainDocument(
        "APIGroupList",
        "v1",
        {"groups": [_group_fields(group) for group in groups]},
        lambda: discovery_pb2.APIGroupList(groups=[_group_message(group) for group in groups]),
    )


def _group_list_at(groups: Sequence[Group], addresses: Addresses) -> PlainDocument:
    address = _address_fields(addresses)

    def message() -> Message:
        made = [_group_message(group) for group in groups]
        for one in made:
            one.server_address_by_client_cidrs.extend(_address_messages(addresses))
        return discovery_pb2.APIGroupList(groups=made)

    fields: list[JSONValue] = [{**_group_fields(group), **address} for group in groups]
    return PlainDocument("APIGroupList", "", {"groups": fields}, message)


def group(group: Group) -> PlainDocument:
    """Return `APIGroup`, which `/apis/{group}` serves; the first version is the preferred one."""
    return PlainDocument("APIGroup", "v1", _group_fields(group), lambda: _group_message(group))


def _group_versions(group: Group) -> list[tuple[str, str]]:
    return [(f"{group.name}/{v.version}", v.version) for v in group.versions]


def _group_fields(group: Group) -> dict[str, JSONValue]:
    versions: list[JSONValue] = [
        {"groupVersion": name, "version": version} for name, version in _group_versions(group)
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def _group_message(group: Group) -> discovery_pb2.APIGroup:
    versions = [
        discovery_pb2.GroupVersionForDiscovery(group_version=name, version=version)
        for name, version in _group_versions(group)
    ]
    return discovery_pb2.APIGroup(name=group.name, versions=versions, preferred_version=versions[0])


@dataclass(frozen=True, slots=True)
class _APIResource:
    """An entry of an APIResourceList; subresources have entries of their own."""

    name: str
    singular_name: str
    namespaced: bool
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...] | None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""


def resource_list(
    group: Group, version: Version, *, storage_version_hashes: bool = True
) -> PlainDocument:
    """Return `APIResourceList`, which `/api/{version}` and `/apis/{group}/{version}` serve."""
    name = f"{group.name}/{version.version}" if group.name else version.version
    lines = list(_lines(group.name, version))
    if version.listed:
        places = {listed: place for place, listed in enumerate(version.listed)}
        lines.sort(key=lambda line: places.get(line.name, len(places)))
    return PlainDocument(
        "APIResourceList",
        "" if group.name in _UNVERSIONED_GROUPS else "v1",
        {
            "groupVersion": name,
            "resources": [_line_fields(line, hashes=storage_version_hashes) for line in lines],
        },
        lambda: discovery_pb2.APIResourceList(
            group_version=name,
            resources=[_line_message(line, hashes=storage_version_hashes) for line in lines],
        ),
    )


def _lines(group: str, version: Version) -> Iterator[_APIResource]:
    for resource in version.resources:
        if not resource.is_made_up:
            yield _resource_line(group, version.version, resource)
        for subresource in resource.subresources:
            yield _subresource_line(group, version.version, resource, subresource)


def _elided(group: str, version: str, kind: GroupVersionKind | None) -> tuple[str, str, str]:
    """Return group, version and kind of an entry; group and version are empty if the list's."""
    if kind is None:
        return ("", "", "")
    if (kind.group, kind.version) == (group, version):
        return ("", "", kind.kind)
    return (kind.group, kind.version, kind.kind)


def _resource_line(group: str, version: str, resource: Resource) -> _APIResource:
    return _APIResource(
        resource.resource,
        resource.singular_resource,
        resource.scope == Scope.NAMESPACED,
        *_elided(group, version, resource.response_kind),
        resource.verbs,
        resource.short_names,
        resource.categories,
        resource.storage_version_hash,
    )


def _subresource_line(
    group: str, version: str, resource: Resource, subresource: Subresource
) -> _APIResource:
    return _APIResource(
        f"{resource.resource}/{subresource.subresource}",
        "",
        resource.scope == Scope.NAMESPACED,
        *_elided(group, version, subresource.response_kind),
        subresource.verbs,
    )


def _line_fields(line: _APIResource, *, hashes: bool) -> dict[str, JSONValue]:
    fields: dict[str, JSONValue] = {
        "name": line.name,
        "singularName": line.singular_name,
        "namespaced": line.namespaced,
    }
    if line.group:
        fields["group"] = line.group
    if line.version:
        fields["version"] = line.version
    fields["kind"] = line.kind
    fields["verbs"] = line.verbs
    if line.short_names:
        fields["shortNames"] = line.short_names
    if line.categories:
        fields["categories"] = line.categories
    if hashes and line.storage_version_hash:
        fields["storageVersionHash"] = line.storage_version_hash
    return fields


def _line_message(line: _APIResource, *, hashes: bool) -> discovery_pb2.APIResource:
    return discovery_pb2.APIResource(
        name=line.name,
        namespaced=line.namespaced,
        kind=line.kind,
        verbs=None if line.verbs is None else discovery_pb2.Verbs(items=line.verbs),
        short_names=line.short_names,
        singular_name=line.singular_name,
        categories=line.categories,
        group=line.group,
        version=line.version,
        storage_version_hash=line.storage_version_hash if hashes else "",
    )


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
    return PlainDocument("Status", "v1", fields, lambda: _status_message(fields, retry_after_s))


def _status_message(fields: dict[str, JSONValue], retry_after_s: int) -> status_pb2.Status:
    details = status_pb2.StatusDetails(
        name="", group="", kind="", retry_after_seconds=retry_after_s, uid=""
    )
    return status_pb2.Status(
        metadata=list_meta(),
        status=str(fields["status"]),
        message=str(fields["message"]),
        reason=str(fields["reason"]),
        details=details if "details" in fields else None,
        code=int(str(fields["code"])),
    )


def index(paths: Sequence[str]) -> bytes:
    """Return the body of `/`: pretty JSON without kind, the paths sorted and each once.

    Source: k8s.io/apiserver pkg/server/routes/index.go.
    """
    return go_json.dumps_pretty({"paths": sorted(set(paths))})
