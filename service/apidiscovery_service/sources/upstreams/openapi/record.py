"""The OpenAPI documents of upstreams in the store: an index of them, and their pieces.

The record `upstream-openapi/indexes/ID` names all documents of an upstream; the compressed pieces
of each stand under `upstream-openapi/documents/ID/HASH-NUMBER`. Documents are named by their
content and written before the index that names them, so that a reader of the index finds them.
Followers of indexes are not sent documents.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import monotonic
from typing import TypeAlias, cast

import orjson
import zstandard

from apidiscovery_service.sources.upstreams.record_store import (
    BadRecord,
    RecordFormat,
    RecordWriter,
    cut,
)
from apidiscovery_service.store import Guard, Store

DOCUMENTS = "upstream-openapi/documents/"

_LEVEL = 6
# Half of a hash is enough for a key; the whole hash is compared when the document is read.
_HASH_IN_KEY = 64
# How long a replaced document stays for readers of the former index.
_SWEPT_AFTER_S = 10.0

_Row: TypeAlias = list[str | int | None]


class UpstreamForm(StrEnum):
    """The form of the OpenAPI documents of an upstream."""

    UNKNOWN = ""
    V3 = "v3"
    V2 = "v2"
    NONE = "none"


class OwnV2(StrEnum):
    """The state of the v2 document of an upstream, which clients of that cluster get.

    Attributes:
        UNKNOWN: It was never read.
        KEPT: It is in the store.
        NONE: The upstream has none.
        PARTLY: A filter hides group-versions of the upstream, so its document is not kept.
    """

    UNKNOWN = ""
    KEPT = "kept"
    NONE = "none"
    PARTLY = "partly"


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """One document in the store.

    Attributes:
        hash: Upper-case hex SHA-512 of its bytes.
        size: Its size in bytes.
        pieces: The number of values that it is cut into.
        listed: The hash in the index of the upstream: any text, empty for none.
        etag: As the upstream sent it, if the index has no hash.
        packed_size: The size of all pieces in bytes.
    """

    hash: str
    size: int
    pieces: int
    listed: str = ""
    etag: str = ""
    packed_size: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A document that was not accepted.

    Attributes:
        listed: The hash in the index of the upstream.
        reason: Why, in one line.
    """

    listed: str
    reason: str


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Published:
    """The index of all OpenAPI documents of an upstream.

    Attributes:
        form: The form in which the upstream publishes them.
        etag: The ETag of the upstream's index, or of its v2 document, verbatim.
        digest: The SHA-256 of the body with that ETag.
        offered: The SHA-256 of the group-versions that this is complete for; empty when some
            document is missing.
        documents: By key: the path that each describes, such as `apis/apps/v1`.
        refused: Documents that were not accepted, by key; their former versions stay.
        odd: Warnings about the rest of the index.
        error: Why the last attempt failed; empty if it succeeded.
        is_clean: Whether the store has no other documents of this upstream.
        v2_state: The state of its v2 document.
        v2: The v2 document as the upstream sent it, if it is kept.
        v2_error: Why the last request for it failed; empty if it succeeded.
        is_untyped: Whether it calls documents plain text, as kube-apiservers before 1.27.
    """

    form: UpstreamForm = UpstreamForm.UNKNOWN
    etag: str = ""
    digest: str = ""
    offered: str = ""
    documents: Mapping[str, DocumentRef] = field(default_factory=dict[str, DocumentRef])
    refused: Mapping[str, Refused] = field(default_factory=dict[str, Refused])
    odd: tuple[str, ...] = ()
    error: str = ""
    is_clean: bool = True
    v2_state: OwnV2 = OwnV2.UNKNOWN
    v2: DocumentRef | None = None
    v2_error: str = ""
    is_untyped: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the list of documents can be served: not during the first round, or if all fail.

        A client of an incomplete list would take the others for removed.
        """
        if self.form is not UpstreamForm.V3:
            return self.form is not UpstreamForm.UNKNOWN
        has_failed = bool(self.error or self.refused)
        return bool(self.documents) if has_failed else bool(self.digest)

    @property
    def refs(self) -> Iterator[DocumentRef]:
        """All documents in the store."""
        yield from self.documents.values()
        if self.v2 is not None:
            yield self.v2

    @property
    def warnings(self) -> Iterator[str]:
        """The errors and warnings, a line each."""
        if self.error:
            yield self.error
        if self.v2_error:
            yield self.v2_error
        yield from self.odd
        for refused in self.refused.values():
            yield refused.reason


def documents_prefix(upstream: str) -> str:
    """Return the prefix of the keys of an upstream's documents."""
    return f"{DOCUMENTS}{upstream}/"


def piece_keys(upstream: str, document_hash: str, pieces: int) -> list[str]:
    """Return the keys of one document's pieces, in order."""
    name = f"{documents_prefix(upstream)}{document_hash[:_HASH_IN_KEY].lower()}"
    return [f"{name}-{number}" for number in range(pieces)]


def _encode(published: Published) -> bytes:
    content = {
        "form": published.form,
        "etag": published.etag,
        "digest": published.digest,
        "offered": published.offered,
        "documents": [_document_row(key, ref) for key, ref in published.documents.items()],
        "refused": [[key, r.listed, r.reason] for key, r in published.refused.items()],
        "odd": published.odd,
        "error": published.error,
        "clean": published.is_clean,
        "v2State": published.v2_state,
        "v2": _document_row("", published.v2) if published.v2 else None,
        "v2Error": published.v2_error,
        "untyped": published.is_untyped,
    }
    return orjson.dumps(content)


def _document_row(key: str, ref: DocumentRef) -> _Row:
    listed = None if ref.listed == ref.hash else ref.listed
    return [key, ref.hash, ref.size, ref.pieces, listed, ref.etag, ref.packed_size]


def _decode(text: bytes) -> Published:
    content = orjson.loads(text)
    v2 = content.get("v2")  # absent in records of older releases, as are the fields with it
    return Published(
        form=UpstreamForm(content["form"]),
        etag=str(content["etag"]),
        digest=str(content["digest"]),
        offered=str(content["offered"]),
        documents=dict(map(_document, cast("list[_Row]", content["documents"]))),
        refused={key: Refused(listed, why) for key, listed, why in content["refused"]},
        odd=tuple(map(str, content["odd"])),
        error=str(content["error"]),
        is_clean=bool(content["clean"]),
        v2_state=OwnV2(content.get("v2State", "")),
        v2=_document(cast("_Row", v2))[1] if v2 else None,
        v2_error=str(content.get("v2Error", "")),
        is_untyped=bool(content.get("untyped")),
    )


def _document(row: _Row) -> tuple[str, DocumentRef]:
    key, document_hash, size, pieces, listed, etag, packed_size = row
    stated = str(document_hash)
    ref = DocumentRef(
        stated,
        int(size or 0),
        int(pieces or 0),
        stated if listed is None else str(listed),
        str(etag),
        int(packed_size or 0),
    )
    return str(key), ref


INDEX_RECORDS = RecordFormat("upstream-openapi/indexes/", _encode, _decode)


@dataclass(frozen=True, slots=True)
class PackedPieces:
    """A document, compressed and cut into values.

    Attributes:
        hash: Upper-case hex SHA-512 of the document.
        size: The size of the document in bytes.
        pieces: Values for the store.
    """

    hash: str
    size: int
    pieces: tuple[bytes, ...]

    @property
    def packed_size(self) -> int:
        """The size of all pieces in bytes."""
        return sum(map(len, self.pieces))

    def ref(self, listed: str, etag: str = "") -> DocumentRef:
        """Return the entry of an index for this document."""
        pieces, size = len(self.pieces), self.packed_size
        return DocumentRef(self.hash, self.size, pieces, listed, etag, size)


def pack(document: bytes | bytearray) -> PackedPieces:
    """Compress a document and cut it; takes 20 ms for a megabyte."""
    packed = zstandard.compress(document, _LEVEL)
    return PackedPieces(sha512(document), len(document), cut(packed))


def unpack(packed: bytes, ref: DocumentRef) -> bytes:
    """Return a document from its pieces.

    Raises:
        BadRecord: The pieces are damaged, or of another document.
    """
    try:
        document = zstandard.ZstdDecompressor().decompress(packed, max(ref.size, 1))
    except zstandard.ZstdError as error:
        raise BadRecord(f"it cannot be unpacked: {error}") from None
    if sha512(document) != ref.hash:
        raise BadRecord("its bytes do not have the hash by which it is kept")
    return document


def sha512(document: bytes | bytearray) -> str:
    """Return the hash that Kubernetes names a document by: SHA-512 in upper-case hex."""
    return hashlib.sha512(document).hexdigest().upper()


class DocumentsWriter:
    """Writes documents, then the index that names them, and removes other documents later.

    The index says whether there may be others, so that a successor looks for them only then.

    Args:
        store: The store with the documents.
        upstream: The id of the upstream.
        guard: The guard of every write.

    Attributes:
        published: The index as it is in the store.
    """

    def __init__(self, store: Store, upstream: str, guard: Guard) -> None:
        self.published = Published()
        self._store = store
        self._upstream = upstream
        self._guard = guard
        self._index = RecordWriter(INDEX_RECORDS, store, upstream, guard)
        # Keys of all documents that are, or may be, in the store.
        self._keys: set[str] = set()
        # The keys that the index names.
        self._named: frozenset[str] = frozenset()
        # For the other keys: since when no index names them.
        self._unnamed: dict[str, float] = {}

    async def load(self) -> None:
        """Read the index; a damaged one is treated as if there were none.

        Raises:
            StoreUnavailable: It cannot be read now.
        """
        self.published = await self._index.load(Published(is_clean=False)) or Published()
        self._named = self._keys_of(self.published)
        self._keys = set(self._named)
        if not self.published.is_clean:
            self._keys |= await self._found()
        self._note_unnamed()

    async def _found(self) -> set[str]:
        listing = await self._store.list(documents_prefix(self._upstream))
        return {entry.key for entry in listing.entries}

    def _keys_of(self, published: Published) -> frozenset[str]:
        return frozenset(
            key
            for ref in published.refs
            for key in piece_keys(self._upstream, ref.hash, ref.pieces)
        )

    async def put(self, packed: PackedPieces) -> None:
        """Write a document, unless it is there.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps it is not written.
        """
        keys = piece_keys(self._upstream, packed.hash, len(packed.pieces))
        if self._named.issuperset(keys):
            return
        if self.published.is_clean:
            await self._write(replace(self.published, is_clean=False))
        self._keys.update(keys)
        for key, piece in zip(keys, packed.pieces, strict=True):
            await self._store.put(key, piece, guard=self._guard)

    async def save(self, published: Published) -> None:
        """Write the index if it changes.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps it is not written.
        """
        is_clean = self._keys <= self._keys_of(published)
        await self._write(replace(published, is_clean=is_clean))

    async def _write(self, published: Published) -> None:
        await self._index.save(published)
        self.published = published
        self._named = self._keys_of(published)
        self._note_unnamed()

    def _note_unnamed(self) -> None:
        now = monotonic()
        self._unnamed = {key: self._unnamed.get(key, now) for key in self._keys - self._named}

    async def sweep(self) -> None:
        """Remove documents that no index has named for some seconds.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps not all are removed.
        """
        if self._index.is_in_doubt:
            # The index in the store may name them.
            self._unnamed = {}
            await self.save(self.published)
        before = monotonic() - _SWEPT_AFTER_S
        for key in [key for key, since in self._unnamed.items() if since <= before]:
            await self._store.delete(key, guard=self._guard)
            self._keys.discard(key)
            del self._unnamed[key]
        if not self.published.is_clean:
            await self.save(self.published)

    async def remove(self) -> None:
        """Remove everything of this upstream.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps not all is removed.
        """
        await self._index.remove()
        for key in await self._found():
            await self._store.delete(key, guard=self._guard)
