"""Transports that send their requests through another package's HTTP client.

Whatever that client is configured with holds for discovery too: address, trust, credentials and
how they are renewed, proxies, time limits. The client stays its owner's: it is never closed here.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from http import HTTPStatus
from threading import Lock

from apidiscovery_client._errors import (
    ClientClosed,
    DiscoveryError,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client._http.body import BodyError
from apidiscovery_client._http.flow import Ask, HttpOptions, Outcome, advanced, discovery
from apidiscovery_client._http.reply import (
    MAX_CONCURRENT_REQUESTS,
    MAX_RETRIES,
    Reply,
    why_unreachable,
)
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client.transports._side_by_side import side_by_side

# Both take the path and headers, and return the answer whatever its status.
Get = Callable[[str, Mapping[str, str]], Reply]
AsyncGet = Callable[[str, Mapping[str, str]], Awaitable[Reply]]

# JSON only: the packages that use this are no lighter for protobuf, and people read their logs.
_OPTIONS = HttpOptions(protobuf=False)
_LONG_TO_READ = 1 << 18  # bytes; some milliseconds
_NO_PUSH = "HTTP servers do not push what has changed; fetch it again"


class _Counting:
    """What both transports have in common."""

    def __init__(self, server: str, errors: tuple[type[Exception], ...]) -> None:
        self.server = server
        self.traffic = Traffic()
        self._errors = errors
        self._lock = Lock()
        self._is_closed = False

    @property
    def can_listen(self) -> bool:
        """Return that HTTP servers do not push."""
        return False

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise ClientClosed(self.server)

    def _unreachable(self, path: str, error: Exception) -> ServerUnreachable:
        url = self.server + path
        unreachable = ServerUnreachable(why_unreachable(error, url), url=url)
        unreachable.__cause__ = error
        return unreachable

    def _count(self, outcome: Outcome) -> None:
        with self._lock:
            self.traffic.requests += 1
            if isinstance(outcome, Reply):
                self.traffic.not_modified += outcome.status == HTTPStatus.NOT_MODIFIED
                self.traffic.body_bytes += len(outcome.body)


class BorrowedTransport(_Counting):
    """Implements `Transport`; may be used by several threads if `get` may.

    Args:
        server: Its URL, without a slash at the end.
        get: Sends a GET request.
        errors: What `get` raises when there is no answer; it is the cause of `ServerUnreachable`.
    """

    def __init__(self, server: str, get: Get, errors: tuple[type[Exception], ...]) -> None:
        super().__init__(server, errors)
        self._get = get

    def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what the server serves now; raise as `http.flow.discovery` does."""
        flow = discovery(self.server, fetched, _OPTIONS)
        asks: Sequence[Ask] | FetchedSnapshot = next(flow)
        while not isinstance(asks, FetchedSnapshot):
            self._ensure_open()
            calls = [lambda ask=ask: self._outcome(ask) for ask in asks]
            asks = advanced(flow, side_by_side(calls, MAX_CONCURRENT_REQUESTS, self._fail_none))
        return asks

    def get(self, path: str, accept: str) -> Reply:
        """Return what the server answers, whatever its status; raise `DiscoveryError` else."""
        self._ensure_open()
        return _reply_of(self._outcome(Ask(path, accept)))

    def listen(self, fetched: FetchedSnapshot | None) -> Generator[FetchedSnapshot]:
        """Raise `NotImplementedError`: what has changed must be asked for."""
        raise NotImplementedError(_NO_PUSH)

    def close(self) -> None:
        """Ask no more; the connections are not ours."""
        self._is_closed = True

    def _outcome(self, ask: Ask) -> Outcome:
        outcome: Outcome
        try:
            outcome = self._get(ask.path, _headers(ask))
        except self._errors as error:
            outcome = self._unreachable(ask.path, error)
        except BodyError as error:
            outcome = UnexpectedDocument(str(error), url=self.server + ask.path)
        except DiscoveryError as error:
            outcome = error
        self._count(outcome)
        return outcome

    def _fail_none(self) -> None:
        """Leave requests under way to their time limit, as the connections are not ours."""


class AsyncBorrowedTransport(_Counting):
    """Implements `AsyncTransport` in the event loop of the other package's client.

    Args:
        server: Its URL, without a slash at the end.
        get: Sends a GET request.
        errors: What `get` raises when there is no answer; it is the cause of `ServerUnreachable`.
    """

    def __init__(self, server: str, get: AsyncGet, errors: tuple[type[Exception], ...]) -> None:
        super().__init__(server, errors)
        self._get = get
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what the server serves now; raise as `http.flow.discovery` does."""
        flow = discovery(self.server, fetched, _OPTIONS)
        asks: Sequence[Ask] | FetchedSnapshot = next(flow)
        while not isinstance(asks, FetchedSnapshot):
            self._ensure_open()
            outcomes = await self._together(asks)
            if sum(len(o.body) for o in outcomes if isinstance(o, Reply)) < _LONG_TO_READ:
                asks = advanced(flow, outcomes)
            else:
                asks = await asyncio.to_thread(advanced, flow, outcomes)
        return asks

    async def _together(self, asks: Sequence[Ask]) -> list[Outcome]:
        """Return the outcomes of requests sent side by side, in their order."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._outcome(ask)) for ask in asks]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def get(self, path: str, accept: str) -> Reply:
        """Return what the server answers, whatever its status; raise `DiscoveryError` else."""
        self._ensure_open()
        return _reply_of(await self._outcome(Ask(path, accept)))

    def listen(self, fetched: FetchedSnapshot | None) -> AsyncGenerator[FetchedSnapshot]:
        """Raise `NotImplementedError`: what has changed must be asked for."""
        raise NotImplementedError(_NO_PUSH)

    async def close(self) -> None:
        """Ask no more; the connections are not ours."""
        self._is_closed = True

    async def _outcome(self, ask: Ask) -> Outcome:
        async with self._slots:
            for _ in range(MAX_RETRIES):
                outcome = await self._once(ask)
                if isinstance(outcome, DiscoveryError) or outcome.retry_after_s is None:
                    return outcome
                await asyncio.sleep(outcome.retry_after_s)
            return await self._once(ask)

    async def _once(self, ask: Ask) -> Outcome:
        outcome: Outcome
        try:
            outcome = await self._get(ask.path, _headers(ask))
        except self._errors as error:
            outcome = self._unreachable(ask.path, error)
        except BodyError as error:
            outcome = UnexpectedDocument(str(error), url=self.server + ask.path)
        except DiscoveryError as error:
            outcome = error
        self._count(outcome)
        return outcome


def _reply_of(outcome: Outcome) -> Reply:
    if isinstance(outcome, DiscoveryError):
        raise outcome
    return outcome


def _headers(ask: Ask) -> dict[str, str]:
    return {"Accept": ask.accept, **({"If-None-Match": ask.etag} if ask.etag else {})}
