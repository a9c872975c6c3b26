"""Asks a server for discovery over HTTP, with asyncio."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from apidiscovery_client._errors import ClientClosed, DiscoveryError, InvalidConfiguration
from apidiscovery_client._http.flow import (
    DEFAULT_OPTIONS,
    Ask,
    HttpOptions,
    Outcome,
    advanced,
    discovery,
)
from apidiscovery_client._http.reply import Reply
from apidiscovery_client._http.session import Session, in_thread
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client._server import Server

_LONG_TO_READ = 1 << 18  # bytes; some milliseconds


class AsyncHttpTransport:
    """Implements `AsyncTransport` for any Kubernetes API server.

    Args:
        server: The server.
        options: How to ask it.

    Raises:
        ServerUnreachable: The proxy that the environment names cannot be used.
    """

    def __init__(self, server: Server, options: HttpOptions = DEFAULT_OPTIONS) -> None:
        self._server = server
        self._options = options
        self._session = Session(server, max_body_bytes=options.max_body_bytes)
        self._requests: set[asyncio.Task[Reply]] = set()
        self._is_closed = False

    @property
    def server(self) -> str:
        """Return the URL of the server."""
        return self._server.url

    @property
    def traffic(self) -> Traffic:
        """Return the counters, which go on counting."""
        return self._session.traffic

    @property
    def can_listen(self) -> bool:
        """Return that HTTP servers do not push."""
        return False

    async def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what the server serves now; raise as `http.flow.discovery` does.

        It may be cancelled at any time, and then leaves nothing behind.

        Raises:
            ClientClosed: It was closed, maybe meanwhile.
        """
        flow = discovery(self.server, fetched, self._options)
        asks: Sequence[Ask] | FetchedSnapshot = next(flow)
        while not isinstance(asks, FetchedSnapshot):
            outcomes = await self._together(asks)
            if sum(len(o.body) for o in outcomes if isinstance(o, Reply)) < _LONG_TO_READ:
                asks = advanced(flow, outcomes)
            else:
                asks = await in_thread(partial(advanced, flow, outcomes))
        return asks

    async def get(self, path: str, accept: str) -> Reply:
        """Return what the server answers, whatever its status; raise `DiscoveryError` else."""
        if self._is_closed:
            raise ClientClosed(self.server)
        return await self._session.get(path, accept)

    def listen(self, fetched: FetchedSnapshot | None) -> AsyncGenerator[FetchedSnapshot]:
        """Raise `NotImplementedError`: what has changed must be asked for."""
        raise NotImplementedError("HTTP servers do not push what has changed; fetch it again")

    async def close(self) -> None:
        """Let go of all connections; requests under way fail. It may be called again."""
        self._is_closed = True
        await _cancelled(self._requests)
        await self._session.close()

    async def _together(self, asks: Sequence[Ask]) -> list[Outcome]:
        """Return the outcomes of requests sent side by side, in their order."""
        if self._is_closed:
            raise ClientClosed(self.server)
        tasks = [
            asyncio.create_task(self._session.get(ask.path, ask.accept, ask.etag)) for ask in asks
        ]
        self._requests.update(tasks)
        try:
            await asyncio.wait(tasks)
        finally:
            await _cancelled(tasks)
            self._requests.difference_update(tasks)
        return [self._outcome(task) for task in tasks]

    def _outcome(self, task: asyncio.Task[Reply]) -> Outcome:
        if task.cancelled():
            raise ClientClosed(self.server)
        try:
            return task.result()
        except InvalidConfiguration:
            raise
        except DiscoveryError as error:
            return error


async def _cancelled(tasks: Sequence[asyncio.Task[Reply]] | set[asyncio.Task[Reply]]) -> None:
    """Cancel what is still under way, and wait until it has ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
