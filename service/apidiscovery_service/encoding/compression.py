"""Content codings: negotiation, compression, and gzip bodies made of compressed blocks.

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

# A smaller body takes as many packets when it is compressed.
MIN_COMPRESSED_BYTES = 1024

# Bodies are compressed once per change, off the event loop, so the ratio matters more than speed.
# Higher levels of zstd take seven times as long for 6 % less.
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3

# In order of preference, among codings with the same weight.
_OFFERED: tuple[Coding, ...] = ("zstd", "gzip")


def choose(accept_encoding: str) -> Coding:
    """Return the coding for a body that is large enough to be compressed.

    Identity if the header is empty, names no offered coding, or prefers identity; also if it
    refuses everything, since a plain answer is better than none.
    """
    if not accept_encoding:
        return "identity"
    weights = _weights(accept_encoding)
    others = weights.get("*", 0.0)
    best: Coding = "identity"
    # Identity is always acceptable; its weight counts only where it is named.
    best_weight = weights.get("identity", 0.0)
    for coding in _OFFERED:
        weight = weights.get(coding, others)
        if weight > best_weight or (weight == best_weight > 0 and best == "identity"):
            best, best_weight = coding, weight
    return best


def coding_for(size: int, wanted: Coding) -> Coding:
    """Return the coding that a body of so many bytes gets: identity if it is too small."""
    return "identity" if size < MIN_COMPRESSED_BYTES else wanted


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
    """Return content in a coding; equal content gives equal bytes."""
    if coding == "gzip":
        return gzip.compress(content, _GZIP_LEVEL, mtime=0)
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(content)
    return content


_RAW = -zlib.MAX_WBITS

# RFC 1952, section 2.3: magic, deflate, no flags, no time, no hints, unknown system.
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def block(content: bytes) -> bytes:
    """Return a compressed part of a stream that others can follow.

    Deflate streams that end in a sync flush end at a byte, and can be concatenated if none refers
    to data before its beginning (RFC 1951; zlib, Z_SYNC_FLUSH). So unchanged parts are compressed
    only once.
    """
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _RAW)
    return compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)


def last_block(content: bytes) -> bytes:
    """Return the compressed part that ends a stream."""
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _RAW)
    return compressor.compress(content) + compressor.flush()


def gzip_member(blocks: Iterable[bytes], contents: Iterable[bytes]) -> bytes:
    """Return the gzip body of compressed parts.

    Args:
        blocks: The parts, the last one by `last_block`.
        contents: The uncompressed text, in pieces of any size.
    """
    checksum = size = 0
    for content in contents:
        checksum = zlib.crc32(content, checksum)
        size += len(content)
    return b"".join((_HEADER, *blocks, struct.pack("<LL", checksum, size & 0xFFFFFFFF)))
