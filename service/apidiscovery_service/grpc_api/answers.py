"""Encoded answers of DiscoveryService, put together around the bytes that HTTP serves too.

A message field and a bytes field look the same on the wire, so a document that is encoded already
is spliced in instead of being parsed and written again. Field numbers are those of
protos/apidiscovery/service/v1/discovery.proto, taken from the generated descriptors, so that a
renumbering cannot be missed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from apidiscovery.service.v1 import discovery_pb2
from google.protobuf.message import Message

from apidiscovery_service.encoding import EncodedSnapshot, aggregated, wire
from apidiscovery_service.grpc_api.requests import Selection
from apidiscovery_service.snapshot import PublishedGroup


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


class View:
    """What a selection covers of one snapshot, and the parts of answers that its callers share.

    Attributes:
        encoded: The snapshot, with its bytes.
        selection: What is covered.
    """

    def __init__(self, encoded: EncodedSnapshot, selection: Selection) -> None:
        self.encoded = encoded
        self.selection = selection
        # For each mapping of known hashes that a watch sent before: the mapping itself, so that
        # its id stays its own, and the delta from it.
        self._deltas: dict[int, tuple[Mapping[str, str], bytes | None]] = {}

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

    @cached_property
    def head(self) -> bytes:
        """What every answer of GetDiscovery begins with: ETag and hashes."""
        parts = [wire.delimited(_ETAG, self.etag.encode())]
        parts += [_group_hash(group) for _, group in self._placed()]
        return b"".join(parts)

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """The hash of each group by name: all that a watch keeps of what it has sent.

        It holds no group, so a reader that is slow keeps nothing alive that was replaced.
        """
        return {group.name: group.hash for _, group in self._placed()}

    def delta(self, known: Mapping[str, str]) -> bytes:
        """Return the encoded Delta from what a caller says it knows.

        Known groups out of scope are left alone: they are not removed, only not looked at.
        """
        changed, removed = self._difference(known)
        return self._encode(changed, removed)

    def delta_since(self, sent: Mapping[str, str]) -> bytes | None:
        """Return the encoded Delta from the `hashes` of an earlier view, None if there is none.

        Watches that are at the same point share one encoding of it.
        """
        if id(sent) not in self._deltas:
            changed, removed = self._difference(sent)
            delta = self._encode(changed, removed) if changed or removed else None
            self._deltas[id(sent)] = (sent, delta)
        return self._deltas[id(sent)][1]

    async def document(self) -> bytes:
        """Return what follows the head when the whole document is sent."""
        parts: list[bytes] = []
        if self.selection.core:
            parts.append(wire.delimited(_CORE, await self.encoded.list_message(core=True)))
        if self.selection.named:
            parts.append(wire.delimited(_GROUPS, await self.encoded.list_message(core=False)))
        return wire.delimited(_DOCUMENTS[self.selection.version], b"".join(parts))

    def _placed(self) -> Iterator[tuple[int, PublishedGroup]]:
        """Yield each group with its place in its document, the core group first."""
        snapshot = self.encoded.snapshot
        if self.selection.core:
            yield from enumerate(snapshot.core.groups)
        if self.selection.named:
            yield from enumerate(snapshot.named.groups)

    def _difference(
        self, known: Mapping[str, str]
    ) -> tuple[list[tuple[int, PublishedGroup]], list[str]]:
        changed = [(place, g) for place, g in self._placed() if known.get(g.name) != g.hash]
        removed = [name for name in known if name not in self.hashes and self._covers(name)]
        return changed, sorted(removed)

    def _covers(self, name: str) -> bool:
        return self.selection.named if name else self.selection.core

    def _encode(
        self, changed: Iterable[tuple[int, PublishedGroup]], removed: Sequence[str]
    ) -> bytes:
        parts = [wire.delimited(_CHANGED, self._changed_group(*placed)) for placed in changed]
        parts.append(discovery_pb2.Delta(removed=removed).SerializeToString())
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


def with_delta(delta: bytes) -> bytes:
    """Return what follows the head when a delta is sent."""
    return wire.delimited(_DELTA, delta)


def changes(etag: str, delta: bytes) -> bytes:
    """Return the message of a watch that carries a delta."""
    head = discovery_pb2.Changes(etag=etag).SerializeToString()
    return wire.delimited(_CHANGES, head + wire.delimited(_CHANGES_DELTA, delta))


def heartbeat(etag: str) -> bytes:
    """Return the message of a watch that says nothing has changed."""
    message = discovery_pb2.WatchDiscoveryResponse(heartbeat=discovery_pb2.Heartbeat(etag=etag))
    return message.SerializeToString()
