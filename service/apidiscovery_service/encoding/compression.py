"""Which content coding a client takes, and the coding itself.

Accept-Encoding is read by RFC 9110, section 12.5.3, which is wider than kube-apiserver's search
for the bare word `gzip`.
"""

import gzip
import struct
import zlib
from collections.abc import Iterable
from typing import Literal, TypeAlias

import zstandard

Coding: TypeAlias = Literal["identity", "gzip", "zstd"]

# Below this a compressed body saves nothing over the packets that it takes anyway.
MIN_COMPRESSED_BYTES = 1024

# Bodies are compressed once per change, off the event loop, so ratio counts for more than speed;
# zstd's higher levels take seven times as long for six per cent less.
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3

# What we like best first, among codings that the client likes equally.
_OFFERED: tuple[Coding, ...] = ("zstd", "gzip")


def choose(accept_encoding: str) -> Coding:
    """Return the coding for a body that is large enough to be compressed.

    Identity if the header is empty, names nothing that is offered, or prefers identity; also if
    it refuses everything, since an uncompressed answer helps more than none.
    """
    if not accept_encoding:
        return "identity"
    weights = _weights(accept_encoding)
    others = weights.get("*", 0.0)
    best: Coding = "identity"
    # Identity needs no mention to be acceptable; when mentioned its weight counts.
    best_weight = weights.get("identity", 0.0)
    for coding in _OFFERED:
        weight = weights.get(coding, others)
        if weight > best_weight or (weight == best_weight > 0 and best == "identity"):
            best, best_weight = coding, weight
    return best


def _weights(accept_encoding: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in accept_encoding.split(","):
        name, _, parameters = part.partition(";")
        coding = name.strip().lower()
        if coding:
            weights["gzip" if coding == "x-gzip" else coding] = _weight(parameters)
    return weights


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 0.0


def compress(content: bytes, coding: Coding) -> bytes:
    """Return the content in that coding; the same content always gives the same bytes."""
    if coding == "gzip":
        return gzip.compress(content, _GZIP_LEVEL, mtime=0)
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(content)
    return content


# Parts are compressed once, off the event loop, so ratio counts for more than speed.
_LEVEL = 6
_RAW = -zlib.MAX_WBITS

# RFC 1952, section 2.3: magic, deflate, no flags, no time, no hints, unknown system.
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def block(content: bytes) -> bytes:
    """Return a part that others may follow."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
    return compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)


def last_block(content: bytes) -> bytes:
    """Return the part that ends a stream."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
    return compressor.compress(content) + compressor.flush()


def gzip_member(blocks: Iterable[bytes], contents: Iterable[bytes]) -> bytes:
    """Return the gzip body of parts.

    Args:
        blocks: Each part compressed, the last one by `last_block`.
        contents: The same text as it is, cut in any way.
    """
    checksum = size = 0
    for content in contents:
        checksum = zlib.crc32(content, checksum)
        size += len(content)
    return b"".join((_HEADER, *blocks, struct.pack("<LL", checksum, size & 0xFFFFFFFF)))
