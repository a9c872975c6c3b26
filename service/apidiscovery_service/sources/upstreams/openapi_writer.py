"""The OpenAPI documents of one upstream in the store, as whoever polls it writes them."""

import asyncio
from dataclasses import replace
from time import monotonic

import structlog

from apidiscovery_service.sources.upstreams import openapi_record, record
from apidiscovery_service.sources.upstreams.openapi_record import Packed, Published
from apidiscovery_service.store import Guard, Store

# Others may be about to read what an index named that they have not seen replaced.
_SWEPT_AFTER_S = 10.0

_log = structlog.get_logger(__name__)


class DocumentsWriter:
    """Writes documents, then the index that names them, and removes the others later.

    The index says whether there may be others, so that a successor looks for them only then.

    Args:
        store: Where they are.
        upstream: Its id.
        guard: Goes with every write.

    Attributes:
        published: The index as it is in the store.
    """

    def __init__(self, store: Store, upstream: str, guard: Guard) -> None:
        self.published = Published()
        self._store = store
        self._upstream = upstream
        self._guard = guard
        self._parts: frozenset[str] = frozenset()
        # All keys of documents that are in the store, or may be.
        self._keys: set[str] = set()
        # Of them, those that the index names.
        self._named: frozenset[str] = frozenset()
        # Of the others, since when no index names them.
        self._unnamed: dict[str, float] = {}
        self._is_written = False
        # Whether an attempt to write the index has failed, which it may have been all the same.
        self._is_in_doubt = False

    async def load(self) -> None:
        """Read the index; a damaged one is as good as none.

        Raises:
            StoreUnavailable: It cannot be read now.
        """
        key = openapi_record.index_key(self._upstream)
        entry = await self._store.get(key)
        if entry is not None:
            self._parts = record.part_names(entry.value)
            try:
                self.published = await openapi_record.unseal(entry.value, self._part)
            except record.BadRecord as error:
                _log.warning("index of documents passed over", key=key, reason=str(error))
                self.published = Published(is_clean=False)
        self._is_written = entry is not None
        self._named = self._keys_of(self.published)
        self._keys = set(self._named)
        if not self.published.is_clean:
            self._keys |= await self._found()
        self._note_unnamed()

    async def _part(self, name: str) -> bytes | None:
        found = await self._store.get(f"{openapi_record.index_key(self._upstream)}/{name}")
        return found.value if found else None

    async def _found(self) -> set[str]:
        listing = await self._store.list(openapi_record.documents_prefix(self._upstream))
        return {entry.key for entry in listing.entries}

    def _keys_of(self, published: Published) -> frozenset[str]:
        return frozenset(
            key
            for kept in published.documents.values()
            for key in openapi_record.piece_keys(self._upstream, kept.hash, kept.pieces)
        )

    async def put(self, packed: Packed) -> None:
        """Write a document, unless it is there.

        Raises:
            Fenced: Somebody else has taken over.
            StoreUnavailable: Perhaps it is not written.
        """
        keys = openapi_record.piece_keys(self._upstream, packed.hash, len(packed.pieces))
        if self._named.issuperset(keys):
            return
        if self.published.is_clean:
            await self._write(replace(self.published, is_clean=False))
        self._keys.update(keys)
        for key, piece in zip(keys, packed.pieces, strict=True):
            await self._store.put(key, piece, guard=self._guard)

    async def save(self, published: Published) -> None:
        """Write the index, if it is another.

        Raises:
            Fenced: Somebody else has taken over.
            StoreUnavailable: Perhaps it is not written.
        """
        is_clean = self._keys <= self._keys_of(published)
        await self._write(replace(published, is_clean=is_clean))

    async def _write(self, published: Published) -> None:
        if published == self.published and self._is_written:
            return
        sealed = await asyncio.to_thread(openapi_record.seal, self._upstream, published)
        # Whether it is there or not is not known until this returns.
        self._is_written, self._is_in_doubt = False, True
        self._parts = await record.write(self._store, sealed, self._guard, self._parts)
        self._is_written, self._is_in_doubt = True, False
        self.published = published
        self._named = self._keys_of(published)
        self._note_unnamed()

    def _note_unnamed(self) -> None:
        now = monotonic()
        self._unnamed = {key: self._unnamed.get(key, now) for key in self._keys - self._named}

    async def sweep(self) -> None:
        """Remove documents that no index has named for some seconds.

        Raises:
            Fenced: Somebody else has taken over.
            StoreUnavailable: Perhaps not all are removed.
        """
        if self._is_in_doubt:
            # What the store has may name them.
            self._unnamed = {}
            await self.save(self.published)
        before = monotonic() - _SWEPT_AFTER_S
        for key in [key for key, since in self._unnamed.items() if since <= before]:
            await self._store.delete(key, guard=self._guard)
            self._keys.discard(key)
            del self._unnamed[key]
        if not self.published.is_clean:
            await self.save(self.published)

    async def remove(self) -> None:
        """Remove everything of this upstream.

        Raises:
            Fenced: Somebody else has taken over.
            StoreUnavailable: Perhaps not all is removed.
        """
        key = openapi_record.index_key(self._upstream)
        listing = await self._store.list(f"{key}/")
        for name in (key, *(entry.key for entry in listing.entries), *await self._found()):
            await self._store.delete(name, guard=self._guard)
