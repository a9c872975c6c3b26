"""Encoded answers of DiscoveryService, put together around the bytes that HTTP serves too.

A message field and a bytes field look the same on the wire, so a document that is encoded already
is spliced in instead of being parsed and written again. Field numbers are those of
protos/apidiscovery/service/v1/discovery.proto, taken from the generated descriptors, so that a
renumbering cannot be missed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from apidiscovery.service.v1 import discovery_pb2
from google.protobuf.message import Message

from apidiscovery_service.core.chunks import Chunk, PublishedGroup
from apidiscovery_service.core.snapshot import Document
from apidiscovery_service.encoding import EncodedSnapshot, aggregated
from apidiscovery_service.kube import wire
from apidiscovery_service.serving.grpc.requests import Selection


def _number(message: type[Message], field: str) -> int:
    return message.DESCRIPTOR.fields_by_name[field].number


_ETAG = _number(discovery_pb2.GetDiscoveryResponse, "etag")
_GROUP_HASHES = _number(discovery_pb2.GetDiscoveryResponse, "group_hashes")
_NOT_MODIFIED = _number(discovery_pb2.GetDiscoveryResponse, "not_modified")
_DOCUMENTS = {v: _number(discovery_pb2.GetDiscoveryResponse, v) for v in ("v2", "v2beta1")}
_DELTA = _number(discovery_pb2.GetDiscoveryResponse, "delta")
_CORE = _number(discovery_pb2.DiscoveryDocumentV2, "core")
_GROUPS = _number(discovery_pb2.DiscoveryDocumentV2, "groups")
_CHANGED = _number(discovery_pb2.DiscoveryDelta, "changed")
_GROUP_OF_VERSION = {v: _number(discovery_pb2.ChangedGroup, v) for v in ("v2", "v2beta1")}
_CHANGES = _number(discovery_pb2.WatchDiscoveryResponse, "changes")
_CHANGES_DELTA = _number(discovery_pb2.WatchDiscoveryResponse.Changes, "delta")


# Name and hash of each group, chunk by chunk: all that a watch keeps of what it has sent. It holds
# no group, so a reader that is slow keeps nothing alive that was replaced.
State: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]


class View:
    """What a selection covers of one snapshot, and the parts of answers that its callers share.

    Attributes:
        encoded: The snapshot, with its bytes.
        selection: What is covered.
    """

    def __init__(self, encoded: EncodedSnapshot, selection: Selection) -> None:
        self.encoded = encoded
        self.selection = selection
        # For each state that a watch had before: the state itself, so that its id stays its own,
        # and the delta from it.
        self._deltas: dict[int, tuple[State, bytes | None]] = {}
        self._whole: bytes | None = None

    @cached_property
    def etag(self) -> str:
        """The ETag of the scope, unquoted, as discovery.proto defines it."""
        snapshot = self.encoded.snapshot
        if not self.selection.named:
            return snapshot.core.etag
        if not self.selection.core:
            return snapshot.named.etag
        both = f"{snapshot.core.etag}\n{snapshot.named.etag}\n"
        return hashlib.sha512(both.encode()).hexdigest().upper()

    @property
    def groups(self) -> Iterator[PublishedGroup]:
        """The groups in scope, in document order."""
        return (group for _, chunk in self._placed() for group in chunk.groups)

    @cached_property
    def head(self) -> bytes:
        """What every answer of GetDiscovery begins with: ETag and hashes."""
        parts = [wire.delimited(_ETAG, self.etag.encode())]
        parts += [_group_hash(group) for group in self.groups]
        return b"".join(parts)

    @cached_property
    def not_modified(self) -> bytes:
        """The answer to a caller that is up to date."""
        return self.head + wire.delimited(_NOT_MODIFIED, b"")

    @cached_property
    def state(self) -> State:
        """What a watch that has sent all this keeps of it."""
        return tuple([chunk.hashes for _, chunk in self._placed()])

    def delta(self, known: Mapping[str, str]) -> bytes:
        """Return the encoded Delta from what a caller says it knows.

        Known groups out of scope are left alone: they are not removed, only not looked at.
        """
        changed = list(_changed(self._placed(), known))
        present = {name for hashes in self.state for name, _ in hashes}
        removed = [name for name in known if name not in present and self._covers(name)]
        return self._encode(changed, sorted(removed))

    def delta_since(self, sent: State) -> bytes | None:
        """Return the encoded Delta from the `state` of an earlier view, None if there is none.

        Runs that are in both are not looked into. Watches that are at the same point share one
        encoding of the difference.
        """
        if id(sent) not in self._deltas:
            here, there = set(map(id, self.state)), set(map(id, sent))
            before = {n: h for hashes in sent if id(hashes) not in here for n, h in hashes}
            chunks = [(at, chunk) for at, chunk in self._placed() if id(chunk.hashes) not in there]
            changed = list(_changed(chunks, before))
            present = {group.name for _, chunk in chunks for group in chunk.groups}
            removed = sorted(before.keys() - present)
            delta = self._encode(changed, removed) if changed or removed else None
            self._deltas[id(sent)] = (sent, delta)
        return self._deltas[id(sent)][1]

    async def whole(self) -> bytes:
        """Return the answer with the whole document; made once."""
        if self._whole is None:
            self._whole = self.head + await self._document()
        return self._whole

    async def _document(self) -> bytes:
        parts: list[bytes] = []
        if self.selection.core:
            parts.append(wire.delimited(_CORE, await self.encoded.list_message(core=True)))
        if self.selection.named:
            parts.append(wire.delimited(_GROUPS, await self.encoded.list_message(core=False)))
        return wire.delimited(_DOCUMENTS[self.selection.version], b"".join(parts))

    def _placed(self) -> Iterator[tuple[int, Chunk]]:
        """Yield each chunk with the place of its first group in its document."""
        snapshot = self.encoded.snapshot
        if self.selection.core:
            yield from _chunks_placed(snapshot.core)
        if self.selection.named:
            yield from _chunks_placed(snapshot.named)

    def _covers(self, name: str) -> bool:
        return self.selection.named if name else self.selection.core

    def _encode(
        self, changed: Iterable[tuple[int, PublishedGroup]], removed: Sequence[str]
    ) -> bytes:
        parts = [wire.delimited(_CHANGED, self._changed_group(*placed)) for placed in changed]
        parts.append(discovery_pb2.DiscoveryDelta(removed=removed).SerializeToString())
        return b"".join(parts)

    def _changed_group(self, place: int, group: PublishedGroup) -> bytes:
        message = discovery_pb2.ChangedGroup(name=group.name, hash=group.hash, position=place)
        number = _GROUP_OF_VERSION[self.selection.version]
        encoded = wire.delimited(number, aggregated.group_message(group))
        return message.SerializeToString() + encoded


class Views:
    """The views of one snapshot, one for each selection."""

    def __init__(self, encoded: EncodedSnapshot) -> None:
        self._encoded = encoded
        self._views: dict[Selection, View] = {}

    def view(self, selection: Selection) -> View:
        """Return the view of a selection."""
        view = self._views.get(selection)
        if view is None:
            view = self._views[selection] = View(self._encoded, selection)
        return view


def _chunks_placed(document: Document) -> Iterator[tuple[int, Chunk]]:
    place = 0
    for chunk in document.chunks:
        yield place, chunk
        place += len(chunk.groups)


def _group_hash(group: PublishedGroup) -> bytes:
    field = group.fragments.get("group_hash")
    if field is None:
        message = discovery_pb2.GroupHash(name=group.name, hash=group.hash)
        field = wire.delimited(_GROUP_HASHES, message.SerializeToString())
        group.fragments["group_hash"] = field
    return field


def _changed(
    chunks: Iterable[tuple[int, Chunk]], known: Mapping[str, str]
) -> Iterator[tuple[int, PublishedGroup]]:
    """Yield each group that is not as it is known, with its place."""
    for start, chunk in chunks:
        for place, group in enumerate(chunk.groups, start):
            if known.get(group.name) != group.hash:
                yield place, group


def with_delta(delta: bytes) -> bytes:
    """Return what follows the head when a delta is sent."""
    return wire.delimited(_DELTA, delta)


def changes(etag: str, delta: bytes) -> bytes:
    """Return the message of a watch that carries a delta."""
    head = discovery_pb2.WatchDiscoveryResponse.Changes(etag=etag).SerializeToString()
    return wire.delimited(_CHANGES, head + wire.delimited(_CHANGES_DELTA, delta))


def heartbeat(etag: str) -> bytes:
    """Return the message of a watch that says nothing has changed."""
    message = discovery_pb2.WatchDiscoveryResponse(
        heartbeat=discovery_pb2.WatchDiscoveryResponse.Heartbeat(etag=etag)
    )
    return message.SerializeToString()
