"""The OpenAPI documents of other API servers, as every process has them: from the store.

In memory is which there are, and what they are named by; a document is read when it is asked for.
So all processes name the same ones as soon as the store has told them, and an upstream that is
gone leaves its last documents.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import structlog

from apidiscovery_service.core.model import CORE_GROUP
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi.entries import group_of
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources.upstreams.openapi_record import (
    INDEX_RECORDS,
    Kept,
    Published,
    piece_keys,
    unpack,
)
from apidiscovery_service.sources.upstreams.record import BadRecord, is_part
from apidiscovery_service.store import Batch, Entry, Store
from apidiscovery_service.store.following import follow

_NOTHING = Published()

_log = structlog.get_logger(__name__)


class DocumentUnavailable(DiscoveryError):
    """A document that is known cannot be had now, or has just been replaced by another."""


class UpstreamDocuments:
    """What upstreams publish. It belongs to the thread of the event loop.

    Args:
        store: Where documents are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # Of every upstream in the store, by its id: who comes into use later finds it here.
        self._published: dict[str, Published] = {}
        self._marks: dict[str, tuple[int, int]] = {}
        self._ids: dict[str, str] = {}
        self._listeners: list[Callable[[frozenset[str]], None]] = []

    def recipe(self, source: str, key: str) -> Recipe | None:
        """Return the document that a source publishes of a path, None for none.

        It comes to other bytes only where another document has taken its place meanwhile. Making it
        raises DocumentUnavailable, StoreUnavailable or BadRecord.

        Args:
            source: `upstream:NAME` or `apiservice:NAME`.
            key: Without leading slash, such as `apis/apps/v1`.
        """
        upstream = self._ids.get(source, "")
        published = self._published.get(upstream)
        kept = published.documents.get(key) if published else None
        return self._recipe(upstream, key, kept) if kept else None

    def common(self) -> dict[str, Recipe]:
        """Return the documents of paths that belong to no group, each of the first that has it."""
        found: dict[str, Recipe] = {}
        for _, upstream in sorted(self._ids.items()):
            published = self._published.get(upstream, _NOTHING)
            for key, kept in published.documents.items():
                if key not in found and group_of(key) is None:
                    found[key] = self._recipe(upstream, key, kept)
        return found

    def _recipe(self, upstream: str, key: str, kept: Kept) -> Recipe:
        make = partial(self._document, upstream, key, kept)
        return Recipe(("upstream", kept.hash), make, kept.hash)

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Have a listener told the groups of which documents have changed, come or gone."""
        self._listeners.append(listener)

    def warnings(self, upstream: str) -> Iterator[str]:
        """Return what is wrong with the documents of an upstream, a line each, by its id."""
        published = self._published.get(upstream)
        return published.warnings if published else iter(())

    def use(self, upstream: str, sources: Iterable[str]) -> None:
        """Answer for these sources with the documents of an upstream."""
        self.drop(upstream)
        self._ids |= dict.fromkeys(sources, upstream)
        self._tell(upstream, self._groups(upstream))

    def drop(self, upstream: str) -> None:
        """Answer for no source any more with the documents of an upstream."""
        if upstream in self._ids.values():
            self._ids = {source: other for source, other in self._ids.items() if other != upstream}
            self._notify(self._groups(upstream))

    def _groups(self, upstream: str) -> frozenset[str]:
        published = self._published.get(upstream)
        return _groups_of(published.documents) if published else frozenset()

    def _tell(self, upstream: str, groups: frozenset[str]) -> None:
        if upstream in self._ids.values():
            self._notify(groups)

    def _notify(self, groups: frozenset[str]) -> None:
        for listener in self._listeners if groups else ():
            listener(groups)

    async def _document(self, upstream: str, key: str, kept: Kept) -> bytes:
        """Return a document, or the one that has taken its place where that is not heard of yet.

        Raises:
            DocumentUnavailable: Neither is in the store.
            StoreUnavailable: It cannot be read now.
            BadRecord: It is damaged.
        """
        try:
            return await self._kept_document(upstream, key, kept)
        except DocumentUnavailable:
            entry = await self._store.get(INDEX_RECORDS.key(upstream))
            published = await INDEX_RECORDS.read(self._store, entry) if entry else _NOTHING
            now = published.documents.get(key)
            if now is None or now.hash == kept.hash:
                raise
        return await self._kept_document(upstream, key, now)

    async def _kept_document(self, upstream: str, key: str, kept: Kept) -> bytes:
        packed = bytearray()
        for piece in piece_keys(upstream, kept.hash, kept.pieces):
            entry = await self._store.get(piece)
            if entry is None:
                raise DocumentUnavailable(f"document of {key}: {piece} is not in the store")
            packed += entry.value
        return await asyncio.to_thread(unpack, bytes(packed), kept)

    async def load(self) -> int:
        """Read which documents there are; returns the revision of the store.

        Raises:
            StoreUnavailable: That cannot be read now.
        """
        listing = await self._store.list(INDEX_RECORDS.prefix)
        gone = self._published.keys() - {_upstream(entry.key) for entry in listing.entries}
        await self._changed({entry.key: entry for entry in listing.entries})
        await self._changed({INDEX_RECORDS.key(upstream): None for upstream in gone})
        return listing.revision

    async def follow(self) -> None:
        """Follow which documents there are, until cancelled."""

        async def take(batch: Batch) -> None:
            await self._changed({change.key: change.entry for change in batch.changes})

        await follow(self._store, INDEX_RECORDS.prefix, self.load, take)

    async def _changed(self, entries: Mapping[str, Entry | None]) -> None:
        for key, entry in entries.items():
            if is_part(key):
                continue
            if entry is None:
                self._marks.pop(_upstream(key), None)
                self._take(_upstream(key), None)
            elif entry.mark != self._marks.get(_upstream(key)):
                await self._read(entry)

    async def _read(self, entry: Entry) -> None:
        try:
            published = await INDEX_RECORDS.read(self._store, entry)
        except BadRecord as error:
            _log.warning("index of documents passed over", key=entry.key, reason=str(error))
            return
        self._marks[_upstream(entry.key)] = entry.mark
        self._take(_upstream(entry.key), published)

    def _take(self, upstream: str, published: Published | None) -> None:
        before = self._published.pop(upstream, _NOTHING).documents
        if published is not None:
            self._published[upstream] = published
        now = (published or _NOTHING).documents
        keys = before.keys() | now.keys()
        changed = [key for key in keys if _hash(before.get(key)) != _hash(now.get(key))]
        self._tell(upstream, _groups_of(changed))


def _upstream(key: str) -> str:
    return key.removeprefix(INDEX_RECORDS.prefix)


def _groups_of(keys: Iterable[str]) -> frozenset[str]:
    """Return the groups of documents; what belongs to none is looked at with any."""
    return frozenset(group_of(key) or CORE_GROUP for key in keys)


def _hash(kept: Kept | None) -> str:
    return kept.hash if kept else ""
