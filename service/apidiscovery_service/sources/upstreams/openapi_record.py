"""What is kept of an upstream's OpenAPI documents in the store.

Under `upstream-openapi/indexes/ID` stands which documents there are, under
`upstream-openapi/documents/ID/HASH-NUMBER` the pieces of each, compressed. Documents are named by
their content and written before the index that names them, so whoever has read the index finds
them; whoever follows indexes is not sent documents.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, cast

import orjson
import zstandard

from apidiscovery_service.sources.upstreams import record
from apidiscovery_service.sources.upstreams.record import BadRecord, Sealed

INDEXES = "upstream-openapi/indexes/"
DOCUMENTS = "upstream-openapi/documents/"

_LEVEL = 6
# What a damaged index may unpack to at most.
_MAX_INDEX = 64 * 1024 * 1024
# Half of a hash tells documents apart well enough for a key; the whole of it is compared after.
_HASH_IN_KEY = 64

_Row: TypeAlias = list[str | int | None]


class Form(StrEnum):
    """What an upstream publishes."""

    UNKNOWN = ""
    V3 = "v3"
    V2 = "v2"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Kept:
    """One document in the store.

    Attributes:
        hash: Upper-case hex SHA-512 of its bytes.
        size: Of it, in bytes.
        pieces: Into how many values it is cut.
        listed: The hash by which the upstream lists it; any text, empty when it states none.
        etag: As the upstream sent it, where it states no hash.
        packed_size: Of all pieces, in bytes.
    """

    hash: str
    size: int
    pieces: int
    listed: str = ""
    etag: str = ""
    packed_size: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A document that was not taken.

    Attributes:
        listed: The hash by which the upstream lists it.
        reason: One line.
    """

    listed: str
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """What is known of all OpenAPI documents of an upstream.

    Attributes:
        etag: Of the upstream's index, or of its v2 document; verbatim.
        digest: Of the body of the same.
        offered: Of the group-versions that this is complete for; empty when something is missing.
        documents: By key, the path that each describes, such as `apis/apps/v1`.
        refused: Of the same upstream's index, what was not taken; what was kept before stays.
        odd: What else of the index was passed over.
        error: Why the last attempt failed; empty when it did not.
        is_clean: Whether no other documents of this upstream are in the store.
    """

    form: Form = Form.UNKNOWN
    etag: str = ""
    digest: str = ""
    offered: str = ""
    documents: Mapping[str, Kept] = field(default_factory=dict[str, Kept])
    refused: Mapping[str, Refused] = field(default_factory=dict[str, Refused])
    odd: tuple[str, ...] = ()
    error: str = ""
    is_clean: bool = True

    @property
    def warnings(self) -> Iterator[str]:
        """What is wrong, a line each."""
        if self.error:
            yield self.error
        yield from self.odd
        for refused in self.refused.values():
            yield refused.reason


def index_key(upstream: str) -> str:
    """Return where the index of an upstream's documents is, by its id."""
    return f"{INDEXES}{upstream}"


def documents_prefix(upstream: str) -> str:
    """Return what all keys of an upstream's documents begin with."""
    return f"{DOCUMENTS}{upstream}/"


def piece_keys(upstream: str, document_hash: str, pieces: int) -> list[str]:
    """Return the keys of one document's pieces, in order."""
    name = f"{documents_prefix(upstream)}{document_hash[:_HASH_IN_KEY].lower()}"
    return [f"{name}-{number}" for number in range(pieces)]


def seal(upstream: str, published: Published) -> Sealed:
    """Return the index as it is written."""
    content = {
        "form": published.form,
        "etag": published.etag,
        "digest": published.digest,
        "offered": published.offered,
        "documents": [_document_row(key, kept) for key, kept in published.documents.items()],
        "refused": [[key, r.listed, r.reason] for key, r in published.refused.items()],
        "odd": published.odd,
        "error": published.error,
        "clean": published.is_clean,
    }
    packed = zstandard.compress(orjson.dumps(content), _LEVEL)
    return record.cut(index_key(upstream), packed)


def _document_row(key: str, kept: Kept) -> _Row:
    listed = None if kept.listed == kept.hash else kept.listed
    return [key, kept.hash, kept.size, kept.pieces, listed, kept.etag, kept.packed_size]


async def unseal(value: bytes, part: Callable[[str], Awaitable[bytes | None]]) -> Published:
    """Return what an index says.

    Args:
        value: What stands under its key.
        part: Returns what stands under `part-HASH` below its key.

    Raises:
        BadRecord: It is damaged, of a newer format, or a part of it is missing.
        StoreUnavailable: A part cannot be read now.
    """
    return await record.opened(value, part, _published)


def _published(packed: bytes) -> Published:
    try:
        text = zstandard.ZstdDecompressor().decompress(packed, _MAX_INDEX)
        content = orjson.loads(text)
        return Published(
            form=Form(content["form"]),
            etag=str(content["etag"]),
            digest=str(content["digest"]),
            offered=str(content["offered"]),
            documents=dict(map(_document, cast("list[_Row]", content["documents"]))),
            refused={key: Refused(listed, why) for key, listed, why in content["refused"]},
            odd=tuple(map(str, content["odd"])),
            error=str(content["error"]),
            is_clean=bool(content["clean"]),
        )
    except (zstandard.ZstdError, LookupError, TypeError, ValueError) as error:
        raise BadRecord(f"it cannot be read: {type(error).__name__}: {error}") from None


def _document(row: _Row) -> tuple[str, Kept]:
    key, document_hash, size, pieces, listed, etag, packed_size = row
    stated = str(document_hash)
    kept = Kept(
        stated,
        int(size or 0),
        int(pieces or 0),
        stated if listed is None else str(listed),
        str(etag),
        int(packed_size or 0),
    )
    return str(key), kept


@dataclass(frozen=True, slots=True)
class Packed:
    """A document as it is written.

    Attributes:
        hash: Upper-case hex SHA-512 of the document.
        size: Of the document, in bytes.
        pieces: Values for the store.
    """

    hash: str
    size: int
    pieces: tuple[bytes, ...]

    @property
    def packed_size(self) -> int:
        """Of all pieces, in bytes."""
        return sum(map(len, self.pieces))


def pack(document: bytes | bytearray) -> Packed:
    """Return a document as it is written; takes 20 ms for a megabyte."""
    packed = zstandard.compress(document, _LEVEL)
    starts = range(0, len(packed), record.PART_BYTES)
    pieces = tuple(packed[start : start + record.PART_BYTES] for start in starts)
    return Packed(sha512(document), len(document), pieces)


def unpack(packed: bytes, kept: Kept) -> bytes:
    """Return a document from its pieces.

    Raises:
        BadRecord: It is not what was kept.
    """
    try:
        document = zstandard.ZstdDecompressor().decompress(packed, max(kept.size, 1))
    except zstandard.ZstdError as error:
        raise BadRecord(f"it cannot be unpacked: {error}") from None
    if sha512(document) != kept.hash:
        raise BadRecord("its bytes do not have the hash by which it is kept")
    return document


def sha512(document: bytes | bytearray) -> str:
    """Return what Kubernetes names a document by: SHA-512 in upper-case hex."""
    return hashlib.sha512(document).hexdigest().upper()
