"""What transports get: the index, and documents in one form and coding."""

import hashlib
import re
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final
from urllib.parse import quote

import zstandard

from apidiscovery_service.encoding.compression import Coding, compress
from apidiscovery_service.kube import go_json

# Up to so many bytes a text is not worth the trouble: making or dropping it takes less than 1 ms.
WHOLE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Unpacked:
    """The text of a packed one, which everybody shares who reads it now."""

    text: bytes


class _Sharing:
    """The unpacked text of a packed one, as long as somebody reads it."""

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
    """A text, or a part of it.

    Attributes:
        data: The whole text as one zstd frame.
        hash: Upper-case hex SHA-512 of the whole text.
        end: Where the part ends in the text, in bytes.
        begin: Where it begins.
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
        """Return how it is pickled: without the text."""
        return Packed, (self.data, self.hash, self.end, self.begin)

    def part(self, begin: int, end: int) -> "Packed":
        """Return the part between two places of this one."""
        return replace(self, begin=self.begin + begin, end=self.begin + end)

    def unpacked(self) -> Unpacked:
        """Return the whole text, of which this may be a part, for all who read it now."""
        return self._sharing.get(self.data)


def pack(text: bytes) -> Packed:
    """Return a text compressed."""
    return Packed(compress(text, "zstd"), hashlib.sha512(text).hexdigest().upper(), len(text))


class Form(Enum):
    """How a document is written."""

    JSON = "json"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class Body:
    """A document as it is sent.

    Attributes:
        key: The path that it describes, without leading slash.
        hash: Upper-case hex SHA-512 of its JSON, whatever the form and coding.
        coding: Content coding of `data`; identity for what is too small to be compressed.
    """

    key: str
    hash: str
    data: bytes
    coding: Coding = "identity"


@dataclass(frozen=True, slots=True)
class PackedBody:
    """A document that is too large to be there whole, as JSON.

    Attributes:
        key: The path that it describes, without leading slash.
        data: It, to be sent in pieces.
    """

    key: str
    data: Packed

    @property
    def hash(self) -> str:
        """Upper-case hex SHA-512 of the document."""
        return self.data.hash

    @property
    def coding(self) -> Coding:
        """What is sent is plain."""
        return "identity"


@dataclass(frozen=True, slots=True)
class Index:
    """The list of documents.

    Attributes:
        entries: Hash by key, in the order of the keys. Of a document that takes long to make it is
            that of the document before meanwhile, and empty if there was none.
        body: As JSON.
        etag: Upper-case hex SHA-512 of `body`.
        notes: What is to be said of documents that are not what one would want, by key.
    """

    entries: Mapping[str, str]
    body: bytes
    etag: str
    notes: Mapping[str, str]


# What Go's url.URL leaves as it is in a path.
# Source: net/url url.go:shouldEscape, mode encodePath.
_PATH_SAFE = "/$&+,:;=@~"
# What nothing is done to at all, which is every path of a group-version.
_PLAIN = re.compile(r"[A-Za-z0-9._/-]*").fullmatch


def make_index(hashes: Mapping[str, str], notes: Mapping[str, str]) -> Index:
    """Return the index of documents; it takes some 2 ms for a thousand.

    Args:
        hashes: Of each document by key, in any order; empty for one that is not known yet.
        notes: What is to be said of some of them, by key.
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
    """Return where a document is served as long as it has that hash; without one, as it is then.

    >>> server_relative_url("apis/apps/v1", "A0")
    '/openapi/v3/apis/apps/v1?hash=A0'
    """
    path = key if _PLAIN(key) else quote(key, safe=_PATH_SAFE)
    return f"/openapi/v3/{path}?hash={document_hash}" if document_hash else f"/openapi/v3/{path}"
