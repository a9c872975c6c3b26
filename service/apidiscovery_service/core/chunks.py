"""The groups of a document in order, cut into chunks that successive documents share.

A document of thousands of groups changes by one group at a time. A change makes one new chunk, and
everything that was derived from the others (joined JSON, compressed blocks, hashes) is reused.
Whether a chunk ends depends on its last group alone, so the same groups make the same chunks on
every replica.
"""

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TypeAlias

from apidiscovery_service.core.group_document import group_value
from apidiscovery_service.core.model import Group
from apidiscovery_service.kube import go_json

# Priority (negated), rank, name: ascending order is document order.
GroupKey: TypeAlias = tuple[int, int, str]

# Average JSON of a chunk: small, so that a change hashes and compresses little, and the window of
# deflate (RFC 1951, section 2), since chunks are compressed separately.
_CHUNK_BYTES = 32 * 1024

_KEY = attrgetter("key")

# With more changed groups, cutting all chunks anew is faster.
_MANY = 64


@dataclass(eq=False)
class PublishedGroup:
    """A group with its sort keys, and values derived from it.

    Attributes:
        name: The group's name, empty for the core group.
        key: Sort key in the aggregated document.
        list_key: Sort key in the unaggregated list of groups, which breaks ties differently.
        json: The canonical JSON of the item, in v2 and v2beta1 alike.
        hash: Opaque; equal if and only if `json` and `key` are, on every replica.
        ends_chunk: Whether a chunk ends with this group, by a hash of its name; the larger the
            group, the likelier.
        fragments: Encoded forms of this group, by names of the encodings.
        has_creation_timestamp: Whether its metadata has a null, as of kube-apiserver up to 1.33.
    """

    group: Group
    key: GroupKey
    list_key: GroupKey
    fragments: dict[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    has_creation_timestamp: bool = False

    def __post_init__(self) -> None:
        self.name = self.group.name
        value = group_value(self.group, has_creation_timestamp=self.has_creation_timestamp)
        self.json = go_json.dumps(value)
        digest = hashlib.sha256(self.json)
        digest.update(repr(self.key).encode())
        self.hash = digest.hexdigest()[:32]
        name_hash = int.from_bytes(hashlib.blake2s(self.name.encode(), digest_size=4).digest())
        self.ends_chunk = name_hash * _CHUNK_BYTES < len(self.json) << 32

    @cached_property
    def kinds(self) -> int:
        """The number of kinds of objects; one in several versions counts once."""
        versions = self.group.versions
        return len({r.resource for v in versions for r in v.resources if not r.is_made_up})


@dataclass(eq=False)
class Chunk:
    """Neighbouring groups, and values derived from them together.

    Attributes:
        groups: In document order, at least one.
        key: The key of the first group.
        json: The canonical JSON of the items, separated by commas.
        hashes: Name and hash of each group; watches keep them longer than the groups.
        fragments: Encoded forms of this chunk, by names of the encodings.
    """

    groups: tuple[PublishedGroup, ...]
    fragments: dict[str, bytes] = field(default_factory=dict[str, bytes], repr=False)

    def __post_init__(self) -> None:
        self.key = self.groups[0].key
        self.json = b",".join([group.json for group in self.groups])
        self.hashes = tuple([(group.name, group.hash) for group in self.groups])


def cut(groups: Sequence[PublishedGroup], former: Iterable[Chunk] = ()) -> list[Chunk]:
    """Return the chunks of groups in document order; chunks among `former` are reused."""
    known = {chunk.groups: chunk for chunk in former}
    chunks: list[Chunk] = []
    start = 0
    for end, group in enumerate(groups, 1):
        if group.ends_chunk or end == len(groups):
            members = tuple(groups[start:end])
            chunks.append(known.get(members) or Chunk(members))
            start = end
    return chunks


def changed(
    chunks: Sequence[Chunk], fresh: Sequence[PublishedGroup], gone: Sequence[PublishedGroup]
) -> list[Chunk]:
    """Return the chunks without the groups in `gone` and with those in `fresh`."""
    if len(fresh) + len(gone) > _MANY:
        removed = set(gone)
        others = [group for chunk in chunks for group in chunk.groups if group not in removed]
        return cut(sorted([*others, *fresh], key=_KEY), chunks)
    edited = list(chunks)
    by_name = {group.name: group for group in fresh}
    for group in gone:
        # The usual case, a group with the same key, is one edit.
        after = by_name.get(group.name)
        in_place = after if after and after.key == group.key else None
        _edit(edited, group.key, group, in_place)
        if in_place:
            del by_name[group.name]
    for group in by_name.values():
        _edit(edited, group.key, None, group)
    return edited


def _edit(
    chunks: list[Chunk], key: GroupKey, gone: PublishedGroup | None, fresh: PublishedGroup | None
) -> None:
    """Replace the chunk of a key; following chunks join it until a group ends a chunk."""
    first = max(bisect_right(chunks, key, key=_KEY) - 1, 0)
    end = min(first + 1, len(chunks))
    members = [group for chunk in chunks[first:end] for group in chunk.groups]
    if gone is not None:
        del members[bisect_left(members, key, key=_KEY)]
    if fresh is not None:
        insort(members, fresh, key=_KEY)
    while end < len(chunks) and not (members and members[-1].ends_chunk):
        members += chunks[end].groups
        end += 1
    chunks[first:end] = cut(members, chunks[first:end])
