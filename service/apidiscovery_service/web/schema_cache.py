"""Documents whose schemas are read again and again, by their hash."""

import asyncio
from collections import OrderedDict
from typing import Final

from apidiscovery_service.openapi.body import DocumentForm, DocumentSource
from apidiscovery_service.openapi.making import Once
from apidiscovery_service.openapi.schemas import read
from apidiscovery_service.web.field_schemas import Schemas

KEPT_BYTES: Final = 8 * 2**20
"""Of documents as text, of which only the schemas are in memory."""


class SchemaCache:
    """Keeps the schemas of the documents that were asked for last. For the event loop's thread.

    Args:
        kept_bytes: Of their texts in all; the last one is kept whatever its size.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._capacity = kept_bytes
        self._kept: OrderedDict[str, tuple[Schemas, int]] = OrderedDict()
        self._reading: Once[str, tuple[Schemas, int]] = Once()

    async def of(self, documents: DocumentSource, key: str) -> Schemas | None:
        """Return the schemas of a document; None without such a document.

        Raises:
            DiscoveryError: The document cannot be had or read now.
        """
        digest = await documents.hash_of(key)
        if digest is None:
            return None
        if digest not in self._kept:
            body = await documents.body(key, DocumentForm.JSON, "identity")
            if body is None:
                return None
            digest, data = body.hash, body.data
            self._kept[digest] = await self._reading.run(digest, lambda: _read(data))
        self._kept.move_to_end(digest)
        found, _ = self._kept[digest]
        self._drop()
        return found

    def _drop(self) -> None:
        size = sum(size for _, size in self._kept.values())
        while size > self._capacity and len(self._kept) > 1:
            _, (_, dropped) = self._kept.popitem(last=False)
            size -= dropped


async def _read(text: bytes) -> tuple[Schemas, int]:
    return await asyncio.to_thread(lambda: Schemas(read(text))), len(text)
