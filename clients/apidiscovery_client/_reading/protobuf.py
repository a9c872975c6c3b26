"""Reads discovery documents in protobuf: those of HTTP with their envelope, and those of gRPC.

Fields that the generated code does not know are kept under `PROTOBUF_EXTRA`, as the bytes that they
have on the wire: appended to a serialised message they are those fields again.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from apidiscovery.meta.v1 import discovery_pb2 as plain_pb2
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery.v2 import discovery_pb2
from apidiscovery_formats.media_types import PROTOBUF
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from apidiscovery_client._negotiation import Promise
from apidiscovery_client._reading import unaggregated
from apidiscovery_client._reading.parsed import (
    ParsedDocument,
    UnreadableError,
    check_group_version,
    freshness,
)
from apidiscovery_client._reading.unaggregated import ListedResource, folded
from apidiscovery_client._writing import PROTOBUF_EXTRA
from apidiscovery_client.model import (
    NO_EXTRAS,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Subresource,
    Version,
)

# Some 100,000 resources. Empty messages are two bytes here, and 60 in memory.
MAX_BYTES = 16 << 20
MAX_ENTRIES = 500_000  # groups, versions, resources and their subresources
MAGIC = b"k8s\x00"  # apimachinery runtime/serializer/protobuf/protobuf.go `protoEncodingPrefix`

AnyMessage: TypeAlias = Any  # of google.protobuf or betterproto
M = TypeVar("M", bound=Message)


def read_document(promise: Promise, body: bytes, now: datetime) -> ParsedDocument:
    """Return what the answer of `/api` or `/apis` tells; raise `UnreadableError`."""
    raw = _opened(promise, body)
    if promise.aggregated:
        document = _parsed(discovery_pb2.APIGroupDiscoveryList, raw)
        _check_count(document.items)
        return ParsedDocument(
            tuple(aggregated_group(item, now) for item in document.items), is_aggregated=True
        )
    if promise.kind == "APIVersions":
        versions = _parsed(plain_pb2.APIVersions, raw).versions
        return ParsedDocument(unaggregated.core_group(tuple(versions), now), is_aggregated=False)
    listed = _parsed(plain_pb2.APIGroupList, raw).groups
    return ParsedDocument(tuple(_plain_group(group, now) for group in listed), is_aggregated=False)


def read_resources(gv: GroupVersion, promise: Promise, body: bytes) -> tuple[Resource, ...]:
    """Return what the answer for one group-version tells; raise `UnreadableError`."""
    if promise.aggregated:
        raise UnreadableError("the content type is of an aggregated document")
    document = _parsed(plain_pb2.APIResourceList, _opened(promise, body))
    check_group_version(gv, document.group_version)
    return folded(_entry(gv, entry) for entry in document.resources)


def _check_count(items: Sequence[discovery_pb2.APIGroupDiscovery]) -> None:
    """Refuse more than `MAX_ENTRIES`: each takes some 5 us to read."""
    count = len(items)
    for versions in (item.versions for item in items):
        if count > MAX_ENTRIES:
            break
        lists = [version.resources for version in versions]
        below = (resource.subresources for resources in lists for resource in resources)
        count += len(versions) + sum(map(len, lists))
        if count <= MAX_ENTRIES:
            count += sum(map(len, below))
    if count > MAX_ENTRIES:
        raise UnreadableError(f"the body tells of more than {MAX_ENTRIES} resources")


class GroupReader:
    """Reads aggregated groups from the messages of any library.

    Args:
        has: Returns whether a message has a field that is a message.
        extras: Returns the unknown fields of a message, under `PROTOBUF_EXTRA`.
    """

    def __init__(
        self,
        has: Callable[[AnyMessage, str], bool],
        extras: Callable[[AnyMessage], Mapping[str, object]],
    ) -> None:
        self._has = has
        self._extras = extras

    def group(self, item: AnyMessage, now: datetime) -> Group:
        """Return the group of a message; its stale versions are stale since `now`.

        Raises:
            UnreadableError: A version, resource or subresource has no name.
        """
        name = item.metadata.name or ""
        versions = tuple(self._version(name, version, now) for version in item.versions)
        return Group(name, versions, extra=self._extras(item))

    def _version(self, group: str, version: AnyMessage, now: datetime) -> Version:
        gv = GroupVersion(group, _named(version.version, f"a version of group {group!r}"))
        resources = tuple(self._resource(gv, resource) for resource in version.resources)
        stated = version.freshness or ""
        return Version(
            gv=gv,
            resources=resources,
            freshness=freshness(gv, stated, now, has_resources=bool(resources)),
            stated_freshness=stated,
            extra=self._extras(version),
        )

    def _resource(self, gv: GroupVersion, resource: AnyMessage) -> Resource:
        return Resource(
            gv=gv,
            name=_named(resource.resource, f"a resource of {gv}"),
            singular_name=resource.singular_resource or "",
            scope=resource.scope or "",
            response_kind=self._response_kind(resource),
            verbs=tuple(resource.verbs),
            short_names=tuple(resource.short_names),
            categories=tuple(resource.categories),
            subresources=tuple(self._subresource(gv, below) for below in resource.subresources),
            extra=self._extras(resource),
        )

    def _subresource(self, gv: GroupVersion, subresource: AnyMessage) -> Subresource:
        return Subresource(
            name=_named(subresource.subresource, f"a subresource of {gv}"),
            response_kind=self._response_kind(subresource),
            verbs=tuple(subresource.verbs),
            accepted_types=tuple(map(_kind, subresource.accepted_types)),
            extra=self._extras(subresource),
        )

    def _response_kind(self, message: AnyMessage) -> GroupVersionKind | None:
        return _kind(message.response_kind) if self._has(message, "response_kind") else None


def _kind(kind: AnyMessage) -> GroupVersionKind:
    return GroupVersionKind(kind.group or "", kind.version or "", kind.kind or "")


def _plain_group(group: plain_pb2.APIGroup, now: datetime) -> Group:
    name = _named(group.name, "a group")
    names = [_named(version.version, f"a version of group {name!r}") for version in group.versions]
    return Group(
        name,
        unaggregated.listed(name, names, now),
        stated_preference=group.preferred_version.version,
        extra=extras(group),
    )


def _entry(gv: GroupVersion, entry: plain_pb2.APIResource) -> ListedResource:
    return ListedResource(
        gv=gv,
        name=_named(entry.name, f"a resource of {gv}"),
        singular_name=entry.singular_name,
        namespaced=entry.namespaced,
        kind=GroupVersionKind(entry.group, entry.version, entry.kind),
        verbs=tuple(entry.verbs.items),
        short_names=tuple(entry.short_names),
        categories=tuple(entry.categories),
        storage_version_hash=entry.storage_version_hash,
        extra=extras(entry),
    )


def _named(name: str | None, what: str) -> str:
    if not name:
        raise UnreadableError(f"{what} has no name")
    return name


def _opened(promise: Promise, body: bytes) -> bytes:
    """Return the message in the envelope, once its kind is known to be the promised one."""
    if not body.startswith(MAGIC):
        raise UnreadableError(f"the body begins with {body[:4]!r}, not with {MAGIC!r}")
    if len(body) > MAX_BYTES:
        raise UnreadableError(f"the body has {len(body)} bytes, more than {MAX_BYTES} of protobuf")
    envelope = _parsed(runtime_pb2.Unknown, body[len(MAGIC) :])
    seen = envelope.type_meta
    if broken := promise.broken_by(PROTOBUF, seen.kind, seen.api_version):
        raise UnreadableError(broken)
    if envelope.content_encoding:
        raise UnreadableError(f"the content is encoded as {envelope.content_encoding!r}")
    return envelope.raw


def _parsed(kind: type[M], data: bytes) -> M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise UnreadableError(f"the body is not of type {kind.DESCRIPTOR.name}: {error}") from None


def extras(message: Message) -> Mapping[str, object]:
    """Return the unknown fields of a message, but not those of the messages in it."""
    if not len(UnknownFieldSet(message)):
        return NO_EXTRAS
    unknown = type(message)()
    unknown.CopyFrom(message)
    for known, _ in message.ListFields():
        unknown.ClearField(known.name)
    return {PROTOBUF_EXTRA: unknown.SerializeToString()}


READER = GroupReader(lambda message, name: bool(message.HasField(name)), extras)


def aggregated_group(item: discovery_pb2.APIGroupDiscovery, now: datetime) -> Group:
    """Return the group of a message of google.protobuf, as `GroupReader.group` does."""
    return READER.group(item, now)
