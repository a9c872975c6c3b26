"""OpenAPI documents that registrations carry, as they are kept: compressed, in base64, in JSON.

Releases that do not know them pass over the field, so the format of records is the same.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import zstandard

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.validation import DEFAULT_LIMITS, concerning, validate
from apidiscovery_service.sources.registrations.record import InvalidRecord, Object, as_object

# A seventh smaller than at level 3, which is worth having where a registration has 1 MiB; it takes
# ten times as long, 30 ms for a document of 1.7 MB. Higher levels take much longer for little.
_LEVEL: Final = 12


@dataclass(frozen=True, slots=True)
class CarriedDocument:
    """A document that is sound.

    Attributes:
        hash: SHA-512 of its JSON in upper-case hexadecimal.
        size: Bytes of its JSON.
        text: The JSON compressed by zstd, in base64.
    """

    hash: str
    size: int
    text: str

    def compressed(self) -> bytes:
        """Return the JSON compressed by zstd.

        Raises:
            InvalidRecord: What is kept is not that.
        """
        try:
            packed = base64.b64decode(self.text, validate=True)
            size = zstandard.frame_content_size(packed)
        except (ValueError, zstandard.ZstdError) as error:
            raise InvalidRecord(f"openapiV3: {error}") from None
        if not 0 < size <= DEFAULT_LIMITS.bytes:
            raise InvalidRecord("openapiV3: want a document compressed by zstd, with its size")
        return packed

    def json(self) -> bytes:
        """Return the JSON.

        Raises:
            InvalidRecord: What is kept is no such document.
        """
        try:
            return zstandard.ZstdDecompressor().decompress(self.compressed())
        except zstandard.ZstdError as error:
            raise InvalidRecord(f"openapiV3: {error}") from None


def carried(document: bytes, group: str, version: str) -> CarriedDocument:
    """Return a document of a group-version as it is kept.

    Raises:
        InvalidDocuments: It is no sound document of this group-version.
    """
    canonical = validate(document)
    concerning(canonical, group, version)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(canonical)
    digest = hashlib.sha512(canonical).hexdigest().upper()
    return CarriedDocument(digest, len(canonical), base64.b64encode(packed).decode())


def to_json(documents: Mapping[str, CarriedDocument]) -> JSONValue:
    """Return the JSON form of documents by version."""
    return {
        version: {"hash": one.hash, "size": one.size, "zstd": one.text}
        for version, one in sorted(documents.items())
    }


def from_json(content: JSONValue) -> dict[str, CarriedDocument]:
    """Read the JSON form, as `to_json` wrote it."""
    return {version: _carried(as_object(fields)) for version, fields in as_object(content).items()}


def _carried(fields: Object) -> CarriedDocument:
    size = fields.get("size")
    return CarriedDocument(
        str(fields.get("hash") or ""),
        size if isinstance(size, int) else 0,
        str(fields.get("zstd") or ""),
    )
