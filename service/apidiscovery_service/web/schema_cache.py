"""Documents whose schemas are read again and again, by their hash."""

import asyncio

from apidiscovery_service.openapi.body import DocumentForm, DocumentSource
from apidiscovery_service.openapi.schema_text import read
from apidiscovery_service.recent import Recent
from apidiscovery_service.web.field_schemas import Schemas

# Of documents as text, of which only the schemas are in memory.
_KEPT_BYTES = 8 * 2**20


class SchemaCache:
    """Keeps the schemas of the documents that were asked for last. For the event loop's thread."""

    def __init__(self) -> None:
        # The last one weighs no more than all may: so it is kept whatever its size.
        self._kept: Recent[str, tuple[Schemas, int]] = Recent(
            _KEPT_BYTES, weigh=lambda each: min(each[1], _KEPT_BYTES)
        )

    async def of(self, documents: DocumentSource, key: str) -> Schemas | None:
        """Return the schemas of a document; None without such a document.

        Raises:
            DiscoveryError: The document cannot be had or read now.
        """
        digest = await documents.hash_of(key)
        if digest is None:
            return None
        found = self._kept.get(digest)
        if found is None:
            body = await documents.body(key, DocumentForm.JSON, "identity")
            if body is None:
                return None
            data = body.data
            found = await self._kept.get_or_make(body.hash, lambda: _read(data))
        return found[0]


async def _read(text: bytes) -> tuple[Schemas, int]:
    return await asyncio.to_thread(lambda: Schemas(read(text))), len(text)
