"""What transports get: the index, and documents in one form and coding."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.openapi.packed import Packed


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
