"""Writes discovery documents byte for byte as Kubernetes' Go programs do.

It is the inverse of `_reading`. The order of keys is that of the Go structs, and empty values are
left out where they have `omitempty`. Source: k8s.io/api apidiscovery/v2/types.go and apimachinery
pkg/apis/meta/v1/types.go. Fields that this package does not know follow those that it does.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from apidiscovery_formats import go_json
from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND

from apidiscovery_client._negotiation import VERSIONS
from apidiscovery_client.model import (
    CURRENT,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Stale,
    Subresource,
    Version,
)

Fields = dict[str, object]

_HEADS = tuple(
    f'{{"kind":"{AGGREGATED_KIND}","apiVersion":"{AGGREGATED_GROUP}/{version}",'.encode()
    for version in VERSIONS
)
_ANY_CLIENT = "0.0.0.0/0"
# The key in `extra` of the unknown fields that were read from protobuf, as bytes.
PROTOBUF_EXTRA = "protobuf:"
# Groups whose resource lists go without apiVersion, for the sake of clients older than it.
# Source: k8s.io/apiserver pkg/endpoints/discovery/version.go `keepUnversioned`.
_UNVERSIONED_GROUPS = ("", "extensions")


def write_aggregated(
    groups: Iterable[Group], version: str = "v2", *, as_stated: bool = False
) -> bytes:
    r"""Return an `APIGroupDiscoveryList` as compact JSON with a line feed.

    Args:
        groups: In the order of the document; `/api` has the core group, `/apis` all others.
        version: That of `apidiscovery.k8s.io`: `v2` or `v2beta1`.
        as_stated: Whether to leave out resources of earlier answers (`Stale.retained`).

    >>> write_aggregated([])[-26:]
    b'"metadata":{},"items":[]}\n'
    """
    items = [_group_item(group, as_stated=as_stated) for group in groups]
    return document_json(
        {
            "kind": AGGREGATED_KIND,
            "apiVersion": f"{AGGREGATED_GROUP}/{version}",
            "metadata": {},
            "items": items,
        }
    )


def etag_of(body: bytes) -> str:
    """Return the ETag, unquoted, that kube-apiserver gives an aggregated JSON document.

    It is the SHA-512, in upper-case hex, of the document without kind, apiVersion and the line
    feed at the end, and so the same for v2 and v2beta1. Empty for a body that does not begin as
    Kubernetes writes it.
    Source: k8s.io/apiserver pkg/endpoints/discovery/aggregated/etag.go `calculateETag`.
    """
    head = next((head for head in _HEADS if body.startswith(head)), None)
    if head is None:
        return ""
    hashed = hashlib.sha512(b"{")
    hashed.update(memoryview(body)[len(head) : len(body) - body.endswith(b"\n")])
    return hashed.hexdigest().upper()


def write_protobuf(groups: Iterable[Group], version: str = "v2") -> bytes:
    """Return an `APIGroupDiscoveryList` as `application/vnd.kubernetes.protobuf`, with envelope.

    Of the fields that this package does not know it has those that were read from protobuf, just
    as JSON has those that were read from JSON. The arguments are those of `write_aggregated`.
    """
    from apidiscovery_client import _writing_protobuf  # noqa: PLC0415 - few need the stubs

    return _writing_protobuf.aggregated(groups, version)


def document_json(fields: Mapping[str, object]) -> bytes:
    """Return compact JSON as Go's encoding/json writes it, with a line feed."""
    return go_json.dumps(fields).encode() + b"\n"


# The unaggregated documents, which `document_json` encodes.


def core_versions_fields(core: Group | None, server_address: str) -> Fields:
    """Return `APIVersions`, the unaggregated document of `/api`.

    Args:
        core: The core group; None for a server without it.
        server_address: `host:port` at which clients reach the server.
    """
    return {
        "kind": "APIVersions",
        "versions": [version.name for version in core.versions] if core else [],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": _ANY_CLIENT, "serverAddress": server_address}
        ],
    }


def group_list_fields(groups: Iterable[Group]) -> Fields:
    """Return `APIGroupList`, the unaggregated document of `/apis`, in the order of the groups."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group_entry(group) for group in groups],
    }


def group_fields(group: Group) -> Fields:
    """Return `APIGroup`, the document of `/apis/{group}`."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(group)}


def resource_list_fields(version: Version) -> Fields:
    """Return `APIResourceList`, the document of `/api/{version}` and `/apis/{group}/{version}`.

    Subresources follow their resource.
    """
    told: Fields = {"kind": "APIResourceList"}
    if version.gv.group not in _UNVERSIONED_GROUPS:
        told["apiVersion"] = "v1"
    told["groupVersion"] = str(version.gv)
    told["resources"] = [line for found in version.resources for line in _lines(found)]
    return told


def stated_freshness(version: Version) -> str:
    """Return the freshness of a version in a document: as stated, else by the state."""
    return version.stated_freshness or ("Current" if version.freshness == CURRENT else "Stale")


def is_parent_only(resource: Resource) -> bool:
    """Return whether a resource is listed only as the parent of its subresources.

    Source: k8s.io/apiserver pkg/endpoints/installer.go `ConvertGroupVersionIntoToDiscovery`: such
    a parent has no kind, and its verbs are null.
    """
    return bool(resource.subresources) and not (
        resource.kind or resource.verbs or resource.singular_name
    )


def _as_stated(version: Version) -> Version:
    freshness = version.freshness
    if not (isinstance(freshness, Stale) and freshness.retained):
        return version
    return Version(version.gv, (), freshness, version.stated_freshness, version.extra)


def _group_item(group: Group, *, as_stated: bool) -> Fields:
    """Return an entry of `items`; unknown metadata is in `extra["metadata"]`."""
    metadata: Fields = {"name": group.name} if group.name else {}
    more = group.extra.get("metadata")
    if isinstance(more, Mapping):
        metadata.update(more)  # pyright: ignore[reportUnknownArgumentType] - of any content
    item: Fields = {"metadata": metadata}
    if group.versions:
        versions = map(_as_stated, group.versions) if as_stated else group.versions
        item["versions"] = [_version_entry(version) for version in versions]
    return {**item, **_more(group.extra), "metadata": metadata}


def _version_entry(version: Version) -> Fields:
    entry: Fields = {"version": version.name}
    if version.resources:
        entry["resources"] = [_resource_entry(resource) for resource in version.resources]
    entry["freshness"] = stated_freshness(version)
    return entry | _more(version.extra)


def _resource_entry(resource: Resource) -> Fields:
    entry: Fields = {"resource": resource.name}
    if resource.response_kind is not None:
        entry["responseKind"] = _kind(resource.response_kind)
    entry["scope"] = resource.scope
    entry["singularResource"] = resource.singular_name
    entry["verbs"] = None if is_parent_only(resource) else resource.verbs
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories
    if resource.subresources:
        entry["subresources"] = [_subresource_entry(found) for found in resource.subresources]
    return entry | _more(resource.extra)


def _subresource_entry(subresource: Subresource) -> Fields:
    entry: Fields = {"subresource": subresource.name}
    if subresource.response_kind is not None:
        entry["responseKind"] = _kind(subresource.response_kind)
    if subresource.accepted_types:
        entry["acceptedTypes"] = [_kind(kind) for kind in subresource.accepted_types]
    entry["verbs"] = subresource.verbs
    return entry | _more(subresource.extra)


def _more(extra: Mapping[str, object]) -> Fields:
    """Return the unknown fields that JSON can have."""
    if not extra:
        return {}
    return {name: value for name, value in extra.items() if name != PROTOBUF_EXTRA}


def _kind(kind: GroupVersionKind) -> Fields:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _group_entry(group: Group) -> Fields:
    """Return a group of an `APIGroupList`.

    Without a stated preference the first version is the preferred one, also when it is stale.
    Source: k8s.io/kube-aggregator pkg/apiserver/handler_apis.go `convertToDiscoveryAPIGroup`.
    """
    names = [version.name for version in group.versions]
    preferred = group.stated_preference or (names[0] if names else "")
    return {
        "name": group.name,
        "versions": [_version_name(group.name, name) for name in names],
        "preferredVersion": _version_name(group.name, preferred),
        **{name: value for name, value in _more(group.extra).items() if name != "metadata"},
    }


def _version_name(group: str, version: str) -> Fields:
    return {
        "groupVersion": str(GroupVersion(group, version)) if version else "",
        "version": version,
    }


def _lines(resource: Resource) -> Iterator[Fields]:
    if not is_parent_only(resource):
        yield _resource_line(resource)
    for subresource in resource.subresources:
        yield _subresource_line(resource, subresource)


def _resource_line(resource: Resource) -> Fields:
    line: Fields = {
        "name": resource.name,
        "singularName": resource.singular_name,
        "namespaced": resource.is_namespaced,
        **_kind_fields(resource, resource.response_kind),
        "verbs": resource.verbs,
    }
    if resource.short_names:
        line["shortNames"] = resource.short_names
    if resource.categories:
        line["categories"] = resource.categories
    if resource.storage_version_hash:
        line["storageVersionHash"] = resource.storage_version_hash
    return line | _more(resource.extra)


def _subresource_line(resource: Resource, subresource: Subresource) -> Fields:
    return {
        "name": f"{resource.name}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.is_namespaced,
        **_kind_fields(resource, subresource.response_kind),
        "verbs": subresource.verbs,
        **_more(subresource.extra),
    }


def _kind_fields(resource: Resource, kind: GroupVersionKind | None) -> Fields:
    """Return group, version and kind of an entry; the first two only where the list has them.

    For the resource's own kind they are those of the list, and left out, as aggregated documents
    tell them of custom resources. Other kinds have what was told: a `Scale` of
    `extensions/v1beta1` says so in a list of `extensions/v1beta1`.
    Source: k8s.io/apiserver pkg/endpoints/installer.go `registerResourceHandlers`.
    """
    if kind is None:
        return {"kind": ""}
    is_own = kind == GroupVersionKind(resource.gv.group, resource.gv.version, resource.kind)
    told = {} if is_own else {"group": kind.group, "version": kind.version}
    return {**{name: value for name, value in told.items() if value}, "kind": kind.kind}
