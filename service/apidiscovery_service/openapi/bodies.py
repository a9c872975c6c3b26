"""Documents in the forms and codings that clients ask for, made once each while there is room."""

import gzip
from collections.abc import Callable
from functools import partial

import zstandard

from apidiscovery_service.openapi.body import Coding, Form
from apidiscovery_service.openapi.body_cache import BodyCache
from apidiscovery_service.openapi.making import Making

# Below this a compressed body saves nothing over the packets that it takes anyway.
MIN_COMPRESSED_BYTES = 1024

_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3


def compress(content: bytes, coding: Coding) -> bytes:
    """Return the content in that coding; the same content always gives the same bytes."""
    if coding == "gzip":
        return gzip.compress(content, _GZIP_LEVEL, mtime=0)
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(content)
    return content


class Bodies:
    """Encodes and compresses documents; keeps what was asked for last."""

    def __init__(self, making: Making, kept_bytes: int) -> None:
        self._making = making
        self._cache = BodyCache(kept_bytes)

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

    async def make(
        self, of: str, text: bytes, form: Form, coding: Coding, encode: Callable[[bytes], bytes]
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
            plain = self._cache.get((of, form, "identity")) or await self._making.in_turn(
                form.value, partial(encode, text)
            )
            self._keep(of, form, plain, wanted=coding == "identity")
        if coding == "identity" or len(plain) < MIN_COMPRESSED_BYTES:
            return plain, "identity"
        data = await self._making.in_turn(coding, partial(compress, plain, coding))
        self._cache.put((of, form, coding), data)
        return data, coding

    def _keep(self, of: str, form: Form, data: bytes, *, wanted: bool) -> None:
        """Keep what is not compressed; what nobody asked for goes first, for it is large."""
        small = len(data) < MIN_COMPRESSED_BYTES
        self._cache.put((of, form, "identity"), data, first_to_go=not (wanted or small))
