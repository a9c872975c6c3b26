"""The hash of a document equals that of kube-apiserver, and that of a new document."""

import gc
import weakref
from dataclasses import replace
from random import Random

import pytest
from apidiscovery_service.core.chunks import PublishedGroup, cut
from apidiscovery_service.core.model import LAST_RANK, Freshness, Group, Resource, Version
from apidiscovery_service.core.snapshot import Document, Snapshot
from groups import resource, widget_group, without_hashes
from hypothesis import given, settings
from hypothesis import strategies as st

EMPTY_ETAG = (
    "E31D92F2F415F58D79E51A08706C00FE868ED961736AD66A944AC75AA3682B33"
    "24F1787C9AF1250F28E111EEF86B2C3CD65FC48D3A283E0598FFA800177D68C1"
)
WIDGET_ETAG = (
    "49BD9075367D62C24F2649686C5A4CBBC1C9052139446893D776B7730BEEE294"
    "E70C8C1FC8206D3BF418F9DFFF4F7B4E60865FFB3DA1EBE1114204DC2BC2A5E0"
)


def published(group: Group, priority: int = 1000) -> PublishedGroup:
    key = (-priority, LAST_RANK, group.name)
    return PublishedGroup(group, key, key)


@pytest.mark.parametrize(
    ("groups", "etag"),
    [
        pytest.param((), EMPTY_ETAG, id="empty"),
        pytest.param((published(widget_group()),), WIDGET_ETAG, id="one-CRD"),
    ],
)
def test_etag_equals_that_of_kubernetes(groups: tuple[PublishedGroup, ...], etag: str) -> None:
    assert Document.of(groups).etag == etag
    snapshot = Snapshot(named=Document.of(groups))
    assert (snapshot.named.etag, snapshot.core.etag) == (etag, EMPTY_ETAG)


# --------------------------------------------------------------------------------------------------
# Incremental hashing.

POOL = [published(widget_group(f"g{i:03}.example")) for i in range(260)]
CHANGED = [published(widget_group(f"g{i:03}.example", "v2")) for i in range(260)]

# Around the places where a state of the hash is kept, and anywhere.
PLACES = st.sampled_from([0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 259]) | (
    st.integers(0, 259)
)


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[PublishedGroup, ...]]:
    """Return documents that follow one another, mostly of more than 200 groups."""
    document = POOL[: draw(PLACES)] if draw(st.booleans()) else list(POOL)
    documents = [tuple(document)]
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["replace", "insert", "remove", "cut", "grow", "swap"]))
        place, other = draw(PLACES), draw(PLACES)
        document = list(documents[-1])
        if kind == "replace" and place < len(document):
            document[place] = CHANGED[place]
        elif kind == "insert":
            document.insert(place, CHANGED[other])
        elif kind == "remove":
            del document[place : place + 1]
        elif kind == "cut":
            del document[place:]
        elif kind == "grow":
            document += POOL[len(document) :]
        elif max(place, other) < len(document):
            document[place], document[other] = document[other], document[place]
        documents.append(tuple(document))
    return documents


@given(edits(), st.randoms(use_true_random=False))
@settings(max_examples=75)
def test_a_changed_document_has_the_etag_of_a_new_one(
    documents: list[tuple[PublishedGroup, ...]], random: Random
) -> None:
    """Also if the ETags of earlier documents were never computed."""
    document = Document()
    for groups in documents:
        document = Document(cut(groups, document.chunks), document)
        assert document.groups == groups
        if groups is documents[-1] or random.random() < 0.5:
            assert document.etag == Document.of(groups).etag


def test_a_hashed_document_frees_the_one_before() -> None:
    before = Document.of(POOL)
    after = before.changed((), POOL[:1])
    assert after.etag == Document.of(POOL[1:]).etag
    gone = weakref.ref(before)
    del before
    gc.collect()
    assert gone() is None


def test_an_unchanged_document_is_the_same_object() -> None:
    core = published(Group("", (Version("v1", (resource(),)),)))
    before = Snapshot(Document.of([core]), Document.of(POOL))
    after = before.changed((), POOL[:1])
    assert after.core is before.core
    assert after.named is not before.named


# --------------------------------------------------------------------------------------------------
# Published groups.


def test_the_hash_of_a_group_does_not_cover_storage_versions() -> None:
    group = Group("g", (Version("v1", (replace(resource(), storage_version_hash="x="),)),))
    assert published(group).hash == published(without_hashes(group)).hash


def test_the_hash_of_a_group_covers_its_place() -> None:
    assert published(widget_group(), 1).hash != published(widget_group(), 2).hash


def test_repr_of_a_snapshot_has_its_size() -> None:
    assert repr(Snapshot(named=Document.of(POOL[:2]))).startswith("<Snapshot 2 groups, /apis ")


def test_absent_and_empty_verbs_are_different_documents() -> None:
    def verbs(value: tuple[str, ...] | None) -> PublishedGroup:
        made = Resource("x", None, "Cluster", "", value)
        return published(Group("g", (Version("v1", (made,), Freshness.STALE),)))

    assert Document.of([verbs(None)]).etag != Document.of([verbs(())]).etag
