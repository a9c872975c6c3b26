"""JSON Schemas of the kinds in OpenAPI documents: made on request, kept by the document's hash.

Clusters that publish the same document share its schemas.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apidiscovery_formats.openapi.json_schema import Kind
from apidiscovery_formats.openapi.keys import group_version_of, key_of

from apidiscovery_service import workers
from apidiscovery_service.encoding.compression import Coding, coding_for, compress
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi.body import DocumentForm, DocumentSource
from apidiscovery_service.openapi.body_cache import body_cache
from apidiscovery_service.openapi.schema_text import own_kinds, schema_text
from apidiscovery_service.recent import Recent

CACHE_BYTES: Final = 32 * 1024 * 1024
"""Of schemas, plain and compressed; the largest of Kubernetes' own has 0.6 MB."""

_MAX_TABLES = 8192  # documents whose kinds are remembered: 1 KB each
_AT_ONCE = workers.COUNT
# Finding the kinds in a document of so many bytes takes 4 ms, sending it to a worker half of that.
_INLINE_TABLE_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Named:
    """What names a schema; names of kinds are compared without regard to case.

    Attributes:
        group: Empty for the core group.
        version: Of the group.
        kind: In lower case.
        strict: Whether properties that are not listed are refused.
    """

    group: str
    version: str
    kind: str
    strict: bool = False

    @property
    def key(self) -> str:
        """Return the path that the kind's document describes."""
        return key_of(self.group, self.version)


@dataclass(frozen=True, slots=True)
class SchemaBody:
    """A text as it is sent.

    Attributes:
        etag: Hex SHA-256 of the plain text, whatever the coding.
        data: The text in that coding.
        coding: Identity for what is too small to be compressed.
    """

    etag: str
    data: bytes
    coding: Coding


@dataclass(frozen=True, slots=True)
class SchemaListing:
    """The kinds that have schemas.

    Attributes:
        kinds: In the order of their groups, versions and names.
        failures: Why the kinds of a document are not known, by its key such as `apis/apps/v1`.
    """

    kinds: tuple[Kind, ...]
    failures: Mapping[str, str]


class Schemas:
    """Makes schemas, each once for concurrent callers. For the event loop's thread.

    Args:
        cache_bytes: Of the memory for schemas.
    """

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self._texts = body_cache(cache_bytes)
        self._tables: Recent[str, tuple[Kind, ...]] = Recent(_MAX_TABLES)

    async def listing(self, documents: DocumentSource) -> SchemaListing:
        """Return the kinds of all documents.

        A document that cannot be read is listed among the failures.

        Raises:
            DiscoveryError: There is no index of the documents now.
        """
        keys = [key for key in (await documents.index()).entries if group_version_of(key)]
        slots = asyncio.Semaphore(_AT_ONCE)
        failures: dict[str, str] = {}

        async def of(key: str) -> tuple[Kind, ...]:
            async with slots:
                try:
                    return await self._kinds(documents, key)
                except DiscoveryError as error:
                    failures[key] = str(error)
                    return ()

        found = await asyncio.gather(*map(of, keys))
        every = sorted(kind for table in found for kind in table)
        return SchemaListing(tuple(every), {key: failures[key] for key in sorted(failures)})

    async def text(self, documents: DocumentSource, named: Named) -> bytes | None:
        """Return a schema as JSON; None if there is no such kind.

        Raises:
            DiscoveryError: Its document cannot be read now.
        """
        table = await self._kinds(documents, named.key)
        kind = next((kind for kind in table if kind.name.lower() == named.kind), None)
        digest = await documents.hash_of(named.key) if kind else None
        if kind is None or digest is None:
            return None
        cached = self._texts.get((digest, kind, named.strict))
        if cached is not None:
            return cached
        body = await documents.body(named.key, DocumentForm.JSON, "identity")
        if body is None:
            return None
        key = body.hash, kind, named.strict
        return await self._texts.get_or_make(
            key, lambda: _made(body.data, kind, strict=named.strict)
        )

    async def body(self, text: bytes, coding: Coding) -> SchemaBody:
        """Return a text in a coding."""
        etag = hashlib.sha256(text).hexdigest()
        if coding_for(len(text), coding) == "identity":
            return SchemaBody(etag, text, "identity")
        data = await self._texts.get_or_make(
            (etag, coding), lambda: asyncio.to_thread(compress, text, coding)
        )
        return SchemaBody(etag, data, coding)

    async def _kinds(self, documents: DocumentSource, key: str) -> tuple[Kind, ...]:
        """Return the kinds of a group-version that its document describes; none without one."""
        digest = await documents.hash_of(key)
        if digest is None:
            return ()
        known = self._tables.get(digest)
        if known is not None:
            return known
        body = await documents.body(key, DocumentForm.JSON, "identity")
        if body is None:
            return ()
        return await self._tables.get_or_make(body.hash, lambda: _found(body.data, key))


async def _found(text: bytes, key: str) -> tuple[Kind, ...]:
    """Return what `own_kinds` does, from a worker where it takes long."""
    if len(text) <= _INLINE_TABLE_BYTES:
        return own_kinds(text, key)
    return await workers.run(own_kinds, text, key)


async def _made(text: bytes, kind: Kind, *, strict: bool) -> bytes:
    """Return what `schema_text` does, from a worker where it takes long."""
    if len(text) <= workers.INLINE_BYTES:
        return schema_text(text, kind, strict=strict)
    return await workers.run(schema_text, text, kind, strict=strict)
