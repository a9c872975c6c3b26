"""Fetches the OpenAPI v3 documents of any Kubernetes API server, each once by its hash."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS
from apidiscovery_client._server import Server
from apidiscovery_client.openapi.asking import (
    INDEX_PATH,
    FetchedDocument,
    Flow,
    Location,
    asked_document,
    asked_index,
    asked_protobuf,
    origin,
)
from apidiscovery_client.openapi.cache import DocumentCache, Name
from apidiscovery_client.transports.async_http import AsyncHttpTransport

_T = TypeVar("_T")


class OpenApiClient:
    """Asks one server for its documents; to be used with `async with`.

    Every method raises:
        ServerUnreachable: No answer.
        RequestRefused: Another status than 200.
        UnexpectedDocument: A body that is not what was asked for, or a place on another server.
    """

    def __init__(self, server: Server, cache: DocumentCache | None = None) -> None:
        self._server = server
        self._cache = cache
        self._transport = AsyncHttpTransport(server)
        # For URLs that are not below /openapi/v3, a path in the server's URL does not count.
        self._root = AsyncHttpTransport(replace(server, url=origin(server.url)))
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transport.close()
        await self._root.close()

    async def index(self) -> Mapping[str, Location]:
        """Return where each document is, by its key such as `apis/apps/v1`, in their order."""
        return await self._run(asked_index())

    async def document(self, location: Location) -> FetchedDocument:
        """Return a document as JSON, from the cache if it is there under that hash."""
        if found := self._cached(location):
            return found
        fetched = await self._run(asked_document(self._server.url, location))
        if self._cache and fetched.location.hash:
            await asyncio.to_thread(self._cache.put, self._name(fetched.location), fetched.data)
        return fetched

    async def protobuf(self, location: Location) -> FetchedDocument:
        """Return a document as the protobuf message gnostic openapi.v3 `Document`; never cached."""
        return await self._run(asked_protobuf(self._server.url, location))

    async def documents(
        self, locations: Iterable[Location], done: Callable[[], object] = lambda: None
    ) -> list[FetchedDocument]:
        """Return several documents in order, fetched side by side; `done` is called after each.

        The first that fails ends it: what it raised is raised.
        """

        async def one(location: Location) -> FetchedDocument:
            found = await self.document(location)
            done()
            return found

        tasks = [asyncio.create_task(one(location)) for location in locations]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _cached(self, location: Location) -> FetchedDocument | None:
        if self._cache is None or not location.hash:
            return None
        data = self._cache.get(self._name(location))
        return None if data is None else FetchedDocument(location, data, is_cached=True)

    def _name(self, location: Location) -> Name:
        return Name(self._server.url, location.key, location.hash)

    async def _run(self, flow: Flow[_T]) -> _T:
        try:
            ask = next(flow)
            while True:
                is_below = ask.path.startswith(INDEX_PATH)
                transport = self._transport if is_below else self._root
                async with self._slots:
                    answer = await transport.get(ask.path, ask.accept)
                ask = flow.send(answer)
        except StopIteration as done:
            result: _T = done.value
            return result
