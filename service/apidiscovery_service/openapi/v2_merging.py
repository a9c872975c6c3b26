"""Makes the merged OpenAPI v2 document when it is asked for, once for each ETag of the index."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, TypeAlias

from apidiscovery_releases import Release

from apidiscovery_service import workers
from apidiscovery_service.encoding.compression import Coding, compress
from apidiscovery_service.once import Once
from apidiscovery_service.openapi.body import Body, DocumentForm, Index, Packed, PackedBody
from apidiscovery_service.openapi.body_cache import WHOLE_KEY, Bodies
from apidiscovery_service.openapi.making import DocumentUnavailable, Made, Observer
from apidiscovery_service.openapi.v2 import merge

Fetch: TypeAlias = Callable[[str], Coroutine[None, None, Made | None]]


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a merge.

    Attributes:
        etag: Of the index that was merged; empty if a document was not as the index lists it.
        packed: The document as JSON.
    """

    etag: str
    packed: Packed


class Merging:
    """Merges the documents of the index, one merge at a time.

    Args:
        index: Returns the current index.
        fetch: Returns the current document of a key; None when there is none.
        bodies: Makes and caches bodies.
        observe: Told what was made and the seconds it took.
        release: The recorded release, whose documents are not converted.

    Attributes:
        notes: A line for each thing that the last merge left out, with the reason.
    """

    def __init__(
        self,
        index: Callable[[], Awaitable[Index]],
        fetch: Fetch,
        bodies: Bodies,
        observe: Observer,
        *,
        release: Release,
    ) -> None:
        self._index = index
        self._fetch = fetch
        self._bodies = bodies
        self._release = release
        self._observe = observe
        self._once: Once[Literal["merge"], _Result] = Once()
        self._last = _Result("", Packed(b"", "", 0))
        # The ETag of the index whose merged document is too large, and the error.
        self._refused: tuple[str, DocumentUnavailable] | None = None
        self.notes: list[str] = []

    def cached(self, index: Index, form: DocumentForm, coding: Coding) -> Body | PackedBody | None:
        """Return the merged document of an index if it was made already.

        Raises:
            DocumentUnavailable: It is too large.
        """
        if self._refused and self._refused[0] == index.etag:
            raise self._refused[1].with_traceback(None)
        return (
            self._bodies.cached_whole(self._last.packed, form, coding)
            if self._last.etag == index.etag
            else None
        )

    async def make(self, form: DocumentForm, coding: Coding) -> Body | PackedBody:
        """Return the merged document of the current index; packed if it is large.

        Raises:
            DocumentUnavailable: It is too large.
            InvalidOpenAPI: It cannot be made, or cannot be encoded in that form.
        """
        return await self._bodies.whole((await self._result()).packed, form, coding)

    async def _result(self) -> _Result:
        if self._once.is_running("merge"):
            under_way = await self._run()  # it may miss later changes
            if under_way.etag == (await self._index()).etag:
                return under_way
        last = self._last if self._last.etag == (await self._index()).etag else None
        return last or await self._run()

    async def _run(self) -> _Result:
        return await self._once.run("merge", self._merge)

    async def _merge(self) -> _Result:
        index = await self._index()
        start = perf_counter()
        release = self._release.openapi_hashes
        packaged = {key for key, stated in index.entries.items() if release.get(key) == stated}
        others = {key: index.entries[key] for key in index.entries if key not in packaged}
        documents, are_as_listed = await self._documents(others)
        try:
            made = await workers.run(
                merge.merged,
                documents,
                self._release.openapi_info,
                merge.MAX_BYTES,
                packaged,
                self._release,
            )
        except (merge.TooLarge, workers.WorkerFailed) as error:
            refused = DocumentUnavailable(WHOLE_KEY, str(error))
            self._refused = (index.etag, refused)
            raise refused from None
        self.notes = made.notes
        self._last = _Result(index.etag if are_as_listed else "", made.document)
        self._observe("merged", perf_counter() - start)
        return self._last

    async def _documents(self, listed: Mapping[str, str]) -> tuple[list[tuple[str, bytes]], bool]:
        """Return keys and compressed documents, and whether all have the hashes of the index."""
        documents: list[tuple[str, bytes]] = []
        are_as_listed = True
        for key, stated in listed.items():
            try:
                made = await self._fetch(key)
            except DocumentUnavailable:
                made = None
            are_as_listed &= made is not None and made.hash == stated
            if made is not None:
                documents.append((key, await asyncio.to_thread(compress, made.data, "zstd")))
        return documents, are_as_listed
