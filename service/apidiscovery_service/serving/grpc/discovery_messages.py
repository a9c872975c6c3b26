"""Messages of DiscoveryService, encoded around the bytes that HTTP serves too.

A message field and a bytes field look the same on the wire, so an encoded document is spliced in
instead of being parsed and written again. Field numbers are taken from the generated descriptors of
protos/apidiscovery/service/v1/discovery.proto, so that a renumbering cannot be missed.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from apidiscovery.service.v1 import discovery_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
)

from apidiscovery_service.access import ALL_CLUSTERS
from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.chunks import Chunk, PublishedGroup
from apidiscovery_service.core.model import Contribution, Freshness
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Document
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.encoding import EncodedSnapshot, aggregated
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube import wire
from apidiscovery_service.serving.grpc.calls import CallFailed, number_of
from apidiscovery_service.serving.grpc.message_fields import timestamp

_VERSION_NAMES = {
    discovery_pb2.DISCOVERY_VERSION_V2: "v2",
    discovery_pb2.DISCOVERY_VERSION_V2BETA1: "v2beta1",
}

# Scope: whether it has the core group, and the named groups.
_SCOPES = {
    discovery_pb2.DISCOVERY_SCOPE_UNSPECIFIED: (True, True),
    discovery_pb2.DISCOVERY_SCOPE_CORE: (True, False),
    discovery_pb2.DISCOVERY_SCOPE_GROUPS: (False, True),
    discovery_pb2.DISCOVERY_SCOPE_ALL: (True, True),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """What a request selects of a snapshot.

    Attributes:
        core: Whether the core group is selected.
        named: Whether the named groups are selected.
        version: Version of the document, `v2` or `v2beta1`.
    """

    core: bool
    named: bool
    version: str


def selection(
    accept_versions: Sequence[discovery_pb2.DiscoveryVersion.ValueType],
    scope: discovery_pb2.DiscoveryScope.ValueType,
    offered: Sequence[str],
) -> Selection:
    """Return what a request selects.

    Args:
        accept_versions: In order of preference; empty for v2. Unknown ones are skipped, since a
            newer client may name them.
        scope: The scope.
        offered: The versions that are served.

    Raises:
        InvalidFields: The scope is unknown, or an accepted version is the unspecified one.
        CallFailed: None of the accepted versions is served; FAILED_PRECONDITION.
    """
    if scope not in _SCOPES:
        raise InvalidFields(FieldViolation("scope", f"want one of DiscoveryScope, got {scope}"))
    accepted = accept_versions or (discovery_pb2.DISCOVERY_VERSION_V2,)
    for place, version in enumerate(accepted):
        if version == discovery_pb2.DISCOVERY_VERSION_UNSPECIFIED:
            field = f"accept_versions[{place}]"
            raise InvalidFields(FieldViolation(field, "want a version, got the unspecified one"))
    core, named = _SCOPES[scope]
    for version in accepted:
        name = _VERSION_NAMES.get(version)
        if name in offered:
            return Selection(core, named, name or "")
    raise _no_common_version(offered)


def _no_common_version(offered: Sequence[str]) -> CallFailed:
    names = ", ".join(offered) or "none: aggregated discovery is switched off"
    violations = [
        error_details_pb2.PreconditionFailure.Violation(
            type="DOCUMENT_VERSION",
            subject="accept_versions",
            description=f"{version} is offered",
        )
        for version in offered
    ]
    return CallFailed(
        code_pb2.FAILED_PRECONDITION,
        f"no document version in accept_versions is served; offered: {names}",
        error_details_pb2.PreconditionFailure(violations=violations),
    )


_ETAG = number_of(discovery_pb2.GetDiscoveryResponse, "etag")
_GROUP_HASHES = number_of(discovery_pb2.GetDiscoveryResponse, "group_hashes")
_NOT_MODIFIED = number_of(discovery_pb2.GetDiscoveryResponse, "not_modified")
_DOCUMENTS = {v: number_of(discovery_pb2.GetDiscoveryResponse, v) for v in ("v2", "v2beta1")}
_DELTA = number_of(discovery_pb2.GetDiscoveryResponse, "delta")
_CORE = number_of(discovery_pb2.DiscoveryDocumentV2, "core")
_GROUPS = number_of(discovery_pb2.DiscoveryDocumentV2, "groups")
_CHANGED = number_of(discovery_pb2.DiscoveryDelta, "changed")
_GROUP_OF_VERSION = {v: number_of(discovery_pb2.ChangedGroup, v) for v in ("v2", "v2beta1")}
_CHANGES = number_of(discovery_pb2.WatchDiscoveryResponse, "changes")
_CHANGES_DELTA = number_of(discovery_pb2.WatchDiscoveryResponse.Changes, "delta")


# Name and hash of each group, chunk by chunk: all that a watch keeps of its last message. Without a
# reference to a group, a slow reader keeps no replaced group alive.
GroupHashes: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]

_EVERY_CLUSTER = matching(ALL_CLUSTERS)


class SelectedSnapshot:
    """A selection of one snapshot, and the encoded parts of answers that its callers share.

    Attributes:
        encoded: The snapshot with its bytes.
        selection: The selection.
    """

    def __init__(self, encoded: EncodedSnapshot, selection: Selection) -> None:
        self.encoded = encoded
        self.selection = selection
        # By the id of the hashes that a watch has sent: the delta from them, and the hashes
        # themselves, so that no other object gets their id.
        self._deltas: dict[int, tuple[GroupHashes, bytes | None]] = {}
        self._whole: bytes | None = None

    @cached_property
    def etag(self) -> str:
        """The ETag of the selection, unquoted, as discovery.proto defines it."""
        snapshot = self.encoded.snapshot
        if not self.selection.named:
            return snapshot.core.etag
        if not self.selection.core:
            return snapshot.named.etag
        both = f"{snapshot.core.etag}\n{snapshot.named.etag}\n"
        return hashlib.sha512(both.encode()).hexdigest().upper()

    @property
    def groups(self) -> Iterator[PublishedGroup]:
        """The selected groups, in document order."""
        return (group for _, chunk in self._chunks() for group in chunk.groups)

    @cached_property
    def head(self) -> bytes:
        """ETag and group hashes, with which every answer of GetDiscovery begins."""
        parts = [wire.delimited(_ETAG, self.etag.encode())]
        parts += [_group_hash(group) for group in self.groups]
        return b"".join(parts)

    @cached_property
    def not_modified(self) -> bytes:
        """The answer to a caller that is up to date."""
        return self.head + wire.delimited(_NOT_MODIFIED, b"")

    @cached_property
    def group_hashes(self) -> GroupHashes:
        """The hashes of the selected groups, for `delta_since` of a later view."""
        return tuple([chunk.hashes for _, chunk in self._chunks()])

    def delta(self, known: Mapping[str, str]) -> bytes:
        """Return the encoded Delta from the hashes that a caller knows, by group.

        Known groups that are not selected are ignored, not removed.
        """
        changed = list(_changed(self._chunks(), known))
        present = {name for hashes in self.group_hashes for name, _ in hashes}
        removed = [name for name in known if name not in present and self._covers(name)]
        return self._encode(changed, sorted(removed))

    def delta_since(self, sent: GroupHashes) -> bytes | None:
        """Return the encoded Delta from the hashes of an earlier view, None if nothing differs.

        Chunks that are in both are skipped. Watches at the same point share one encoded difference.
        """
        if id(sent) not in self._deltas:
            here, there = set(map(id, self.group_hashes)), set(map(id, sent))
            before = {n: h for hashes in sent if id(hashes) not in here for n, h in hashes}
            chunks = [(at, chunk) for at, chunk in self._chunks() if id(chunk.hashes) not in there]
            changed = list(_changed(chunks, before))
            present = {group.name for _, chunk in chunks for group in chunk.groups}
            removed = sorted(before.keys() - present)
            delta = self._encode(changed, removed) if changed or removed else None
            self._deltas[id(sent)] = (sent, delta)
        return self._deltas[id(sent)][1]

    async def whole(self) -> bytes:
        """Return the answer with the whole document, encoded once."""
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

    def _chunks(self) -> Iterator[tuple[int, Chunk]]:
        """Yield each chunk with the position of its first group in its document."""
        snapshot = self.encoded.snapshot
        if self.selection.core:
            yield from _chunks_of(snapshot.core)
        if self.selection.named:
            yield from _chunks_of(snapshot.named)

    def _covers(self, name: str) -> bool:
        return self.selection.named if name else self.selection.core

    def _encode(
        self, changed: Iterable[tuple[int, PublishedGroup]], removed: Sequence[str]
    ) -> bytes:
        parts = [wire.delimited(_CHANGED, self._changed_group(*each)) for each in changed]
        parts.append(discovery_pb2.DiscoveryDelta(removed=removed).SerializeToString())
        return b"".join(parts)

    def _changed_group(self, position: int, group: PublishedGroup) -> bytes:
        message = discovery_pb2.ChangedGroup(name=group.name, hash=group.hash, position=position)
        number = _GROUP_OF_VERSION[self.selection.version]
        encoded = wire.delimited(number, aggregated.group_message(group))
        return message.SerializeToString() + encoded


def _chunks_of(document: Document) -> Iterator[tuple[int, Chunk]]:
    position = 0
    for chunk in document.chunks:
        yield position, chunk
        position += len(chunk.groups)


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
    """Yield each group whose hash differs from the known one, with its position."""
    for start, chunk in chunks:
        for position, group in enumerate(chunk.groups, start):
            if known.get(group.name) != group.hash:
                yield position, group


def with_delta(delta: bytes) -> bytes:
    """Return the part of GetDiscoveryResponse that has the delta."""
    return wire.delimited(_DELTA, delta)


def changes(etag: str, delta: bytes) -> bytes:
    """Return the message of a watch with a delta."""
    head = discovery_pb2.WatchDiscoveryResponse.Changes(etag=etag).SerializeToString()
    return wire.delimited(_CHANGES, head + wire.delimited(_CHANGES_DELTA, delta))


def heartbeat(etag: str) -> bytes:
    """Return the message of a watch without a change."""
    message = discovery_pb2.WatchDiscoveryResponse(
        heartbeat=discovery_pb2.WatchDiscoveryResponse.Heartbeat(etag=etag)
    )
    return message.SerializeToString()


STATES = {
    SourceState.CURRENT: discovery_pb2.SOURCE_STATE_CURRENT,
    SourceState.STALE: discovery_pb2.SOURCE_STATE_STALE,
    SourceState.PENDING: discovery_pb2.SOURCE_STATE_PENDING,
}


def provenance(registry: Registry, groups: Iterable[PublishedGroup]) -> bytes:
    """Return the part of GetDiscoveryResponse with the source of each version of these groups.

    The groups are of the registry's current snapshot.
    """
    answer = discovery_pb2.GetDiscoveryResponse()
    for published in groups:
        winners = registry.winners(published.name)
        for version in published.group.versions:
            answer.provenance.add(
                group=published.name,
                version=version.version,
                source=winners.get(version.version, ""),
            )
    return answer.SerializeToString()


def list_sources(
    registry: Registry, statuses: Iterable[SourceStatus], clusters: re.Pattern[str]
) -> discovery_pb2.ListSourcesResponse:
    """Return every source that contributes or has a status.

    Without a status a source is stale when it offers anything stale.

    Args:
        registry: The registry.
        statuses: The known statuses.
        clusters: Matches the names of the clusters that the caller may read about.
    """
    known = {status.name: status for status in statuses}
    answer = discovery_pb2.ListSourcesResponse()
    for name in sorted({*registry.sources, *known}):
        kind, _, cluster = name.partition(":")
        if kind == "upstream" and not clusters.fullmatch(cluster):
            continue
        if kind == "clusters" and clusters != _EVERY_CLUSTER:  # a folder with files of any of them
            continue
        contribution = registry.contribution(name)
        status = known.get(name) or SourceStatus(name, _state(contribution))
        answer.sources.append(_source(status, contribution, registry))
    return answer


def _state(contribution: Contribution | None) -> SourceState:
    offers = contribution.offers if contribution else ()
    is_stale = any(offer.version.freshness == Freshness.STALE for offer in offers)
    return SourceState.STALE if is_stale else SourceState.CURRENT


def _source(
    status: SourceStatus, contribution: Contribution | None, registry: Registry
) -> discovery_pb2.DiscoverySource:
    source = discovery_pb2.DiscoverySource(
        name=status.name,
        state=STATES[status.state],
        since=timestamp(status.since),
        error=status.error,
        address=status.address,
        withheld=status.withheld,
    )
    offers = contribution.offers if contribution else ()
    for offer in sorted(offers, key=lambda offer: (offer.group, offer.version.version)):
        winner = registry.winners(offer.group).get(offer.version.version, "")
        source.group_versions.add(
            group=offer.group,
            version=offer.version.version,
            freshness=offer.version.freshness,
            shadowed_by="" if winner == status.name else winner,
        )
    return source
