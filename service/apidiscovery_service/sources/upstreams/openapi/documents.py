"""The OpenAPI documents of other API servers, served from the store by every process.

Memory has only the index with the hash of each document; documents are read on request. So all
processes serve the same documents once they have read the index, and the last documents of an
upstream stay available when it is down.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from apidiscovery_formats.openapi.keys import group_of

from apidiscovery_service.core.model import CORE_GROUP
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi.body import Packed
from apidiscovery_service.openapi.body_cache import WHOLE_KEY
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources.upstreams.openapi.record import (
    INDEX_RECORDS,
    DocumentRef,
    Published,
    piece_keys,
    unpack,
)
from apidiscovery_service.sources.upstreams.record_store import RecordFollower
from apidiscovery_service.store import Store

_NOTHING = Published()


class DocumentGone(DiscoveryError):
    """A document in the index is not in the store, or has just been replaced by another."""


class UpstreamDocuments:
    """The documents that upstreams publish. Not thread-safe: used in the event loop.

    Args:
        store: The store with the documents.
        lost: Called with the id of an upstream whose index the store has lost.

    Attributes:
        revision: A counter that changes with every index.
    """

    def __init__(self, store: Store, lost: Callable[[str], None] = lambda _: None) -> None:
        self.revision = 0
        self._store = store
        self._indexes = RecordFollower(INDEX_RECORDS, store, self._changed, lost)
        # The id of the upstream of each source.
        self._ids: dict[str, str] = {}
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._publish_listeners: list[Callable[[str], None]] = []

    def recipe(self, source: str, key: str) -> Recipe | None:
        """Return the document that a source publishes for a path, None for none.

        Its bytes have the recipe's hash, unless another document has replaced it meanwhile. Making
        it raises DocumentGone, StoreUnavailable or BadRecord.

        Args:
            source: `upstream:NAME` or `apiservice:NAME`.
            key: Without leading slash, such as `apis/apps/v1`.
        """
        upstream = self._ids.get(source, "")
        ref = self._index(upstream).documents.get(key)
        return self._recipe(upstream, key, ref) if ref else None

    def published(self, source: str) -> Published | None:
        """Return the index of what a source publishes; None while none is known.

        It is the same object until the source publishes something else.
        """
        return self._indexes.content.get(self._ids.get(source, ""))

    def _index(self, upstream: str) -> Published:
        return self._indexes.content.get(upstream, _NOTHING)

    def all_of(self, source: str) -> dict[str, Recipe]:
        """Return all documents that a source publishes, by path."""
        upstream = self._ids.get(source, "")
        documents = self._index(upstream).documents
        return {key: self._recipe(upstream, key, ref) for key, ref in documents.items()}

    def all_known(self, source: str) -> dict[str, Recipe]:
        """Return all documents that a source publishes; none while the index is not complete."""
        published = self.published(source)
        return self.all_of(source) if published is not None and published.is_known else {}

    def common(self) -> dict[str, Recipe]:
        """Return the documents of paths that belong to no group, each from the first upstream."""
        found: dict[str, Recipe] = {}
        for _, upstream in sorted(self._ids.items()):
            for key, ref in self._index(upstream).documents.items():
                if key not in found and group_of(key) is None:
                    found[key] = self._recipe(upstream, key, ref)
        return found

    def _recipe(self, upstream: str, key: str, ref: DocumentRef) -> Recipe:
        make = partial(self._document, upstream, key, ref)
        return Recipe(("upstream", ref.hash), make, ref.hash)

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call a listener with the groups whose documents were added, changed or removed."""
        self._listeners.append(listener)

    def on_published(self, listener: Callable[[str], None]) -> None:
        """Call a listener with each source that publishes other documents than before."""
        self._publish_listeners.append(listener)

    def warnings(self, upstream: str) -> Iterator[str]:
        """Return the problems of the documents of an upstream, by its id, a line each."""
        return self._index(upstream).warnings

    def use(self, upstream: str, sources: Iterable[str]) -> None:
        """Serve the documents of an upstream for these sources."""
        self.drop(upstream)
        self._ids |= dict.fromkeys(sources, upstream)
        self._notify_if_used(upstream, _groups_of(self._index(upstream).documents))

    def drop(self, upstream: str) -> None:
        """Serve the documents of an upstream for no source any more."""
        if upstream in self._ids.values():
            self._ids = {source: other for source, other in self._ids.items() if other != upstream}
            self._notify(_groups_of(self._index(upstream).documents))

    def _notify_if_used(self, upstream: str, groups: frozenset[str]) -> None:
        if upstream in self._ids.values():
            self._notify(groups)

    def _notify(self, groups: frozenset[str]) -> None:
        for listener in self._listeners if groups else ():
            listener(groups)

    async def v2(self, source: str) -> Packed | None:
        """Return the v2 document that a source publishes, as it is; None if none is kept.

        Raises:
            DocumentGone: It is not in the store.
            StoreUnavailable: It cannot be read now.
            BadRecord: It is damaged.
        """
        upstream = self._ids.get(source, "")
        ref = self._index(upstream).v2
        if ref is None:
            return None
        packed, ref = await self._pieces(upstream, WHOLE_KEY, ref)
        await asyncio.to_thread(unpack, packed, ref)  # it is sent unchanged, so check it here
        return Packed(packed, ref.hash, ref.size)

    async def _document(self, upstream: str, key: str, ref: DocumentRef) -> bytes:
        """Return a document; errors as of `_pieces`, and BadRecord if it is damaged."""
        packed, ref = await self._pieces(upstream, key, ref)
        return await asyncio.to_thread(unpack, packed, ref)

    async def _pieces(self, upstream: str, key: str, ref: DocumentRef) -> tuple[bytes, DocumentRef]:
        """Return a compressed document, or the one that replaced it if that was not seen yet.

        Raises:
            DocumentGone: Neither is in the store.
            StoreUnavailable: It cannot be read now.
            BadRecord: The index is damaged.
        """
        try:
            return await self._read_pieces(upstream, key, ref), ref
        except DocumentGone:
            entry = await self._store.get(INDEX_RECORDS.key(upstream))
            published = await INDEX_RECORDS.read(self._store, entry) if entry else _NOTHING
            now = published.v2 if key == WHOLE_KEY else published.documents.get(key)
            if now is None or now.hash == ref.hash:
                raise
        return await self._read_pieces(upstream, key, now), now

    async def _read_pieces(self, upstream: str, key: str, ref: DocumentRef) -> bytes:
        packed = bytearray()
        for piece in piece_keys(upstream, ref.hash, ref.pieces):
            entry = await self._store.get(piece)
            if entry is None:
                raise DocumentGone(f"document of {key}: {piece} is not in the store")
            packed += entry.value
        return bytes(packed)

    async def load(self) -> None:
        """Read the indexes.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        await self._indexes.load()

    async def follow(self) -> None:
        """Follow the indexes, until cancelled."""
        await self._indexes.follow()

    def _changed(self, before: Mapping[str, Published | None], *, is_news: bool) -> None:
        del is_news  # documents are served whether their writer is alive or not
        for upstream, former in before.items():
            self.revision += 1
            old, new = (former or _NOTHING).documents, self._index(upstream).documents
            changed = [key for key in old.keys() | new.keys() if _hash(old, key) != _hash(new, key)]
            self._notify_if_used(upstream, _groups_of(changed))
            for source in [source for source, of in self._ids.items() if of == upstream]:
                for listener in self._publish_listeners:
                    listener(source)


def _groups_of(keys: Iterable[str]) -> frozenset[str]:
    """Return the groups of documents; those that belong to none count as of the core group."""
    return frozenset(group_of(key) or CORE_GROUP for key in keys)


def _hash(documents: Mapping[str, DocumentRef], key: str) -> str:
    return documents[key].hash if key in documents else ""
