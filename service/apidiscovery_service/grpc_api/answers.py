"""Encoded answers of DiscoveryService, put together around the bytes that HTTP serves too.

A message field and a bytes field look the same on the wire, so a document that is encoded already
is spliced in instead of being parsed and written again. Field numbers are those of
protos/apidiscovery/service/v1/discovery.proto, taken from the generated descriptors, so that a
renumbering cannot be missed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apidiscovery.service.v1 import discovery_pb2
from google.protobuf.message import Message

from apidiscovery_service.encoding import EncodedSnapshot, aggregated, wire
from apidiscovery_service.grpc_api.requests import Selection
from apidiscovery_service.snapshot import PublishedGroup, Snapshot


def _number(message: type[Message], field: str) -> int:
    return message.DESCRIPTOR.fields_by_name[field].number


_ETAG = _number(discovery_pb2.GetDiscoveryResponse, "etag")
_GROUP_HASHES = _number(discovery_pb2.GetDiscoveryResponse, "group_hashes")
_NOT_MODIFIED = _number(discovery_pb2.GetDiscoveryResponse, "not_modified")
_DOCUMENTS = {v: _number(discovery_pb2.GetDiscoveryResponse, v) for v in ("v2", "v2beta1")}
_DELTA = _number(discovery_pb2.GetDiscoveryResponse, "delta")
_CORE = _number(discovery_pb2.DocumentV2, "core")
_GROUPS = _number(discovery_pb2.DocumentV2, "groups")
_CHANGED = _number(discovery_pb2.Delta, "changed")
_GROUP_OF_VERSION = {v: _number(discovery_pb2.ChangedGroup, v) for v in ("v2", "v2beta1")}
_CHANGES = _number(discovery_pb2.WatchDiscoveryResponse, "changes")
_CHANGES_DELTA = _number(discovery_pb2.Changes, "delta")


@dataclass(frozen=True, slots=True)
class State:
    """The groups of one moment in one scope: all that a watch keeps of what it has sent.

    It holds no document, so a reader that is slow holds none either.
    """

    core: tuple[PublishedGroup, ...]
    named: tuple[PublishedGroup, ...]

    def placed(self) -> Iterator[tuple[int, PublishedGroup]]:
        """Yield each group with its place in its document, the core group first."""
        yield from enumerate(self.core)
        yield from enumerate(self.named)


def state(snapshot: Snapshot, chosen: Selection) -> State:
    """Return the part of a snapshot that a selection covers."""
    return State(
        snapshot.core.groups if chosen.core else (), snapshot.named.groups if chosen.named else ()
    )


def etag(snapshot: Snapshot, chosen: Selection) -> str:
    """Return the ETag of the scope, as discovery.proto defines it."""
    if not chosen.named:
        return snapshot.core.etag
    if not chosen.core:
        return snapshot.named.etag
    both = f"{snapshot.core.etag}\n{snapshot.named.etag}\n"
    return hashlib.sha512(both.encode()).hexdigest().upper()


def head(snapshot: Snapshot, chosen: Selection) -> bytes:
    """Return the part that every answer of GetDiscovery begins with: ETag and hashes."""
    parts = [wire.delimited(_ETAG, etag(snapshot, chosen).encode())]
    parts += [_group_hash(group) for _, group in state(snapshot, chosen).placed()]
    return b"".join(parts)


def _group_hash(group: PublishedGroup) -> bytes:
    field = group.fragments.get("group_hash")
    if field is None:
        message = discovery_pb2.GroupHash(name=group.name, hash=group.hash)
        field = wire.delimited(_GROUP_HASHES, message.SerializeToString())
        group.fragments["group_hash"] = field
    return field


def not_modified() -> bytes:
    """Return what follows the head when the caller is up to date."""
    return wire.delimited(_NOT_MODIFIED, b"")


async def document(encoded: EncodedSnapshot, chosen: Selection) -> bytes:
    """Return what follows the head when the whole document is sent."""
    parts: list[bytes] = []
    if chosen.core:
        parts.append(wire.delimited(_CORE, await encoded.list_message(core=True)))
    if chosen.named:
        parts.append(wire.delimited(_GROUPS, await encoded.list_message(core=False)))
    return wire.delimited(_DOCUMENTS[chosen.version], b"".join(parts))


def delta_from_hashes(now: State, known: Mapping[str, str], chosen: Selection) -> bytes:
    """Return the encoded Delta from what a caller says it knows.

    Known groups out of scope are left alone: they are not removed, only not looked at.
    """
    placed = list(now.placed())
    changed = [(place, g) for place, g in placed if known.get(g.name) != g.hash]
    present = {group.name for _, group in placed}
    removed = [
        name for name in known if name not in present and (chosen.named if name else chosen.core)
    ]
    return _delta(changed, sorted(removed), chosen.version)


def delta_between(before: State, now: State, version: str) -> bytes | None:
    """Return the encoded Delta between two states; None if they are the same."""
    if before == now:
        return None
    known = {group.name: group for _, group in before.placed()}
    changed: list[tuple[int, PublishedGroup]] = []
    for place, group in now.placed():
        former = known.pop(group.name, None)
        if former is not group and (former is None or former.hash != group.hash):
            changed.append((place, group))
    if not changed and not known:
        return None
    return _delta(changed, sorted(known), version)


def _delta(
    changed: Iterable[tuple[int, PublishedGroup]], removed: Sequence[str], version: str
) -> bytes:
    parts = [
        wire.delimited(_CHANGED, _changed_group(place, group, version)) for place, group in changed
    ]
    parts.append(discovery_pb2.Delta(removed=removed).SerializeToString())
    return b"".join(parts)


def _changed_group(place: int, group: PublishedGroup, version: str) -> bytes:
    message = discovery_pb2.ChangedGroup(name=group.name, hash=group.hash, position=place)
    encoded = wire.delimited(_GROUP_OF_VERSION[version], aggregated.group_message(group))
    return message.SerializeToString() + encoded


def with_delta(delta: bytes) -> bytes:
    """Return what follows the head when a delta is sent."""
    return wire.delimited(_DELTA, delta)


def changes(tag: str, delta: bytes) -> bytes:
    """Return the message of a watch that carries a delta."""
    head_ = discovery_pb2.Changes(etag=tag).SerializeToString()
    return wire.delimited(_CHANGES, head_ + wire.delimited(_CHANGES_DELTA, delta))


def heartbeat(tag: str) -> bytes:
    """Return the message of a watch that says nothing has changed."""
    message = discovery_pb2.WatchDiscoveryResponse(heartbeat=discovery_pb2.Heartbeat(etag=tag))
    return message.SerializeToString()
