"""The one OpenAPI v2 document of everything, from the documents that there are."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Literal, TypeAlias

from apidiscovery_service.openapi.bodies import Bodies
from apidiscovery_service.openapi.body import Body, Coding, Form, Index
from apidiscovery_service.openapi.making import DocumentUnavailable, Made, Observer, sha512
from apidiscovery_service.openapi.merged_v2 import Merged
from apidiscovery_service.openapi.once import Once

# What it goes by where others go by their path.
MERGED_KEY: Final = "/openapi/v2"

Fetch: TypeAlias = Callable[[str], Coroutine[None, None, Made | None]]
Merge: TypeAlias = Callable[[Iterable[tuple[str, bytes]]], Merged]


@dataclass(frozen=True, slots=True)
class _Result:
    """What came of merging, and the ETag of the index that was merged; empty if it changed."""

    made: Made
    etag: str


class Merging:
    """Merges what the index lists, one merge at a time: each takes a thread that waits for others.

    Args:
        index: Returns what is listed now.
        fetch: Returns the document of a key as it is now; None when there is none.
        merge: From keys and documents to the merged one; runs in a thread.
        bodies: Where bodies are made and kept.
        observe: Told what was made and the seconds it took.
    """

    def __init__(
        self,
        index: Callable[[], Awaitable[Index]],
        fetch: Fetch,
        merge: Merge,
        bodies: Bodies,
        observe: Observer,
    ) -> None:
        self._index = index
        self._fetch = fetch
        self._merge_all = merge
        self._bodies = bodies
        self._observe = observe
        self._once: Once[Literal["merge"], _Result] = Once()
        self._running = False
        # ETag of the index that was merged last, and the hash of what came of it.
        self._last = ("", "")
        self._notes: list[str] = []

    def notes(self) -> list[str]:
        """Return what is not in the document that was merged last and why, a line each."""
        return list(self._notes)

    def kept(self, index: Index, form: Form, coding: Coding) -> Body | None:
        """Return the merged document of an index if it is there already."""
        etag, merged_hash = self._last
        kept = self._bodies.kept(merged_hash, form, coding) if etag == index.etag else None
        return Body(MERGED_KEY, merged_hash, *kept) if kept else None

    async def make(self, form: Form, coding: Coding, encode: Callable[[bytes], bytes]) -> Body:
        """Return the merged document of what is listed now.

        Raises:
            InvalidOpenAPI: It cannot be made, or not be written in that form.
        """
        made = await self._made()
        data = await self._bodies.make(made.hash, made.data, form, coding, encode)
        return Body(MERGED_KEY, made.hash, *data)

    async def _made(self) -> Made:
        if self._running:
            under_way = await self._run()  # it may miss what has changed since it began
            if under_way.etag == (await self._index()).etag:
                return under_way.made
        kept = self.kept(await self._index(), Form.JSON, "identity")
        return Made(kept.hash, kept.data) if kept else (await self._run()).made

    async def _run(self) -> _Result:
        return await self._once.run("merge", self._merge)

    async def _merge(self) -> _Result:
        self._running = True
        try:
            index = await self._index()
            start = perf_counter()
            documents = _Listed(index.entries, self._fetch)
            try:
                merged = await asyncio.to_thread(self._merge_all, documents)
            finally:
                documents.stop()
            made = Made(await sha512(merged.document), merged.document)
        finally:
            self._running = False
        self._notes = merged.notes
        self._last = (index.etag if documents.are_as_listed else "", made.hash)
        self._observe("merged", perf_counter() - start)
        return _Result(made, self._last[0])


class _Listed:
    """The documents of an index, fetched one by one from another thread than the event loop's.

    Attributes:
        are_as_listed: Whether all that were fetched have the hash that the index states.
    """

    def __init__(self, hashes: Mapping[str, str], fetch: Fetch) -> None:
        self._hashes = hashes
        self._fetch = fetch
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self.are_as_listed = True

    def stop(self) -> None:
        """Fetch no more: nobody waits for the rest."""
        self._stopped = True

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for key, stated in self._hashes.items():
            if self._stopped:
                return
            made = self._one(key)
            if made is None or made.hash != stated:
                self.are_as_listed = False
            if made is not None:
                yield key, made.data

    def _one(self, key: str) -> Made | None:
        try:
            return asyncio.run_coroutine_threadsafe(self._fetch(key), self._loop).result()
        except DocumentUnavailable:
            return None
