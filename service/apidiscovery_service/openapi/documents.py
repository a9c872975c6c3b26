"""The documents of everything that is served: made on request, then known by their hash.

The index states the hash of every document, so the first request for it makes all of them once and
drops them. Fingerprints show later which documents have changed. Requested bodies are cached.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Literal, TypeAlias

from apidiscovery_releases import Release, newest

from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.once import Once
from apidiscovery_service.openapi.body import (
    Body,
    DocumentForm,
    Index,
    Packed,
    PackedBody,
    make_index,
)
from apidiscovery_service.openapi.body_cache import Bodies
from apidiscovery_service.openapi.entries import DocumentEntry, Known
from apidiscovery_service.openapi.making import DocumentUnavailable, Made, Making, Observer
from apidiscovery_service.openapi.protobuf.documents import encode_v3
from apidiscovery_service.openapi.recipe import Recipe, Recipes
from apidiscovery_service.openapi.v2_merging import Merging

_SLICE_S = 0.002
# An index waits so long for the hashes that it states. Making goes on in the background.
_INDEX_WAIT_S = 5.0
_NAMED_KEYS = 3

_BodyKey: TypeAlias = tuple[DocumentEntry, DocumentForm, Coding]


class Documents:
    """Serves the documents of recipes. For the event loop's thread."""

    def __init__(
        self,
        recipes: Recipes,
        observe: Observer = lambda what, seconds: None,  # noqa: ARG005 - the names document its arguments
        *,
        release: Release | None = None,
        cache_bytes: int = 64 * 2**20,
    ) -> None:
        """Take the source of recipes; nothing is made yet.

        Args:
            recipes: The recipes of what is served now.
            observe: Called with what was made (`document`, `protobuf`, `gzip`, `zstd`, `merged`,
                `index`) and the seconds it took.
            release: The recorded release whose documents are not converted for the merged one, and
                whose `info` that has; None for the newest.
            cache_bytes: The memory for cached bodies.
        """
        self._observe = observe
        self._known = Known(recipes)
        self._making = Making(self._known, observe)
        self._bodies = Bodies(self._making, cache_bytes)
        self._bodies_once: Once[_BodyKey, Body | None] = Once()
        self._merged_once: Once[tuple[str, DocumentForm, Coding], Body | PackedBody] = Once()
        self._index: Index | None = None
        # The revision of the entries when the index was made.
        self._index_revision: int = -1
        self._runs: Once[Literal["index"], None] = Once()
        # Entries that were not made in time for an index and are still being made.
        self._late: set[DocumentEntry] = set()
        self._finding: set[asyncio.Task[None]] = set()
        self._retries: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[], None]] = []
        self._is_used = False
        self._merging = Merging(
            self.whole_index, self._made, self._bodies, observe, release=release or newest()
        )

    @property
    def generation(self) -> int:
        """A counter that never repeats; it changes whenever an answer may change."""
        return self._known.noted + self._known.revision

    def changed(self, groups: Iterable[str]) -> None:
        """Note that the documents of these groups may have changed; nothing is made yet."""
        self._known.changed(groups)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` at the first request for documents, and when the index is another."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    async def index(self) -> Index:
        """Return the current index.

        The first call makes all documents, later calls make what has changed; concurrent calls
        share one run. A call waits for 5 s at most: a document that takes longer is listed with its
        former hash, or with none, and made in the background.
        """
        self._use()
        if self._index is not None and self._is_current():
            return self._index
        if self._runs.is_running("index"):
            await self._run()  # it may miss later changes
        if self._index is None or not self._is_current():
            await self._run()
        if self._index is None:
            raise RuntimeError("a run made no index")
        return self._index

    def _is_current(self) -> bool:
        return self._known.is_settled and self._known.revision == self._index_revision

    async def _run(self) -> None:
        await self._runs.run("index", self._make_index)

    async def _make_index(self) -> None:
        await self._settle()
        await self._find_hashes()
        if self._index is not None and self._known.revision == self._index_revision:
            return
        start = perf_counter()
        revision = self._known.revision
        entries, unknown = self._known.entries.values(), self._known.unknown
        hashes = {e.key: e.hash or e.former for e in entries if e.hash or e.former or e in unknown}
        notes = {e.key: _remark(e) for e in entries if e.failure or e.note}
        index = await asyncio.to_thread(make_index, hashes, notes)
        if self._index != index:
            self._index = index
            self._notify()
        self._index_revision = revision
        self._observe("index", perf_counter() - start)

    async def _settle(self) -> None:
        """Update the entries of every group that may have changed, in slices of time."""
        deadline = perf_counter() + _SLICE_S
        for group in self._known.unsettled():
            self._known.settle(group)
            if perf_counter() > deadline:
                await asyncio.sleep(0)
                deadline = perf_counter() + _SLICE_S

    async def _find_hashes(self) -> None:
        """Make documents to learn their hashes; slow ones go on in the background."""
        self._late.intersection_update(self._known.unknown)
        todo = [entry for entry in self._known.unknown if entry not in self._late]
        if not todo:
            return
        finding = asyncio.create_task(self._making.find(todo))
        self._finding.add(finding)
        finding.add_done_callback(self._finding.discard)
        if (await asyncio.wait((finding,), timeout=_INDEX_WAIT_S))[0]:
            finding.result()
        self._late.update(self._known.unknown.keys() & todo)

    async def whole_index(self) -> Index:
        """Return the index once all its documents have been made."""
        index = await self.index()
        if not self._finding:
            return index
        await asyncio.wait(self._finding)
        return await self.index()

    async def current(self) -> Mapping[str, Recipe]:
        """Return how each document is read as it is now, by path; nothing before the first request.

        A recipe raises `DocumentUnavailable` once its document has become another.
        """
        if not self._is_used:
            return {}
        return {
            key: Recipe(digest, partial(self._still, key, digest), digest)
            for key, digest in (await self.whole_index()).entries.items()
            if digest
        }

    async def _still(self, key: str, digest: str) -> bytes:
        made = await self._made(key)
        if made is None or made.hash != digest:
            raise DocumentUnavailable(key, "it has changed")
        return made.data

    def _use(self) -> None:
        """Note a request, and retry failed documents that are due: their fallbacks are served."""
        if not self._is_used:
            self._is_used = True
            self._notify()
        for entry in self._known.due(asyncio.get_running_loop().time()):
            task = asyncio.create_task(self._making.again(entry))
            self._retries.add(task)
            task.add_done_callback(self._retries.discard)

    def _entry(self, key: str) -> DocumentEntry | None:
        """Return the current entry of a document; None when there is none.

        Raises:
            DocumentUnavailable: There should be a document, but it could not be made.
        """
        self._use()
        entry = self._known.entry(key)
        if entry and entry.failure and not entry.hash and entry not in self._known.unknown:
            raise DocumentUnavailable(key, entry.failure)
        return entry

    async def hash_of(self, key: str) -> str | None:
        """Return the hash of the current document; None when there is none.

        Raises:
            DocumentUnavailable: There should be a document, but it could not be made.
        """
        entry = self._entry(key)
        if entry is None or entry.hash:
            return entry.hash if entry else None
        made = await self._made(key)
        if made is None:
            return None
        self._bodies.add(made.hash, made.data)  # the body is mostly asked for next
        return made.hash

    async def body(
        self, key: str, form: DocumentForm = DocumentForm.JSON, coding: Coding = "identity"
    ) -> Body | None:
        """Return the current document in a form and coding; None when there is none.

        Raises:
            DocumentUnavailable: There should be a document, but it could not be made.
            InvalidOpenAPI: It cannot be encoded in that form.
        """
        entry = self._entry(key)
        if entry is None:
            return None
        cached = self._bodies.cached(entry.hash, form, coding) if entry.hash else None
        if cached:
            return Body(key, entry.hash, *cached)
        return await self._bodies_once.run(
            (entry, form, coding), lambda: self._make_body(key, form, coding)
        )

    async def _make_body(self, key: str, form: DocumentForm, coding: Coding) -> Body | None:
        made = await self._made(key)
        if made is None:
            return None
        data = await self._bodies.make(made.hash, made.data, form, coding, encode_v3)
        return Body(key, made.hash, *data)

    async def _made(self, key: str) -> Made | None:
        """Return the current document as JSON; None and errors as in `body`."""
        entry = self._entry(key)
        if entry is None:
            return None
        cached = (
            self._bodies.cached(entry.hash, DocumentForm.JSON, "identity") if entry.hash else None
        )
        if cached:
            return Made(entry.hash, cached[0])
        made = await self._making.make(entry)
        if not made.hash:
            raise DocumentUnavailable(key, made.failure)
        return made

    async def merged_v2(
        self, form: DocumentForm = DocumentForm.JSON, coding: Coding = "identity"
    ) -> Body | PackedBody:
        """Return the OpenAPI v2 document of everything that is served; packed if it is large.

        Raises:
            DocumentUnavailable: It is too large.
            InvalidOpenAPI: It cannot be made, or cannot be encoded in that form.
        """
        index = await self.whole_index()
        cached = self._merging.cached(index, form, coding)
        if cached:
            return cached
        return await self._merged_once.run(
            (index.etag, form, coding), lambda: self._merging.make(form, coding)
        )

    async def v2_body(
        self, packed: Packed, form: DocumentForm, coding: Coding
    ) -> Body | PackedBody:
        """Return a body of a v2 document that was made elsewhere; packed if it is large.

        Raises:
            InvalidOpenAPI: It cannot be encoded in that form.
        """
        return await self._bodies.whole(packed, form, coding)

    def warnings(self) -> list[str]:
        """Return a line for each known problem of documents."""
        about: dict[str, list[str]] = {}
        for key in sorted(e.key for e in self._known.entries.values() if e.failure):
            about.setdefault(_remark(self._known.entries[key]), []).append(key)
        return [f"{_names(keys)}: {remark}" for remark, keys in about.items()] + self._merging.notes


def _remark(entry: DocumentEntry) -> str:
    return f"cannot be made: {entry.failure}" if entry.failure else entry.note


def _names(keys: list[str]) -> str:
    more = len(keys) - _NAMED_KEYS
    return f"{', '.join(keys[:_NAMED_KEYS])} and {more} more" if more > 0 else ", ".join(keys)
