"""Chunks of groups: documents that share chunks have the bytes of new documents."""

import gzip
import random

import pytest
from apidiscovery_formats.negotiation import JSON, Representation
from apidiscovery_service.core.model import Contribution
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Document
from apidiscovery_service.encoding import aggregated, compression
from apidiscovery_service.kube import go_json
from groups import contribution
from hypothesis import given
from hypothesis import strategies as st

V2 = Representation(JSON, "v2")
PRETTY = Representation(JSON, "v2", pretty=True)
NAMES = [f"{name}.example.com" for name in range(400)]


def of(name: str, versions: int) -> Contribution:
    """Return a group; with more versions it is larger, and more likely to end a chunk."""
    return contribution(name, *(f"{name}/v{number}" for number in range(1, 10 * versions)))


def after_many_changes(rng: random.Random) -> tuple[Registry, dict[str, int]]:
    """Return a registry after changes of one to forty groups, and the versions of its groups."""
    registry, held = Registry(), dict[str, int]()
    for _ in range(60):
        chosen = rng.sample(NAMES, rng.choice((1, 1, 2, 40)))
        gone = [name for name in chosen if name in held and rng.random() < 0.3]
        kept = {name: rng.randrange(1, 4) for name in chosen if name not in gone}
        for name in gone:
            del held[name]
        held.update(kept)
        registry.update([of(name, version) for name, version in kept.items()], gone)
        # Encoded in between, so that there is something to take over.
        aggregated.encode_gzip(registry.snapshot.named, V2)
    return registry, held


@pytest.mark.parametrize("seed", range(2))
def test_a_changed_document_equals_a_new_one(seed: int) -> None:
    changed, held = after_many_changes(random.Random(seed))  # noqa: S311 - seeded on purpose
    anew = Registry()
    anew.publish(*(of(name, version) for name, version in held.items()))
    one, other = changed.snapshot.named, anew.snapshot.named
    assert len(one.chunks) > 2
    assert one.etag == other.etag
    assert [len(chunk.groups) for chunk in one.chunks] == [
        len(chunk.groups) for chunk in other.chunks
    ]
    assert aggregated.encode(one, V2) == aggregated.encode(other, V2)
    assert aggregated.encode_gzip(one, V2) == aggregated.encode_gzip(other, V2)
    assert gzip.decompress(aggregated.encode_gzip(one, V2)) == aggregated.encode(one, V2)
    assert aggregated.encode(one, PRETTY) == go_json.indent(aggregated.encode(one, V2))


def test_a_change_of_one_group_keeps_every_other_chunk() -> None:
    registry = Registry()
    registry.publish(*(of(name, 1) for name in NAMES))
    before = registry.snapshot.named.chunks
    registry.publish(of(NAMES[200], 2))
    after = registry.snapshot.named.chunks
    assert len(before) == len(after) > 2
    assert sum(one is not other for one, other in zip(before, after, strict=True)) == 1


def test_a_document_without_groups_has_no_chunks() -> None:
    empty = Document.of(())
    assert empty.chunks == ()
    assert gzip.decompress(aggregated.encode_gzip(empty, V2)) == aggregated.encode(empty, V2)
    assert aggregated.encode(empty, PRETTY).endswith(b'"items": []\n}')


@given(st.lists(st.binary(max_size=300), min_size=1), st.binary(max_size=9))
def test_blocks_make_one_gzip_member_of_any_content(parts: list[bytes], last: bytes) -> None:
    blocks = [*map(compression.block, parts), compression.last_block(last)]
    member = compression.gzip_member(blocks, [*parts, last])
    assert gzip.decompress(member) == b"".join((*parts, last))
