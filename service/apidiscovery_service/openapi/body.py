"""What transports send: the index, and documents in one form and coding.

Source of the index: k8s.io/kube-openapi pkg/handler3/handler.go:OpenAPIV3Discovery.
"""

import hashlib
import re
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Protocol
from urllib.parse import quote

import zstandard

from apidiscovery_service.encoding.compression import Coding, compress
from apidiscovery_service.kube import go_json

# A text of up to so many bytes is sent whole: making or dropping it takes less than 1 ms.
WHOLE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Unpacked:
    """The text of a packed document, shared by its concurrent readers."""

    text: bytes


class _Sharing:
    """Unpacks a text for the first reader, and forgets it with the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unpacked: weakref.ref[Unpacked] | None = None

    def get(self, data: bytes) -> Unpacked:
        with self._lock:
            unpacked = self._unpacked() if self._unpacked else None
            if unpacked is None:
                unpacked = Unpacked(zstandard.decompress(data))
                self._unpacked = weakref.ref(unpacked)
            return unpacked


@dataclass(frozen=True, slots=True)
class Packed:
    """A text that is kept compressed, or a part of it.

    Attributes:
        data: The whole text as one zstd frame.
        hash: Upper-case hex SHA-512 of the whole text.
        end: The offset in bytes at which the part ends in the text.
        begin: The offset at which it begins.
    """

    data: bytes
    hash: str
    end: int
    begin: int = 0
    _sharing: _Sharing = field(default_factory=_Sharing, compare=False, repr=False)

    def __len__(self) -> int:
        """Return the number of bytes of the part."""
        return self.end - self.begin

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle it without the unpacked text."""
        return Packed, (self.data, self.hash, self.end, self.begin)

    def part(self, begin: int, end: int) -> "Packed":
        """Return the part between two offsets of this one."""
        return replace(self, begin=self.begin + begin, end=self.begin + end)

    def unpacked(self) -> Unpacked:
        """Return the whole text, of which this may be a part."""
        return self._sharing.get(self.data)


def pack(text: bytes) -> Packed:
    """Compress a text by zstd, and hash it."""
    return Packed(compress(text, "zstd"), hashlib.sha512(text).hexdigest().upper(), len(text))


class DocumentForm(Enum):
    """How a document is written."""

    JSON = "json"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class Body:
    """A document as it is sent.

    Attributes:
        key: The path that the document describes, without leading slash.
        hash: Upper-case hex SHA-512 of its JSON, whatever the form and coding.
        coding: Content coding of `data`; identity for what is too small to be compressed.
    """

    key: str
    hash: str
    data: bytes
    coding: Coding = "identity"


@dataclass(frozen=True, slots=True)
class PackedBody:
    """A JSON document too large to be in memory as a whole.

    Attributes:
        key: The path that the document describes, without leading slash.
        data: The document, to be sent in pieces.
    """

    key: str
    data: Packed

    @property
    def hash(self) -> str:
        """Upper-case hex SHA-512 of the document."""
        return self.data.hash

    @property
    def coding(self) -> Coding:
        """Always identity."""
        return "identity"


@dataclass(frozen=True, slots=True)
class Index:
    """The list of documents.

    Attributes:
        entries: Hash by key, in the order of the keys. While a document is being made, its hash is
            that of the document before, or empty if there was none.
        body: The list as JSON.
        etag: Upper-case hex SHA-512 of `body`.
        notes: By key, why a document is not the one that its source should have.
    """

    entries: Mapping[str, str]
    body: bytes
    etag: str
    notes: Mapping[str, str]


# Characters that Go's url.URL does not escape in a path.
# Source: net/url url.go:shouldEscape, mode encodePath.
_PATH_SAFE = "/$&+,:;=@~"
# Paths without anything to escape, which are those of all group-versions.
_PLAIN = re.compile(r"[A-Za-z0-9._/-]*").fullmatch


def make_index(hashes: Mapping[str, str], notes: Mapping[str, str]) -> Index:
    """Return the index of documents; a thousand take some 2 ms.

    Args:
        hashes: The hash of each document by key, in any order; empty while it is not known.
        notes: As in `Index`, in any order.
    """
    entries = {key: hashes[key] for key in sorted(hashes)}
    urls = {key: {"serverRelativeURL": server_relative_url(key, entries[key])} for key in entries}
    body = go_json.dumps({"paths": urls})
    return Index(
        entries,
        body,
        hashlib.sha512(body).hexdigest().upper(),
        {key: notes[key] for key in sorted(notes) if key in entries},
    )


def server_relative_url(key: str, document_hash: str) -> str:
    """Return the URL of a document with a hash; without hash, of the current document.

    >>> server_relative_url("apis/apps/v1", "A0")
    '/openapi/v3/apis/apps/v1?hash=A0'
    """
    path = key if _PLAIN(key) else quote(key, safe=_PATH_SAFE)
    return f"/openapi/v3/{path}?hash={document_hash}" if document_hash else f"/openapi/v3/{path}"


class DocumentSource(Protocol):
    """The OpenAPI v3 documents of the merged APIs, a cluster or a former time."""

    async def index(self) -> Index:
        """Return the list of all documents."""
        ...

    async def hash_of(self, key: str) -> str | None:
        """Return the current hash of one document; None if there is none."""
        ...

    async def body(self, key: str, form: DocumentForm, coding: Coding) -> Body | None:
        """Return one document; None if there is none."""
        ...
