"""Reads discovery documents in protobuf: those of HTTP with their envelope, and those of gRPC.

A field that the generated code does not know is kept under `protobuf:NUMBER`, as the bytes that it
has on the wire, tags included: appended to a serialised message they are that field again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar, cast

from apidiscovery.meta.v1 import discovery_pb2 as plain_pb2
from apidiscovery.meta.v1 import meta_pb2
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
from apidiscovery_client._reading.unaggregated import Entry, folded
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


M = TypeVar("M", bound=Message)


def read_document(promise: Promise, body: bytes, now: datetime) -> ParsedDocument:
    """Return what the answer of `/api` or `/apis` tells; raise `UnreadableError`."""
    raw = _opened(promise, body)
    if promise.aggregated:
        document = _parsed(discovery_pb2.APIGroupDiscoveryList, raw)
        _check_count(document.items)
        return ParsedDocument(aggregated_groups(document.items, now), is_aggregated=True)
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


def aggregated_groups(
    items: Iterable[discovery_pb2.APIGroupDiscovery], now: datetime
) -> tuple[Group, ...]:
    """Return what each message tells, in order; raise `UnreadableError`."""
    return tuple(aggregated_group(item, now) for item in items)


def aggregated_group(item: discovery_pb2.APIGroupDiscovery, now: datetime) -> Group:
    """Return what a message tells; its stale versions are so since `now`.

    Raises:
        UnreadableError: A version, resource or subresource has no name.
    """
    name = item.metadata.name
    versions = tuple(_version(name, version, now) for version in item.versions)
    return Group(name, versions, extra=extras(item))


def _version(group: str, version: discovery_pb2.APIVersionDiscovery, now: datetime) -> Version:
    gv = GroupVersion(group, _named(version.version, f"a version of group {group!r}"))
    resources = tuple(_resource(gv, resource) for resource in version.resources)
    return Version(
        gv=gv,
        resources=resources,
        freshness=freshness(gv, version.freshness, now, has_resources=bool(resources)),
        stated_freshness=version.freshness,
        extra=extras(version),
    )


def _resource(gv: GroupVersion, resource: discovery_pb2.APIResourceDiscovery) -> Resource:
    return Resource(
        gv=gv,
        name=_named(resource.resource, f"a resource of {gv}"),
        singular_name=resource.singular_resource,
        scope=resource.scope,
        response_kind=_kind(resource.response_kind) if resource.HasField("response_kind") else None,
        verbs=tuple(resource.verbs),
        short_names=tuple(resource.short_names),
        categories=tuple(resource.categories),
        subresources=tuple(_subresource(gv, below) for below in resource.subresources),
        extra=extras(resource),
    )


def _subresource(
    gv: GroupVersion, subresource: discovery_pb2.APISubresourceDiscovery
) -> Subresource:
    told = subresource.HasField("response_kind")
    return Subresource(
        name=_named(subresource.subresource, f"a subresource of {gv}"),
        response_kind=_kind(subresource.response_kind) if told else None,
        verbs=tuple(subresource.verbs),
        accepted_types=tuple(map(_kind, subresource.accepted_types)),
        extra=extras(subresource),
    )


def _kind(kind: meta_pb2.GroupVersionKind) -> GroupVersionKind:
    return GroupVersionKind(kind.group, kind.version, kind.kind)


def _plain_group(group: plain_pb2.APIGroup, now: datetime) -> Group:
    name = _named(group.name, "a group")
    names = [_named(version.version, f"a version of group {name!r}") for version in group.versions]
    return Group(
        name,
        unaggregated.listed(name, names, now),
        stated_preference=group.preferred_version.version,
        extra=extras(group),
    )


def _entry(gv: GroupVersion, entry: plain_pb2.APIResource) -> Entry:
    return Entry(
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


def _named(name: str, what: str) -> str:
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
        raise UnreadableError(f"the body is no {kind.DESCRIPTOR.name}: {error}") from None


# protobuf.dev/programming-guides/encoding
_MORE = 0x80  # the bit of each byte of a varint but the last
_VARINT, _FIXED_64, _END_GROUP, _FIXED_32 = 0, 1, 4, 5  # wire types
_LENGTHS = {_FIXED_64: 8, _FIXED_32: 4}  # bytes


class _Fields(Protocol):
    """What `UnknownFieldSet` is; its stub leaves the elements untyped."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> "_Field": ...


class _Field(Protocol):
    """A field; `data` is of several fields where it is a group."""

    @property
    def field_number(self) -> int: ...

    @property
    def wire_type(self) -> int: ...

    @property
    def data(self) -> "bytes | int | _Fields": ...


def extras(message: Message) -> Mapping[str, object]:
    """Return the unknown fields of a message, though not of those in it, by `protobuf:NUMBER`."""
    fields = cast("_Fields", UnknownFieldSet(message))
    if not len(fields):
        return NO_EXTRAS
    kept: defaultdict[str, bytearray] = defaultdict(bytearray)
    for index in range(len(fields)):
        kept[f"{PROTOBUF_EXTRA}{fields[index].field_number}"] += _wire(fields[index])
    return {key: bytes(wire) for key, wire in kept.items()}


def _wire(field: _Field) -> bytes:
    """Return a field as it is written, its tag first."""
    number, wire_type, data = field.field_number, field.wire_type, field.data
    tag = _varint(number << 3 | wire_type)
    if isinstance(data, bytes):
        return tag + _varint(len(data)) + data
    if isinstance(data, int):
        written = _varint(data) if wire_type == _VARINT else _fixed(data, wire_type)
        return tag + written
    inner = b"".join(_wire(data[index]) for index in range(len(data)))
    return tag + inner + _varint(number << 3 | _END_GROUP)


def _fixed(value: int, wire_type: int) -> bytes:
    return value.to_bytes(_LENGTHS[wire_type], "little")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= _MORE:
        written.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    written.append(value)
    return bytes(written)
