"""A gzip body from parts that are compressed one by one and kept.

Deflate streams that end in a sync flush end at a byte, and may be put one behind the other if
none looks back beyond its own beginning (RFC 1951; zlib, Z_SYNC_FLUSH). So a part that has not
changed need not be compressed again.
"""

import struct
import zlib
from collections.abc import Iterable

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
