"""A transport over DiscoveryService, for all stubs; `_discovery` is generated from this."""

import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Self, TypeVar

from apidiscovery_client._errors import DiscoveryError, UnexpectedDocument
from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client._grpc.errors import CallFailedError, Failure
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client.transports._async_calling import AsyncCaller, AsyncCalls
from apidiscovery_client.transports._async_waiting import AsyncWaiting
from apidiscovery_client.transports._grpc_answers import (
    SERVICE,
    Answer,
    InconsistentError,
    Message,
    Same,
    Sources,
)
from apidiscovery_client.transports._grpc_common import (
    GET,
    LIST,
    SOURCES_TIMEOUT_S,
    Renewal,
    named,
    read_message,
)
from apidiscovery_client.transports._grpc_flow import Ask, Flow, Get, Reply, fetching
from apidiscovery_client.transports._grpc_messages import Messages
from apidiscovery_client.transports._grpc_watching import (
    WATCH,
    Patience,
    Watching,
    ended,
)

R = TypeVar("R")


class AsyncDiscovery:
    """Implements `AsyncTransport`."""

    can_listen = True

    def __init__(
        self,
        server: GrpcServer,
        messages: Messages,
        calls: Callable[[Traffic], AsyncCalls],
        patience: Patience,
    ) -> None:
        self.traffic = Traffic()
        self._server = server
        self._messages = messages
        self._patience = patience
        self._calls = calls(self.traffic)
        self._waiting = AsyncWaiting()
        self._caller = AsyncCaller(server, SERVICE, self._calls, self._waiting, self.traffic)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def server(self) -> str:
        """Return the address."""
        return self._server.address

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    async def close(self) -> None:
        """End all calls and close all connections; `listen` ends."""
        self._waiting.end()
        await self._calls.close()

    async def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what is served now, requesting only the changes since `fetched`.

        Raises:
            ServerUnreachable: No answer came.
            CallRefused: The answer was an error.
            UnexpectedDocument: The answer is inconsistent.
        """
        try:
            return await self._driven(fetching(fetched, self.server))
        except InconsistentError as error:
            raise UnexpectedDocument(str(error), url=self.server, method=GET) from None

    async def listen(self, fetched: FetchedSnapshot | None) -> AsyncGenerator[FetchedSnapshot]:
        """Yield what is served now, and again after each message; stale after long silence.

        Raises:
            ServerUnreachable: No answer came, and there is no snapshot.
            CallRefused: A refusal that waiting does not resolve.
            UnexpectedDocument: A message is inconsistent, and so is a new watch without a base.
        """
        watching = Watching(fetched, self._server, self._patience)
        renewal = Renewal(self._server)
        while not self._waiting.is_over:
            wait_s = 0.0
            try:
                async with aclosing(self._watch(watching, renewal)) as told:
                    async for now in told:
                        yield now
            except InconsistentError as problem:
                wait_s = watching.misfit(problem)
            except CallFailedError as error:
                if self._waiting.is_over:
                    return
                if renewal.may_help(error.failed) and await self._waiting.renewed(renewal):
                    continue
                wait_s = self._lost(watching, error.failed)
            for stale in watching.overdue():
                yield stale
            if await self._waiting.is_over_within(wait_s):
                return
            for stale in watching.overdue():
                yield stale

    def _lost(self, watching: Watching, failed: Failure) -> float:
        try:
            return watching.lost(failed)
        except DiscoveryError as error:
            raise named(error, SERVICE, WATCH, self.server) from None

    async def _watch(self, watching: Watching, renewal: Renewal) -> AsyncGenerator[FetchedSnapshot]:
        """Yield the states of one watch; it ends with an error only.

        Raises:
            CallFailedError: The watch ended.
            InconsistentError: A message was inconsistent.
        """
        request = self._messages.watch_request(watching.begin(), self._patience.heartbeat_s)
        metadata = await self._waiting.metadata(self._server)
        self.traffic.requests += 1
        async with self._calls.watch(request, metadata) as read:
            while True:
                message = await self._waiting.message(read, self._patience)
                if message is None:
                    raise CallFailedError(ended())
                answer = self._read(WATCH, self._messages.event, message)
                renewal.taken()
                yield await self._driven(watching.taking(answer))

    async def _driven(self, flow: Flow) -> FetchedSnapshot:
        try:
            ask = next(flow)
            while True:
                ask = flow.send(await self._reply(ask))
        except StopIteration as end:
            fetched: FetchedSnapshot = end.value
            return fetched

    async def _reply(self, ask: Ask) -> Reply:
        return await (self._get(ask) if isinstance(ask, Get) else self._sources())

    async def _get(self, ask: Get) -> Answer:
        request = self._messages.get_request(ask.etag, ask.known)
        answer = self._read(GET, self._messages.answer, await self._caller.called(GET, request))
        self.traffic.not_modified += isinstance(answer, Same)
        return answer

    async def _sources(self) -> Sources:
        request = self._messages.sources_request()
        with contextlib.suppress(DiscoveryError):
            message = await self._caller.called(LIST, request, SOURCES_TIMEOUT_S)
            return self._read(LIST, lambda told, _: self._messages.sources(told), message)
        return Sources()

    def _read(self, name: str, read: Callable[[Message, datetime], R], message: Message) -> R:
        return read_message(self.server, name, read, message)
