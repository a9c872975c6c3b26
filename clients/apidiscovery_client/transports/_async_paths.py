"""A transport over any sender of GET requests; `_paths`, which blocks, is generated from this."""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Lock
from typing import Protocol

from apidiscovery_client._errors import ClientClosed, DiscoveryError, InvalidConfiguration
from apidiscovery_client._http.flow import Ask, HttpOptions, Outcome, discovery
from apidiscovery_client._http.reply import Reply
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client.transports._async_scope import AsyncScope, advance


class AsyncSends(Protocol):
    """Sends GET requests to one server.

    Attributes:
        traffic: Requests and answers so far.
    """

    traffic: Traffic

    async def get(self, ask: Ask, scope: AsyncScope) -> Reply:
        """Return the answer, whatever its status; raise `DiscoveryError` without one."""
        ...

    async def close(self) -> None:
        """Close its own connections; it may be called again."""
        ...


class AsyncPathTransport:
    """Implements `Transport`, or for asyncio `AsyncTransport`, by GET requests.

    Args:
        server: The URL of the server, without a slash at the end.
        sends: Sends the requests.
        options: How to ask.
        progress: Called after each answer, in whatever thread waits for it, with the number of
            answers so far and of requests that are sent side by side.
    """

    can_listen = False

    def __init__(
        self,
        server: str,
        sends: AsyncSends,
        options: HttpOptions,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self.server = server
        self.traffic = sends.traffic
        self._sends = sends
        self._options = options
        self._progress = progress
        self._lock = Lock()
        self._scopes: set[AsyncScope] = set()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    async def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what the server serves now; raise as `_http.flow.discovery` does.

        Raises:
            ClientClosed: The transport was closed, maybe meanwhile.
        """
        with self._scope() as scope:
            flow = discovery(self.server, fetched, self._options)
            asks: Sequence[Ask] | FetchedSnapshot = next(flow)
            while not isinstance(asks, FetchedSnapshot):
                asks = await advance(flow, await self._outcomes(asks, scope))
            return asks

    async def get(self, path: str, accept: str, etag: str = "") -> Reply:
        """Return the server's answer, whatever its status; raise `DiscoveryError` without one."""
        with self._scope() as scope:
            call = partial(self._sends.get, Ask(path, accept, etag), scope)
            return (await scope.together([call]))[0]

    def below(self, path: str) -> "AsyncPathTransport":
        """Return a transport for what the server has below a path, over the same connections.

        Closing it closes none of them.
        """
        return AsyncPathTransport(
            self.server + path, _AsyncBelow(self._sends, path), self._options, self._progress
        )

    def listen(self, fetched: FetchedSnapshot | None) -> AsyncGenerator[FetchedSnapshot]:
        """Raise `NotImplementedError`: HTTP servers do not push changes."""
        raise NotImplementedError("HTTP servers do not push what has changed; fetch it again")

    async def close(self) -> None:
        """Close all connections; requests under way fail. It may be called again."""
        with self._lock:
            self._is_closed = True
            scopes = tuple(self._scopes)
        for scope in scopes:
            await scope.end()
        await self._sends.close()

    @contextmanager
    def _scope(self) -> Generator[AsyncScope]:
        scope = AsyncScope(self.server)
        with self._lock:
            if self._is_closed:
                raise ClientClosed(self.server)
            self._scopes.add(scope)
        try:
            yield scope
        finally:
            with self._lock:
                self._scopes.discard(scope)

    async def _outcomes(self, asks: Sequence[Ask], scope: AsyncScope) -> list[Outcome]:
        """Return the outcomes of requests sent side by side, in their order."""
        answers = count(1)

        async def outcome(ask: Ask) -> Outcome:
            result: Outcome
            try:
                result = await self._sends.get(ask, scope)
            except (InvalidConfiguration, ClientClosed):
                raise
            except DiscoveryError as error:
                result = error
            if self._progress:
                self._progress(next(answers), len(asks))
            return result

        return await scope.together([partial(outcome, ask) for ask in asks])


class _AsyncBelow:
    """Sends requests below a path, through another sender."""

    def __init__(self, sends: AsyncSends, path: str) -> None:
        self.traffic = sends.traffic
        self._sends = sends
        self._path = path

    async def get(self, ask: Ask, scope: AsyncScope) -> Reply:
        return await self._sends.get(replace(ask, path=self._path + ask.path), scope)

    async def close(self) -> None:
        """Leave the connections open: they belong to the other sender."""
