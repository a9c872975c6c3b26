"""Keeps the search index up to date: reads documents in workers, those that are new, when asked."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import structlog
from apidiscovery_formats.openapi.keys import group_of

from apidiscovery_service import workers
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi.body import DocumentForm, DocumentSource
from apidiscovery_service.web.search_fields import schema_fields
from apidiscovery_service.web.search_index import SearchIndex

MERGED: Final = ""
"""The name of the merged APIs among those of clusters."""

# Documents that cannot be had now are tried again, as long as somebody searches.
_RETRY_S = 30.0
# So few are read while somebody types: no progress is shown.
_FEW = 20
# Between two looks for documents whose hash was not known; an index waits for them, too.
_AGAIN_S = 1.0

Sources: TypeAlias = Mapping[str, DocumentSource]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the index is.

    Attributes:
        done: Documents that are in it.
        total: Documents that there are; 0 while that is not known.
        failures: Why the fields of a document are not known, by cluster and key; the cluster of
            the merged APIs are `MERGED`.
        is_building: Whether documents are being read; false for a few after others of the same
            clusters.
    """

    done: int = 0
    total: int = 0
    failures: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    is_building: bool = True


class IndexBuilder:
    """Builds the index. For the event loop's thread.

    Attributes:
        index: The index.
        documents: The hashes of the documents by cluster.
        progress: How far it is.
    """

    def __init__(self) -> None:
        self.index = SearchIndex()
        self.documents: dict[str, frozenset[str]] = {}
        self.progress = Progress()
        self._state: object = None
        self._task: asyncio.Task[None] | None = None

    def refresh(self, state: object, sources: Callable[[], Sources]) -> None:
        """Begin to read new documents, unless a task is reading.

        Args:
            state: Differs from the last one when there are other documents.
            sources: Returns the documents of each cluster, and of the merged APIs.
        """
        if self._task is not None and not self._task.done():
            return
        if state != self._state:
            self._state = state
            has_more = self.progress.is_building or not sources().keys() <= self.documents.keys()
            self.progress = replace(self.progress, is_building=has_more)
            self._task = asyncio.create_task(self._run(sources))

    def stop(self) -> None:
        """End reading."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, sources: Callable[[], Sources]) -> None:
        try:
            unknown = await self._build(sources())
            before = unknown + 1
            while 0 < unknown < before:
                await asyncio.sleep(_AGAIN_S)
                before, unknown = unknown, await self._build(sources())
            self.progress = replace(self.progress, is_building=False)
        except Exception:  # noqa: BLE001 - nobody waits for it: the next search tries again
            _log.exception("the search index cannot be built")
            self._state = None
        if self.progress.failures:
            asyncio.get_running_loop().call_later(_RETRY_S, self._forget_state)

    def _forget_state(self) -> None:
        self._state = None

    async def _build(self, sources: Sources) -> int:
        """Read new documents; return the number of documents whose hash is not known yet."""
        unknown = 0
        failures: dict[tuple[str, str], str] = {}
        wanted: dict[str, tuple[str, str]] = {}
        of_cluster: dict[str, set[str]] = {}
        for cluster, source in sources.items():
            try:
                index = await source.index()
            except DiscoveryError as error:
                failures[cluster, ""] = str(error)
                continue
            for key, digest in index.entries.items():
                if group_of(key) is None:
                    continue
                if not digest:
                    unknown += 1
                    failures[cluster, key] = index.notes.get(key, "it is not made yet")
                else:
                    wanted.setdefault(digest, (cluster, key))
                    of_cluster.setdefault(cluster, set()).add(digest)
        # What was there is found until what replaces it is read.
        documents = {name: frozenset(hashes) for name, hashes in of_cluster.items()}
        self.documents = {
            name: hashes | self.documents.get(name, frozenset())
            for name, hashes in documents.items()
        }
        gone = set(self.index.documents) - wanted.keys()
        new = [digest for digest in wanted if digest not in self.index.documents]
        done = len(wanted) - len(new)
        is_building = self.progress.is_building or len(new) > _FEW
        slots = asyncio.Semaphore(workers.COUNT)

        async def add(digest: str) -> None:
            nonlocal done
            cluster, key = wanted[digest]
            async with slots:
                try:
                    await self._add(sources[cluster], key, digest)
                except DiscoveryError as error:
                    failures[cluster, key] = str(error)
            done += 1
            self.progress = Progress(done, len(wanted) + unknown, failures, is_building)

        await asyncio.gather(*map(add, new))
        self.documents = documents
        for digest in gone:
            await asyncio.to_thread(self.index.remove, digest)
        total = len(wanted) + unknown
        self.progress = Progress(len(wanted), total, failures, is_building and unknown > 0)
        return unknown

    async def _add(self, source: DocumentSource, key: str, digest: str) -> None:
        body = await source.body(key, DocumentForm.JSON, "identity")
        if body is None:
            return
        if len(body.data) <= workers.INLINE_BYTES:
            found = await asyncio.to_thread(schema_fields, body.data, key)
        else:
            found = await workers.run(schema_fields, body.data, key)
        await asyncio.to_thread(self.index.add, digest, found)
