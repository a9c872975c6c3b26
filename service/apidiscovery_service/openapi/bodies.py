"""Documents in the forms and codings that clients ask for, made once each while there is room."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, get_args

from apidiscovery_service.encoding.compression import MIN_COMPRESSED_BYTES, Coding, compress
from apidiscovery_service.openapi.body import Form, Packed
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.making import Making

# Writing protobuf takes about five times as much memory.
ENCODED_BYTES: Final = 64 * 2**20


def see_that_it_fits(form: Form, size: int) -> None:
    """See that a document may be written in a form.

    Args:
        form: That is asked for.
        size: Bytes that it takes as JSON.

    Raises:
        InvalidOpenAPI: It may not.
    """
    if form is not Form.JSON and size > ENCODED_BYTES:
        more = f"it takes {size} bytes as JSON"
        raise InvalidOpenAPI((), f"{more}; up to {ENCODED_BYTES} are written as protobuf")


class Bodies:
    """Encodes and compresses documents; keeps what was asked for last."""

    def __init__(self, making: Making, kept_bytes: int) -> None:
        self._making = making
        self._cache = BodyCache(kept_bytes)
        # Of what is so large one alone does not drive out everything else.
        self._large = kept_bytes // 2

    def kept(self, of: str, form: Form, coding: Coding) -> tuple[bytes, Coding] | None:
        """Return a body that is there already; None when it must be made.

        Args:
            of: The hash of the document.
            form: How it is written.
            coding: What is wanted; what is too small to be compressed is as it is.
        """
        data = self._cache.get((of, form, coding))
        if data is not None:
            return data, coding
        plain = self._cache.get((of, form, "identity"))
        small = plain is not None and len(plain) < MIN_COMPRESSED_BYTES
        return (plain, "identity") if plain is not None and small else None

    def set_aside(self, of: str, text: bytes) -> None:
        """Keep a document as long as nothing else wants its place."""
        self._keep(of, Form.JSON, text, wanted=False)

    def forget(self, of: str) -> None:
        """Keep nothing of a document that nobody can ask for any more."""
        for form in Form:
            for coding in get_args(Coding):
                self._cache.drop((of, form, coding))

    async def gzipped(self, packed: Packed) -> bytes:
        """Return a document that is there packed, as JSON, compressed by gzip."""
        data = await self._making.in_turn("gzip", lambda: asyncio.to_thread(_gzipped, packed))
        self._cache.put((packed.hash, Form.JSON, "gzip"), data)
        return data

    async def make(
        self,
        of: str,
        text: bytes,
        form: Form,
        coding: Coding,
        encode: Callable[[bytes], Awaitable[bytes]],
    ) -> tuple[bytes, Coding]:
        """Return a body and its coding.

        Args:
            of: The hash of the document.
            text: The document as JSON.
            form: How it is to be written.
            coding: What is wanted; what is too small to be compressed stays as it is.
            encode: From JSON to protobuf.

        Raises:
            InvalidOpenAPI: It cannot be written in that form.
        """
        self._keep(of, Form.JSON, text, wanted=form is Form.JSON and coding == "identity")
        plain = text
        if form is not Form.JSON:
            see_that_it_fits(form, len(text))
            plain = self._cache.get((of, form, "identity")) or await self._making.in_turn(
                form.value, lambda: encode(text)
            )
            self._keep(of, form, plain, wanted=coding == "identity")
        if coding == "identity" or len(plain) < MIN_COMPRESSED_BYTES:
            return plain, "identity"
        data = await self._making.in_turn(
            coding, lambda: asyncio.to_thread(compress, plain, coding)
        )
        self._cache.put((of, form, coding), data)
        return data, coding

    def _keep(self, of: str, form: Form, data: bytes, *, wanted: bool) -> None:
        """Keep what is not compressed; what nobody asked for goes first, for it is large."""
        small = len(data) < MIN_COMPRESSED_BYTES
        large = len(data) > self._large
        first_to_go = large or not (wanted or small)
        self._cache.put((of, form, "identity"), data, first_to_go=first_to_go)


def _gzipped(packed: Packed) -> bytes:
    return compress(packed.unpacked().text, "gzip")


# What an entry takes beside its bytes, about.
_ENTRY_BYTES = 500


class BodyCache:
    """Keeps what was used last, up to a number of bytes. It belongs to one thread."""

    def __init__(self, capacity: int) -> None:
        """Take the number of bytes that are kept at most; none when it is zero."""
        self._capacity = capacity
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes that are kept, with what keeping them takes."""
        return self._size

    def get(self, key: Hashable) -> bytes | None:
        """Return what is kept under a key, which makes it the last to go."""
        data = self._kept.get(key)
        if data is not None:
            self._kept.move_to_end(key)
        return data

    def put(self, key: Hashable, data: bytes, *, first_to_go: bool = False) -> None:
        """Keep bytes; what was not used for longest goes for it.

        Args:
            key: Stands for these very bytes: what is under it already is taken to be equal.
            data: More than the capacity is not kept at all.
            first_to_go: Whether it goes before all others, being of use only while there is room.
        """
        if key in self._kept or _weight(data) > self._capacity:
            return
        self._kept[key] = data
        self._size += _weight(data)
        if first_to_go:
            self._kept.move_to_end(key, last=False)
        while self._size > self._capacity:
            _, dropped = self._kept.popitem(last=False)
            self._size -= _weight(dropped)

    def drop(self, key: Hashable) -> None:
        """Keep nothing under a key any more."""
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._size -= _weight(dropped)


def _weight(data: bytes) -> int:
    return len(data) + _ENTRY_BYTES
