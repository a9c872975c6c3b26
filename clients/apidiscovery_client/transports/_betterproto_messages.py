"""Writes requests to DiscoveryService and reads its answers, by means of betterproto.

No other module knows the generated code of betterproto.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from apidiscovery_client._errors import MissingExtra
from apidiscovery_client._reading import UnreadableError
from apidiscovery_client._reading.parsed import freshness
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
from apidiscovery_client.transports._grpc_answers import (
    SERVICE,
    Answer,
    Changed,
    Difference,
    Same,
    Source,
    Sources,
    Whole,
)

try:
    import betterproto
    from apidiscovery_betterproto.apidiscovery import v2 as v2_messages
    from apidiscovery_betterproto.apidiscovery import v2beta1 as v2beta1_messages
    from apidiscovery_betterproto.apidiscovery.meta import v1 as meta
    from apidiscovery_betterproto.apidiscovery.service import v1
    from grpclib.client import Channel
except ModuleNotFoundError as error:
    raise MissingExtra("betterproto", "betterproto") from error
from apidiscovery_client.transports._grpc_common import CountingChannel

AnyGroup = v2_messages.ApiGroupDiscovery | v2beta1_messages.ApiGroupDiscovery
AnyVersion = v2_messages.ApiVersionDiscovery | v2beta1_messages.ApiVersionDiscovery
AnyResource = v2_messages.ApiResourceDiscovery | v2beta1_messages.ApiResourceDiscovery
AnySubresource = v2_messages.ApiSubresourceDiscovery | v2beta1_messages.ApiSubresourceDiscovery

# Members as attributes are plain integers to type checkers.
_VERSIONS = [v1.DiscoveryVersion.from_string(name) for name in ("V2", "V2BETA1")]
_ALL = v1.DiscoveryScope.from_string("ALL")


class SyncStub:
    """The methods of DiscoveryService over a channel of grpcio that blocks.

    betterproto generates stubs for asyncio only.
    """

    def __init__(self, channel: CountingChannel) -> None:
        self.GetDiscovery = channel.unary_unary(
            f"/{SERVICE}/GetDiscovery", bytes, v1.GetDiscoveryResponse.FromString
        )
        self.WatchDiscovery = channel.unary_stream(
            f"/{SERVICE}/WatchDiscovery", bytes, v1.WatchDiscoveryResponse.FromString
        )
        self.ListSources = channel.unary_unary(
            f"/{SERVICE}/ListSources", bytes, v1.ListSourcesResponse.FromString
        )


def async_stub(channel: Channel) -> v1.DiscoveryServiceStub:
    """Return the generated stub, over a channel of grpclib."""
    return v1.DiscoveryServiceStub(channel)


def get_request(etag: str, known: Mapping[str, str] | None) -> v1.GetDiscoveryRequest:
    """Return what asks for all, or for the difference to the groups with these hashes."""
    request = v1.GetDiscoveryRequest(if_none_match=etag, accept_versions=_VERSIONS, scope=_ALL)
    if known is not None:
        request.known_groups = v1.KnownGroups(hashes=dict(known))
    return request


def watch_request(known: Mapping[str, str], heartbeat_s: float) -> v1.WatchDiscoveryRequest:
    """Return what asks for the difference to these, and for all that come after it."""
    return v1.WatchDiscoveryRequest(
        accept_versions=_VERSIONS,
        scope=_ALL,
        known_groups=v1.KnownGroups(hashes=dict(known)),
        heartbeat_interval=timedelta(seconds=heartbeat_s),
    )


def sources_request() -> v1.ListSourcesRequest:
    """Return what asks for the sources."""
    return v1.ListSourcesRequest()


def answer(message: v1.GetDiscoveryResponse, at: datetime) -> Answer:
    """Return what the answer of GetDiscovery says; raise `UnreadableError` when it says nothing."""
    hashes = {group.name: group.hash for group in message.group_hashes}
    match betterproto.which_one_of(message, "result"):
        case _, v1.NotModified():
            return Same(at, message.etag)
        case _, v1.DiscoveryDocumentV2() | v1.DiscoveryDocumentV2Beta1() as whole:
            items: list[AnyGroup] = [*whole.core.items, *whole.groups.items]
            groups = tuple(_group(item, at) for item in items)
            return Whole(at, message.etag, groups, hashes)
        case _, v1.DiscoveryDelta() as delta:
            return _difference(message.etag, delta, at, hashes)
        case _:
            raise UnreadableError("the answer has no result that this client knows")


def event(message: v1.WatchDiscoveryResponse, at: datetime) -> Answer:
    """Return what a message of a watch says; raise `UnreadableError` when it says nothing."""
    match betterproto.which_one_of(message, "event"):
        case _, v1.WatchDiscoveryResponseHeartbeat() as heartbeat:
            return Same(at, heartbeat.etag)
        case _, v1.WatchDiscoveryResponseChanges() as changes if betterproto.serialized_on_wire(
            changes.delta
        ):
            return _difference(changes.etag, changes.delta, at, None)
        case _:
            raise UnreadableError("the message has no event that this client knows")


def sources(message: v1.ListSourcesResponse) -> Sources:
    """Return what the answer of ListSources says."""
    return Sources(tuple(map(_source, message.sources)))


def _difference(
    etag: str, delta: v1.DiscoveryDelta, at: datetime, hashes: Mapping[str, str] | None
) -> Difference:
    changed = [_changed(change, at) for change in delta.changed]
    return Difference(at, etag, changed, tuple(delta.removed), hashes)


def _changed(change: v1.ChangedGroup, at: datetime) -> Changed:
    match betterproto.which_one_of(change, "group"):
        case _, v2_messages.ApiGroupDiscovery() | v2beta1_messages.ApiGroupDiscovery() as item:
            return Changed(change.name, change.hash, change.position, _group(item, at))
        case _:
            raise UnreadableError(f"the changed group {change.name!r} has no content")


# What follows tells the same of a message as reading/protobuf.py does.


def _group(item: AnyGroup, at: datetime) -> Group:
    name = item.metadata.name or ""
    versions = tuple(_version(name, version, at) for version in item.versions)
    return Group(name, versions, extra=_extras(item))


def _version(group: str, version: AnyVersion, at: datetime) -> Version:
    gv = GroupVersion(group, _named(version.version, f"a version of group {group!r}"))
    resources = tuple(_resource(gv, resource) for resource in version.resources)
    stated = version.freshness or ""
    return Version(
        gv=gv,
        resources=resources,
        freshness=freshness(gv, stated, at, has_resources=bool(resources)),
        stated_freshness=stated,
        extra=_extras(version),
    )


def _resource(gv: GroupVersion, resource: AnyResource) -> Resource:
    return Resource(
        gv=gv,
        name=_named(resource.resource, f"a resource of {gv}"),
        singular_name=resource.singular_resource or "",
        scope=resource.scope or "",
        response_kind=_optional_kind(resource.response_kind),
        verbs=tuple(resource.verbs),
        short_names=tuple(resource.short_names),
        categories=tuple(resource.categories),
        subresources=tuple(_subresource(gv, below) for below in resource.subresources),
        extra=_extras(resource),
    )


def _subresource(gv: GroupVersion, subresource: AnySubresource) -> Subresource:
    return Subresource(
        name=_named(subresource.subresource, f"a subresource of {gv}"),
        response_kind=_optional_kind(subresource.response_kind),
        verbs=tuple(subresource.verbs),
        accepted_types=tuple(map(_kind, subresource.accepted_types)),
        extra=_extras(subresource),
    )


def _optional_kind(kind: meta.GroupVersionKind) -> GroupVersionKind | None:
    return _kind(kind) if betterproto.serialized_on_wire(kind) else None


def _kind(kind: meta.GroupVersionKind) -> GroupVersionKind:
    return GroupVersionKind(kind.group or "", kind.version or "", kind.kind or "")


def _named(name: str | None, what: str) -> str:
    if not name:
        raise UnreadableError(f"{what} has no name")
    return name


def _extras(message: betterproto.Message) -> Mapping[str, object]:
    """Return the unknown fields of a message, though not of those in it, as they are written."""
    unknown: bytes = message._unknown_fields  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - betterproto has no other way to them
    if not unknown:
        return NO_EXTRAS
    kept: dict[str, bytes] = {}
    for field in betterproto.parse_fields(unknown):
        key = f"{PROTOBUF_EXTRA}{field.number}"
        kept[key] = kept.get(key, b"") + field.raw
    return dict(kept)


def _source(source: v1.DiscoverySource) -> Source:
    served = (offer for offer in source.group_versions if not offer.shadowed_by)
    # betterproto gives an absent time as the one that all zeros are.
    since = source.since if source.since.timestamp() else None
    return Source(
        name=source.name,
        since=since,
        error=source.error,
        serves=frozenset(GroupVersion(offer.group, offer.version) for offer in served),
    )
