"""Writes discovery documents as Kubernetes' protobuf, with its envelope.

Kubernetes writes every scalar, also the empty ones, so all are set here. Source: the generated
marshallers of k8s.io/api and k8s.io/apimachinery.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from apidiscovery.meta.v1 import discovery_pb2 as unaggregated_pb2
from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery.v2 import discovery_pb2
from apidiscovery_formats.go_json import without_surrogates
from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND
from google.protobuf.message import Message

from apidiscovery_client import _writing
from apidiscovery_client.model import Group, GroupVersionKind, Resource, Subresource, Version

M = TypeVar("M", bound=Message)

_MAGIC = b"k8s\x00"


def aggregated(groups: Iterable[Group], version: str) -> bytes:
    """Return the `APIGroupDiscoveryList` of these groups.

    v2 and v2beta1 have the same messages; the version stands in the envelope alone.
    """
    message = discovery_pb2.APIGroupDiscoveryList(metadata=list_meta(), items=map(_group, groups))
    return enveloped(f"{AGGREGATED_GROUP}/{version}", AGGREGATED_KIND, message)


def unaggregated(fields: Mapping[str, object]) -> bytes:
    """Return what one of the `..._fields` functions of `writing` made, as protobuf.

    Raises:
        KeyError: The kind is another than theirs.
    """
    kind = str(fields["kind"])
    return enveloped(str(fields.get("apiVersion", "")), kind, _MESSAGES[kind](fields))


def enveloped(api_version: str, kind: str, message: Message) -> bytes:
    """Return runtime.Unknown around a message, behind the magic.

    Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf/protobuf.go `doEncode`.
    """
    unknown = runtime_pb2.Unknown(
        type_meta=runtime_pb2.TypeMeta(api_version=api_version, kind=kind),
        raw=message.SerializeToString(),
        content_encoding="",
        content_type="",
    )
    return _MAGIC + unknown.SerializeToString()


def list_meta() -> meta_pb2.ListMeta:
    """Return metadata of which every scalar is empty and written."""
    metadata = meta_pb2.ListMeta(self_link="", resource_version="")
    setattr(metadata, "continue", "")  # a word that Python keeps for itself
    return metadata


def _object_meta(name: str) -> meta_pb2.ObjectMeta:
    return meta_pb2.ObjectMeta(
        name=without_surrogates(name),
        generate_name="",
        namespace="",
        self_link="",
        uid="",
        resource_version="",
        generation=0,
        creation_timestamp=meta_pb2.Time(),
    )


def _group(group: Group) -> discovery_pb2.APIGroupDiscovery:
    message = discovery_pb2.APIGroupDiscovery(
        metadata=_object_meta(group.name), versions=map(_version, group.versions)
    )
    return _with_more(message, group.extra)


def _with_more(message: M, extra: Mapping[str, object]) -> M:
    """Return the message with the unknown fields that were read from protobuf."""
    wire = extra.get(_writing.PROTOBUF_EXTRA)
    if isinstance(wire, bytes):
        message.MergeFromString(wire)
    return message


def _version(version: Version) -> discovery_pb2.APIVersionDiscovery:
    message = discovery_pb2.APIVersionDiscovery(
        version=without_surrogates(version.name),
        resources=[_resource(resource) for resource in version.resources],
        freshness=without_surrogates(_writing.stated_freshness(version)),
    )
    return _with_more(message, version.extra)


def _resource(resource: Resource) -> discovery_pb2.APIResourceDiscovery:
    message = discovery_pb2.APIResourceDiscovery(
        resource=without_surrogates(resource.name),
        response_kind=_optional_kind(resource.response_kind),
        scope=without_surrogates(resource.scope),
        singular_resource=without_surrogates(resource.singular_name),
        verbs=_texts(resource.verbs),
        short_names=_texts(resource.short_names),
        categories=_texts(resource.categories),
        subresources=[_subresource(found) for found in resource.subresources],
    )
    return _with_more(message, resource.extra)


def _subresource(subresource: Subresource) -> discovery_pb2.APISubresourceDiscovery:
    message = discovery_pb2.APISubresourceDiscovery(
        subresource=without_surrogates(subresource.name),
        response_kind=_optional_kind(subresource.response_kind),
        accepted_types=[_kind(kind) for kind in subresource.accepted_types],
        verbs=_texts(subresource.verbs),
    )
    return _with_more(message, subresource.extra)


def _optional_kind(kind: GroupVersionKind | None) -> meta_pb2.GroupVersionKind | None:
    return None if kind is None else _kind(kind)


def _kind(kind: GroupVersionKind) -> meta_pb2.GroupVersionKind:
    return meta_pb2.GroupVersionKind(
        group=without_surrogates(kind.group),
        version=without_surrogates(kind.version),
        kind=without_surrogates(kind.kind),
    )


def _texts(texts: Iterable[str]) -> list[str]:
    return [without_surrogates(text) for text in texts]


# From here on: the unaggregated documents.


def _core_versions(fields: Mapping[str, object]) -> Message:
    addresses = cast("list[dict[str, str]]", fields["serverAddressByClientCIDRs"])
    return unaggregated_pb2.APIVersions(
        versions=_texts(cast("list[str]", fields["versions"])),
        server_address_by_client_cidrs=[
            unaggregated_pb2.ServerAddressByClientCIDR(
                client_cidr=without_surrogates(address["clientCIDR"]),
                server_address=without_surrogates(address["serverAddress"]),
            )
            for address in addresses
        ],
    )


def _group_list(fields: Mapping[str, object]) -> Message:
    groups = cast("list[dict[str, object]]", fields["groups"])
    return unaggregated_pb2.APIGroupList(groups=[_plain_group(group) for group in groups])


def _plain_group(fields: Mapping[str, object]) -> unaggregated_pb2.APIGroup:
    versions = cast("list[dict[str, str]]", fields["versions"])
    return unaggregated_pb2.APIGroup(
        name=without_surrogates(str(fields["name"])),
        versions=[_version_name(version) for version in versions],
        preferred_version=_version_name(cast("dict[str, str]", fields["preferredVersion"])),
    )


def _version_name(fields: Mapping[str, str]) -> unaggregated_pb2.GroupVersionForDiscovery:
    return unaggregated_pb2.GroupVersionForDiscovery(
        group_version=without_surrogates(fields["groupVersion"]),
        version=without_surrogates(fields["version"]),
    )


def _resource_list(fields: Mapping[str, object]) -> Message:
    lines = cast("list[dict[str, object]]", fields["resources"])
    return unaggregated_pb2.APIResourceList(
        group_version=without_surrogates(str(fields["groupVersion"])),
        resources=[_line(line) for line in lines],
    )


def _line(fields: Mapping[str, object]) -> unaggregated_pb2.APIResource:
    def told(name: str) -> str:
        return without_surrogates(str(fields.get(name, "")))

    def listed(name: str) -> list[str]:
        return _texts(cast("Iterable[str]", fields.get(name, ())))

    return unaggregated_pb2.APIResource(
        name=told("name"),
        namespaced=bool(fields["namespaced"]),
        kind=told("kind"),
        verbs=unaggregated_pb2.Verbs(items=listed("verbs")),
        short_names=listed("shortNames"),
        singular_name=told("singularName"),
        categories=listed("categories"),
        group=told("group"),
        version=told("version"),
        storage_version_hash=told("storageVersionHash"),
    )


_MESSAGES = {
    "APIVersions": _core_versions,
    "APIGroupList": _group_list,
    "APIGroup": _plain_group,
    "APIResourceList": _resource_list,
}
