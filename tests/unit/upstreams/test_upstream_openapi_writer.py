"""Documents are stored by content: guarded, the index last, nothing left over."""

import asyncio
import base64
from dataclasses import replace

import pytest
from apidiscovery_service.sources.upstreams.openapi import record
from apidiscovery_service.sources.upstreams.openapi.documents import UpstreamDocuments
from apidiscovery_service.sources.upstreams.openapi.record import (
    INDEX_RECORDS,
    DocumentRef,
    DocumentsWriter,
    OwnV2,
    PackedPieces,
    Published,
    Refused,
    UpstreamForm,
    pack,
)
from apidiscovery_service.sources.upstreams.record_store import BadRecord
from apidiscovery_service.store import (
    Entry,
    Fenced,
    Guard,
    Store,
    StoreUnavailable,
)
from apidiscovery_service.store.memory import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from store_wrapper import DisturbedStore, failing

KEY = "apis/a.test/v1"


def kept(packed: PackedPieces) -> DocumentRef:
    return DocumentRef(packed.hash, packed.size, len(packed.pieces), packed.hash)


def naming(*documents: PackedPieces) -> Published:
    return Published(
        UpstreamForm.V3, documents={f"apis/g/v{i}": kept(d) for i, d in enumerate(documents)}
    )


async def claimed(store: Store) -> Guard:
    claim = await store.put("claims/upstreams/x", b"")
    return Guard(claim.key, claim.created)


async def writing(store: Store, name: str = "x", guard: Guard | None = None) -> DocumentsWriter:
    """Return a writer that has read its index."""
    writer = DocumentsWriter(store, name, guard or await claimed(store))
    await writer.load()
    return writer


async def publish(writer: DocumentsWriter, document: PackedPieces) -> None:
    """Write a document, and an index that names it alone."""
    await writer.put(document)
    await writer.save(naming(document))


def keys_of(document: PackedPieces, name: str = "x") -> list[str]:
    """Return the keys of an upstream with one small document."""
    return [record.piece_keys(name, document.hash, 1)[0], f"upstream-openapi/indexes/{name}"]


async def keys(store: Store) -> list[str]:
    return [entry.key for entry in (await store.list("upstream-openapi/")).entries]


_TEXT = st.text(max_size=20)
_KEPT = st.builds(
    DocumentRef,
    _TEXT,
    st.integers(0, 2**40),
    st.integers(0, 100),
    _TEXT,
    _TEXT,
    st.integers(0, 2**40),
)
_PUBLISHED = st.builds(
    Published,
    form=st.sampled_from(UpstreamForm),
    etag=_TEXT,
    digest=_TEXT,
    offered=_TEXT,
    documents=st.dictionaries(_TEXT, _KEPT, max_size=5),
    refused=st.dictionaries(_TEXT, st.builds(Refused, _TEXT, _TEXT), max_size=3),
    odd=st.lists(_TEXT, max_size=3).map(tuple),
    error=_TEXT,
    is_clean=st.booleans(),
    v2_state=st.sampled_from(OwnV2),
    v2=st.none() | _KEPT,
    v2_error=_TEXT,
    is_untyped=st.booleans(),
)


@given(_PUBLISHED)
@settings(max_examples=50, deadline=None)
def test_an_index_is_read_as_it_was_written(published: Published) -> None:
    value, _ = INDEX_RECORDS.seal(published)
    entry = Entry("upstream-openapi/indexes/x", value, 1, 1)
    assert asyncio.run(INDEX_RECORDS.read(MemoryStore(), entry)) == published


# Written by release 0.1.0.
_OLD_INDEX = (
    "eyJmb3JtYXQiOjIsInNoYTI1NiI6ImI3Nzk1MWFkYWM4MDkxNGQ5MmIzYjEyYmRlMjFhMThhZmViMmZkODQwYzky"
    "YjJhOWUyYzJlMmRjNTAyNTVkMTkifQootS/9IOoFBQACiyAeYEmcMXA328smdlg0ItLveiDl2GLLu2mJMiAJAEB5"
    "C+qYWuhGKUuULWqNbtuajkjuqjTFDLtv3KDgINU5S9uIJD2NJ0wwMI4IAD4y5jRYoIELBIwXD/GcvoMi3IKgPg60"
    "e40yTrI7OrXpWjuemTn6OVWWHD8Vp9GKejpuPKOZtmuFCgBmJlblwFOGTWUrGEGFRUK14xN1JNUQw6qg"
)


async def test_an_index_of_an_older_release_is_read() -> None:
    """Releases share a store while replicas are replaced one by one."""
    documents = {
        KEY: DocumentRef("AB", 3, 1, "AB", "", 9),
        "api": DocumentRef("CD", 3, 1, "x", '"e"', 9),
    }
    refused = {"apis/b.test/v1": Refused("EF", "too large")}
    entry = Entry("upstream-openapi/indexes/x", base64.b64decode(_OLD_INDEX), 1, 1)
    assert await INDEX_RECORDS.read(MemoryStore(), entry) == Published(
        UpstreamForm.V3, '"1"', "dddd", "o", documents, refused, ("odd",), "failed", is_clean=False
    )


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_a_document_is_unpacked_as_it_was(document: bytes) -> None:
    packed = pack(document)
    assert record.unpack(b"".join(packed.pieces), kept(packed)) == document
    with pytest.raises(BadRecord):
        record.unpack(b"".join(pack(document + b"x").pieces), kept(packed))


async def test_documents_are_written_before_the_index_that_names_them() -> None:
    store, document = MemoryStore(), pack(b"{}")
    writer = await writing(store)
    await publish(writer, document)
    piece, index = (await store.list("upstream-openapi/")).entries
    assert [piece.key, index.key] == keys_of(document)
    assert index.revision > piece.revision
    assert writer.published.is_clean
    assert writer.published.documents == naming(document).documents


async def test_a_replaced_document_stays_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    store, new = MemoryStore(), pack(b"[]")
    writer = await writing(store)
    for document in (pack(b"{}"), new):
        await publish(writer, document)
    await writer.sweep()
    assert len(await keys(store)) == 3
    assert not writer.published.is_clean
    monkeypatch.setattr(record, "_SWEPT_AFTER_S", 0.0)
    await writer.sweep()
    assert await keys(store) == keys_of(new)
    assert writer.published.is_clean


async def test_old_documents_are_removed_while_new_ones_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(record, "monotonic", lambda: now)
    store = MemoryStore()
    writer = await writing(store)
    for number in range(30):
        now += 2.0
        await writer.sweep()
        await publish(writer, pack(str(number).encode()))
        assert len(await keys(store)) <= 8
    assert len(await keys(store)) > 5


async def test_documents_of_an_index_that_may_be_written_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(record, "monotonic", lambda: now)
    store, old, new = DisturbedStore(MemoryStore()), pack(b"{}"), pack(b"[]")
    writer = await writing(store)
    await publish(writer, old)
    await writer.put(new)
    await writer.save(naming(old))
    store.after = failing("put", INDEX_RECORDS.prefix)  # it is written, and fails all the same
    with pytest.raises(StoreUnavailable):
        await writer.save(naming(new))
    store.after = None
    now += 60.0
    await writer.sweep()
    # A reader of the index with the new document has some seconds left.
    assert keys_of(new)[0] in await keys(store)
    now += 60.0
    await writer.sweep()
    assert await keys(store) == keys_of(old)


async def test_documents_of_a_process_that_died_are_removed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "_SWEPT_AFTER_S", 0.0)
    store = MemoryStore()
    first = await writing(store)
    await first.put(pack(b"{}"))  # and no index that names it
    second = await writing(store)
    await second.sweep()
    assert await keys(store) == ["upstream-openapi/indexes/x"]
    assert second.published.is_clean


async def test_a_document_in_the_store_is_not_written_again() -> None:
    store, document = MemoryStore(), pack(b"{}")
    writer = await writing(store)
    await publish(writer, document)
    before = (await store.list("")).revision
    await publish(writer, document)
    await publish(await writing(store, guard=Guard("claims/upstreams/x", 1)), document)
    assert (await store.list("")).revision == before


async def test_a_writer_that_has_lost_the_claim_writes_and_removes_nothing() -> None:
    store, other = MemoryStore(), pack(b"[]")
    first = await writing(store)
    await publish(first, pack(b"{}"))
    await store.delete("claims/upstreams/x")
    await claimed(store)
    before = (await store.list("upstream-openapi/")).entries
    with pytest.raises(Fenced):
        await first.put(other)
    with pytest.raises(Fenced):
        await first.save(naming(other))
    with pytest.raises(Fenced):
        await first.remove()
    assert (await store.list("upstream-openapi/")).entries == before


async def test_remove_deletes_everything_of_one_upstream() -> None:
    store, document = MemoryStore(), pack(b"{}")
    guard = await claimed(store)
    for name in ("x", "x-2"):
        await publish(await writing(store, name, guard), document)
    await DocumentsWriter(store, "x", guard).remove()
    assert await keys(store) == keys_of(document, "x-2")


async def test_documents_are_listed_once_the_index_is_complete() -> None:
    """During the first round a missing document is not a removed one."""
    store = MemoryStore()
    documents = UpstreamDocuments(store)
    documents.use("x", ["upstream:x"])
    writer, document = DocumentsWriter(store, "x", await claimed(store)), pack(b"{}")
    await writer.load()
    await writer.put(document)
    for published, known in (
        (naming(document), set[str]()),
        (replace(naming(document), digest="d"), {"apis/g/v0"}),
        (replace(naming(document), error="it does not answer"), {"apis/g/v0"}),
    ):
        await writer.save(published)
        await documents.load()
        assert documents.all_of("upstream:x").keys() == {"apis/g/v0"}
        assert documents.all_known("upstream:x").keys() == known
