"""A text that is kept compressed, and unpacked for as long as somebody reads it."""

import hashlib
import threading
import weakref
from dataclasses import dataclass, field, replace
from typing import Final

import zstandard

from apidiscovery_service.encoding.compression import compress

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
