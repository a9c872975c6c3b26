"""Bodies of documents in the forms and codings that clients ask for, in a bounded cache."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final

from apidiscovery_service import workers
from apidiscovery_service.encoding import compression
from apidiscovery_service.encoding.compression import Coding, coding_for
from apidiscovery_service.openapi.body import WHOLE_BYTES, Body, DocumentForm, Packed, PackedBody
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.making import Making
from apidiscovery_service.openapi.protobuf.documents import encode_v2
from apidiscovery_service.recent import Recent

# The key of the v2 document; those of v3 documents are the paths that they describe.
WHOLE_KEY: Final = "/openapi/v2"

# Writing protobuf takes about five times as much memory.
ENCODED_BYTES: Final = 64 * 2**20


def check_encodable(form: DocumentForm, size: int) -> None:
    """Check that a document is small enough for a form.

    Args:
        form: The form that is asked for.
        size: The document's bytes as JSON.

    Raises:
        InvalidOpenAPI: It is too large.
    """
    if form is not DocumentForm.JSON and size > ENCODED_BYTES:
        more = f"it takes {size} bytes as JSON"
        raise InvalidOpenAPI((), f"{more}; up to {ENCODED_BYTES} are written as protobuf")


class Bodies:
    """Encodes and compresses documents, and caches the results."""

    def __init__(self, making: Making, cache_bytes: int) -> None:
        self._making = making
        self._cache = body_cache(cache_bytes)
        # A larger body is evicted first, so that it alone does not empty the cache.
        self._large = cache_bytes // 2

    def cached(self, of: str, form: DocumentForm, coding: Coding) -> tuple[bytes, Coding] | None:
        """Return a cached body and its coding; None when it must be made.

        Args:
            of: The hash of the document.
            form: How it is written.
            coding: The coding that is wanted; a body too small to be compressed is plain.
        """
        data = self._cache.get((of, form, coding))
        if data is not None:
            return data, coding
        plain = self._cache.get((of, form, "identity"))
        small = plain is not None and coding_for(len(plain), coding) == "identity"
        return (plain, "identity") if plain is not None and small else None

    def add(self, of: str, text: bytes) -> None:
        """Cache the JSON of a document before it is requested."""
        self._add(of, DocumentForm.JSON, text, requested=False)

    def cached_whole(
        self, packed: Packed, form: DocumentForm, coding: Coding
    ) -> Body | PackedBody | None:
        """Return a body of a v2 document if nothing has to be made; packed if it is large."""
        if (form, coding_for(len(packed), coding)) == (DocumentForm.JSON, "zstd"):
            return Body(WHOLE_KEY, packed.hash, packed.data, coding)
        if (form, coding) == (DocumentForm.JSON, "identity") and len(packed) > WHOLE_BYTES:
            return PackedBody(WHOLE_KEY, packed)
        cached = self.cached(packed.hash, form, coding)
        return Body(WHOLE_KEY, packed.hash, *cached) if cached else None

    async def whole(self, packed: Packed, form: DocumentForm, coding: Coding) -> Body | PackedBody:
        """Return a body of a v2 document; packed if it is large.

        Raises:
            InvalidOpenAPI: It cannot be encoded in that form.
        """
        cached = self.cached_whole(packed, form, coding)
        if cached:
            return cached
        check_encodable(form, len(packed))
        text = (await asyncio.to_thread(packed.unpacked)).text
        data = await self.make(packed.hash, text, form, coding, encode_v2)
        return Body(WHOLE_KEY, packed.hash, *data)

    async def make(
        self,
        of: str,
        text: bytes,
        form: DocumentForm,
        coding: Coding,
        encode: Callable[[bytes], bytes],
    ) -> tuple[bytes, Coding]:
        """Return a body and its coding.

        Args:
            of: The hash of the document.
            text: The document as JSON.
            form: How it is to be written.
            coding: The coding that is wanted; a body too small to be compressed stays plain.
            encode: Encodes JSON as protobuf, in a worker process.

        Raises:
            InvalidOpenAPI: It cannot be written in that form.
        """
        self._add(
            of,
            DocumentForm.JSON,
            text,
            requested=form is DocumentForm.JSON and coding == "identity",
        )
        plain = text
        if form is not DocumentForm.JSON:
            check_encodable(form, len(text))
            plain = self._cache.get((of, form, "identity")) or await self._making.in_turn(
                form.value, lambda: _encoded(encode, text)
            )
            self._add(of, form, plain, requested=coding == "identity")
        if coding_for(len(plain), coding) == "identity":
            return plain, "identity"
        data = await self._making.in_turn(
            coding, lambda: asyncio.to_thread(compression.compress, plain, coding)
        )
        self._cache.put((of, form, coding), data)
        return data, coding

    def _add(self, of: str, form: DocumentForm, data: bytes, *, requested: bool) -> None:
        """Cache a plain body; one that was not requested is evicted first, for it is large."""
        key = of, form, "identity"
        small = len(data) < compression.MIN_COMPRESSED_BYTES
        large = len(data) > self._large
        if key not in self._cache:
            self._cache.put(key, data, first=large or not (requested or small))


async def _encoded(encode: Callable[[bytes], bytes], text: bytes) -> bytes:
    try:
        return await workers.run(encode, text)
    except workers.WorkerFailed as error:
        raise InvalidOpenAPI((), f"cannot be written as protobuf: {error}") from None


# Memory of an entry beside its bytes, roughly.
_ENTRY_BYTES = 500


def body_cache(most: int) -> Recent[Hashable, bytes]:
    """Return a cache of bodies that takes so many bytes at most; 0 turns it off."""
    return Recent(most, weigh=lambda data: len(data) + _ENTRY_BYTES)
