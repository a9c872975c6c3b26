"""A text that is kept compressed, and unpacked for as long as somebody reads it."""

import hashlib
import threading
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import zstandard

from apidiscovery_service.compression import compress

# What is worked on at once. Whoever hands a piece on holds the interpreter for less than 1 ms.
PIECE_BYTES: Final = 256 * 1024
# Up to so many bytes a text is not worth the trouble: making or dropping it takes less than 1 ms.
WHOLE_BYTES: Final = 1024 * 1024

_LEVEL = 3
_GZIP_LEVEL = 6
# zlib.compressobj: the largest window, and 16 for the header of gzip.
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Unpacked:
    """The text of a packed one, which everybody shares who reads it now."""

    text: bytes


class _Sharing:
    """The unpacked text of a packed one, as long as somebody reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unpacked: weakref.ref[Unpacked] | None = None

    def get(self, data: bytes, size: int) -> Unpacked:
        with self._lock:
            unpacked = self._unpacked() if self._unpacked else None
            if unpacked is None:
                # A frame that was made bit by bit does not say its size.
                reader = zstandard.ZstdDecompressor()
                unpacked = Unpacked(reader.decompress(data, max_output_size=size))
                self._unpacked = weakref.ref(unpacked)
            return unpacked


@dataclass(frozen=True, slots=True)
class Packed:
    """A text, or a part of it.

    Attributes:
        data: The whole text as one zstd frame.
        hash: Upper-case hex SHA-512 of the whole text.
        size: Of the whole text, in bytes.
        end: Where the part ends in the text.
        begin: Where it begins.
    """

    data: bytes
    hash: str
    size: int
    end: int
    begin: int = 0
    _sharing: _Sharing = field(default_factory=_Sharing, compare=False, repr=False)

    def __len__(self) -> int:
        """Return the number of bytes of the part."""
        return self.end - self.begin

    def part(self, begin: int, end: int) -> "Packed":
        """Return the part between two places of this one."""
        return replace(self, begin=self.begin + begin, end=self.begin + end)

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the part; each step takes time, what is before the part as well."""
        with zstandard.ZstdDecompressor().stream_reader(self.data) as reader:
            skipped = 0
            while skipped < self.begin:
                skipped += len(reader.read(min(PIECE_BYTES, self.begin - skipped)))
            left = len(self)
            while left:
                piece = reader.read(min(PIECE_BYTES, left))
                left -= len(piece)
                yield piece

    def unpacked(self) -> Unpacked:
        """Return the whole text, of which this may be a part, for all who read it now."""
        return self._sharing.get(self.data, self.size)

    def whole(self) -> bytes:
        """Return the bytes of the part at once, which only small ones should be."""
        return b"".join(self.pieces())

    def gzipped(self) -> bytes:
        """Return the part compressed by gzip; the same text always gives the same bytes."""
        packing = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
        parts = [packing.compress(piece) for piece in self.pieces()]
        return b"".join((*parts, packing.flush()))


class Packing:
    """Takes a text bit by bit."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._digest = hashlib.sha512()
        self._waiting = bytearray()
        self._packed: list[bytes] = []
        self._size = 0

    def write(self, text: bytes) -> None:
        """Add to the text."""
        self._waiting += text
        if len(self._waiting) >= PIECE_BYTES:
            self._pass_on()

    def _pass_on(self) -> None:
        self._size += len(self._waiting)
        self._digest.update(self._waiting)
        self._packed.append(self._compressor.compress(self._waiting))
        self._waiting = bytearray()

    def packed(self) -> Packed:
        """Return the text, to which nothing may be added any more.

        Of a small one the frame says how large it is, which some readers want.
        """
        if not self._size:
            return pack(bytes(self._waiting))
        self._pass_on()
        data = b"".join((*self._packed, self._compressor.flush()))
        return Packed(data, self._digest.hexdigest().upper(), self._size, self._size)


def pack(text: bytes) -> Packed:
    """Return a text that is there already."""
    digest = hashlib.sha512(text).hexdigest().upper()
    return Packed(compress(text, "zstd"), digest, len(text), len(text))
