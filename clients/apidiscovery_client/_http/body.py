"""Collects the body of an answer, decompressed as it arrives, within bounds."""

import zlib
from collections.abc import AsyncIterable, Iterable

_GZIP = zlib.MAX_WBITS | 16
PIECE_BYTES = 1 << 16  # the size of reads, where the reader may choose it
_MAX_MEMBERS = 4096  # each costs as much as 64 KiB of content, however little is in it


class BodyError(ValueError):
    """The body is too large, or cannot be decompressed."""


class Collected:
    """A body that is decompressed as it arrives, up to a limit, so that a zip bomb does no harm.

    Attributes:
        received: Bytes that have arrived, before decompression.
    """

    def __init__(self, coding: str, max_bytes: int) -> None:
        self.received = 0
        self._coding = coding.strip().lower()
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._gzip = zlib.decompressobj(_GZIP) if self._coding in ("gzip", "x-gzip") else None
        self._members = 1
        self._is_known = self._gzip is not None or self._coding in ("", "identity")

    def add(self, piece: bytes) -> None:
        """Add bytes that have arrived; raise `BodyError`."""
        self.received += len(piece)
        if not self._is_known:
            raise BodyError(f"the body cannot be decoded: its coding is {self._coding!r}")
        if self._gzip:
            # In parts, because zlib copies what follows the end of a member.
            for start in range(0, len(piece), PIECE_BYTES):
                self._inflate(piece[start : start + PIECE_BYTES])
        else:
            self._body += piece
        if max(self.received, len(self._body)) > self._max_bytes:
            raise BodyError(f"the body exceeds {self._max_bytes} bytes")

    def all_of(self, pieces: Iterable[bytes]) -> bytes:
        """Return the content of all pieces; raise `BodyError`."""
        for piece in pieces:
            self.add(piece)
        return self.whole()

    async def collect_async(self, pieces: AsyncIterable[bytes]) -> bytes:
        """Return the content of all pieces; raise `BodyError`."""
        async for piece in pieces:
            self.add(piece)
        return self.whole()

    def whole(self) -> bytes:
        """Return the content once the body has ended; raise `BodyError` for an incomplete one."""
        if self._gzip and self.received and not self._gzip.eof:
            raise BodyError("the body cannot be decoded: it ends in the middle")
        return bytes(self._body)

    def _inflate(self, piece: bytes) -> None:
        """Decompress a piece; a body may have several gzip members (RFC 1952 2.2)."""
        assert self._gzip  # noqa: S101 - the caller has looked
        try:
            while piece and len(self._body) <= self._max_bytes:
                if self._gzip.eof:
                    self._count_member()
                    self._gzip = zlib.decompressobj(_GZIP)
                room = self._max_bytes - len(self._body) + 1
                self._body += self._gzip.decompress(piece, room)
                piece = self._gzip.unused_data
        except zlib.error as error:
            raise BodyError(f"the body cannot be decoded: {error}") from error

    def _count_member(self) -> None:
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise BodyError(f"the body is compressed in more than {_MAX_MEMBERS} parts")
