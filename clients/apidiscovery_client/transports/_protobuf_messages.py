"""Writes requests to DiscoveryService and reads its answers, by means of google.protobuf."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from apidiscovery.service.v1 import discovery_pb2 as pb
from apidiscovery.v2 import discovery_pb2 as v2_pb
from apidiscovery.v2beta1 import discovery_pb2 as v2beta1_pb
from google.protobuf.duration_pb2 import Duration

from apidiscovery_client._reading import UnreadableError
from apidiscovery_client._reading.protobuf import aggregated_group
from apidiscovery_client.model import Group, GroupVersion
from apidiscovery_client.transports._grpc_answers import (
    Answer,
    Changed,
    Difference,
    Same,
    Source,
    Sources,
    Whole,
)

_VERSIONS = (pb.DISCOVERY_VERSION_V2, pb.DISCOVERY_VERSION_V2BETA1)


def get_request(etag: str, known: Mapping[str, str] | None) -> pb.GetDiscoveryRequest:
    """Return what asks for all, or for the difference to the groups with these hashes."""
    return pb.GetDiscoveryRequest(
        if_none_match=etag,
        accept_versions=_VERSIONS,
        scope=pb.DISCOVERY_SCOPE_ALL,
        known_groups=None if known is None else pb.KnownGroups(hashes=known),
    )


def watch_request(known: Mapping[str, str], heartbeat_s: float) -> pb.WatchDiscoveryRequest:
    """Return what asks for the difference to these, and for all that come after it."""
    heartbeat = Duration()
    heartbeat.FromNanoseconds(round(heartbeat_s * 1e9))
    return pb.WatchDiscoveryRequest(
        accept_versions=_VERSIONS,
        scope=pb.DISCOVERY_SCOPE_ALL,
        known_groups=pb.KnownGroups(hashes=known),
        heartbeat_interval=heartbeat,
    )


def sources_request() -> pb.ListSourcesRequest:
    """Return what asks for the sources."""
    return pb.ListSourcesRequest()


def answer(message: pb.GetDiscoveryResponse, at: datetime) -> Answer:
    """Return what the answer of GetDiscovery says; raise `UnreadableError` when it says nothing."""
    hashes = {group.name: group.hash for group in message.group_hashes}
    match message.WhichOneof("result"):
        case "not_modified":
            return Same(at, message.etag)
        case "v2":
            groups = _groups([*message.v2.core.items, *message.v2.groups.items], at)
            return Whole(at, message.etag, groups, hashes)
        case "v2beta1":
            beta = message.v2beta1
            return Whole(
                at, message.etag, _groups([*beta.core.items, *beta.groups.items], at), hashes
            )
        case "delta":
            return _difference(message.etag, message.delta, at, hashes)
        case _:
            raise UnreadableError("the answer has no result that this client knows")


def event(message: pb.WatchDiscoveryResponse, at: datetime) -> Answer:
    """Return what a message of a watch says; raise `UnreadableError` when it says nothing."""
    match message.WhichOneof("event"):
        case "heartbeat":
            return Same(at, message.heartbeat.etag)
        case "changes" if message.changes.HasField("delta"):
            return _difference(message.changes.etag, message.changes.delta, at, None)
        case _:
            raise UnreadableError("the message has no event that this client knows")


def sources(message: pb.ListSourcesResponse) -> Sources:
    """Return what the answer of ListSources says."""
    return Sources(tuple(map(_source, message.sources)))


def _difference(
    etag: str, delta: pb.DiscoveryDelta, at: datetime, hashes: Mapping[str, str] | None
) -> Difference:
    changed = [_changed(change, at) for change in delta.changed]
    return Difference(at, etag, changed, tuple(delta.removed), hashes)


def _changed(change: pb.ChangedGroup, at: datetime) -> Changed:
    match change.WhichOneof("group"):
        case "v2":
            group = _group(change.v2, at)
        case "v2beta1":
            group = _group(change.v2beta1, at)
        case _:
            raise UnreadableError(f"the changed group {change.name!r} has no content")
    return Changed(change.name, change.hash, change.position, group)


def _groups(
    items: Iterable[v2_pb.APIGroupDiscovery | v2beta1_pb.APIGroupDiscovery], at: datetime
) -> tuple[Group, ...]:
    return tuple(_group(item, at) for item in items)


def _group(item: v2_pb.APIGroupDiscovery | v2beta1_pb.APIGroupDiscovery, at: datetime) -> Group:
    if isinstance(item, v2beta1_pb.APIGroupDiscovery):  # the same fields under other names
        item = v2_pb.APIGroupDiscovery.FromString(item.SerializeToString())
    return aggregated_group(item, at)


def _source(source: pb.DiscoverySource) -> Source:
    served = (offer for offer in source.group_versions if not offer.shadowed_by)
    return Source(
        name=source.name,
        since=source.since.ToDatetime(UTC) if source.HasField("since") else None,
        error=source.error,
        serves=frozenset(GroupVersion(offer.group, offer.version) for offer in served),
    )
