"""Drives DiscoveryService over a channel of grpcio that blocks, with messages of any stubs."""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from typing import Protocol, Self, TypeVar

import grpc

from apidiscovery_client._errors import DiscoveryError, UnexpectedDocument
from apidiscovery_client.held import Held, Traffic
from apidiscovery_client.rpc.calls import Attempts, GrpcServer, open_channel
from apidiscovery_client.rpc.errors import Failure, failure, plain_failure
from apidiscovery_client.transports._grpc_answers import (
    Answer,
    Message,
    Messages,
    MisfitError,
    Same,
    Sources,
)
from apidiscovery_client.transports._grpc_common import (
    GET,
    LIST,
    SOURCES_TIMEOUT_S,
    CallFailedError,
    CountingChannel,
    Renewal,
    closed,
    named,
    read_message,
)
from apidiscovery_client.transports._grpc_flow import Ask, Flow, Get, Reply, fetching
from apidiscovery_client.transports._grpc_watchdog import Watchdog, closing_silent
from apidiscovery_client.transports._grpc_watching import (
    WATCH,
    Patience,
    Watching,
    ended,
    silent,
)

R = TypeVar("R")


class Stub(Protocol):
    """The methods of DiscoveryService."""

    GetDiscovery: Callable[..., Message]
    WatchDiscovery: Callable[..., Message]
    ListSources: Callable[..., Message]


class SyncDiscovery:
    """Implements `held.Transport`.

    Args:
        server: Who is asked.
        messages: Of the stubs.
        stub: Makes the stub from a channel.
        patience: How long a watch waits for what.
    """

    can_listen = True

    def __init__(
        self,
        server: GrpcServer,
        messages: Messages,
        stub: Callable[[CountingChannel], Stub],
        patience: Patience,
    ) -> None:
        self.traffic = Traffic()
        self._server = server
        self._messages = messages
        self._patience = patience
        self._stub_of = stub
        channel = open_channel(server)
        self._channels = {channel}
        self._stub = stub(CountingChannel(channel, self.traffic))
        self._closed = threading.Event()
        self._making = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def server(self) -> str:
        """Return the address."""
        return self._server.address

    def close(self) -> None:
        """End all calls and let go of all connections; whoever listens comes to an end."""
        self._closed.set()
        with self._making:
            channels = tuple(self._channels)
        for channel in channels:
            channel.close()

    def fetch(self, held: Held | None) -> Held:
        """Return what is served now, asking for no more than what has changed since `held`.

        Raises:
            ServerUnreachable: No answer came.
            CallRefused: The answer was an error.
            UnexpectedDocument: The answer makes no sense.
        """
        try:
            return self._driven(fetching(held, self.server))
        except MisfitError as error:
            raise UnexpectedDocument(str(error), url=self.server, method=GET) from None

    def listen(self, held: Held | None) -> Generator[Held]:
        """Yield what is served now, and again after each message; stale after long silence.

        Raises:
            ServerUnreachable: No answer came, and nothing is held.
            CallRefused: For a reason that waiting does not heal.
            UnexpectedDocument: A message makes no sense, and neither does a new beginning.
        """
        watching = Watching(held, self._server, self._patience)
        renewal = Renewal(self._server)
        while not self._closed.is_set():
            try:
                yield from self._watch(watching, renewal)
                continue
            except MisfitError as problem:
                wait_s = watching.misfit(problem)
            except CallFailedError as error:
                if self._closed.is_set():
                    return
                if renewal.may_help(error.failed) and renewal.try_again():
                    continue
                wait_s = self._lost(watching, error.failed)
            yield from watching.overdue()
            if self._closed.wait(wait_s):
                return
            yield from watching.overdue()

    def _lost(self, watching: Watching, failed: Failure) -> float:
        try:
            return watching.lost(failed)
        except DiscoveryError as error:
            raise named(error, WATCH, self.server) from None

    def _watch(self, watching: Watching, renewal: Renewal) -> Generator[Held]:
        """Yield what one watch tells.

        Raises:
            CallFailedError: How it ended.
            MisfitError: It made no sense.
        """
        request = self._messages.watch_request(watching.begin(), self._patience.heartbeat_s)
        with self._begun(request) as messages:
            for message in messages:
                answer = self._read(WATCH, self._messages.event, message)
                renewal.taken()
                yield self._driven(watching.taking(answer))

    @contextlib.contextmanager
    def _begun(self, request: Message) -> Generator[Iterator[Message]]:
        """Begin a watch, over a connection of its own: the one before may be dead, unnoticed."""
        metadata = self._server.metadata()
        self.traffic.requests += 1
        with self._opened() as stub:
            with _failing():
                call = stub.WatchDiscovery(request, metadata=metadata)
            with closing_silent(call, self._patience.silence_s) as watchdog:
                yield self._received(call, watchdog)

    @contextlib.contextmanager
    def _opened(self) -> Generator[Stub]:
        # Whole before `close` sees it: a stub that is made of a closed channel crashes the process.
        with self._making:
            channel = open_channel(self._server)
            stub = self._stub_of(CountingChannel(channel, self.traffic))
            self._channels.add(channel)
        try:
            if self._closed.is_set():
                channel.close()
            yield stub
        finally:
            self._channels.discard(channel)
            channel.close()

    def _received(self, call: Iterator[Message], watchdog: Watchdog) -> Iterator[Message]:
        while True:
            try:
                with _failing(), watchdog.awake():
                    message = next(call, None)
            except CallFailedError:
                if not watchdog.has_barked:
                    raise
                raise CallFailedError(silent(self._patience)) from None
            if message is None:
                raise CallFailedError(ended())
            yield message

    def _driven(self, flow: Flow) -> Held:
        try:
            ask = next(flow)
            while True:
                ask = flow.send(self._reply(ask))
        except StopIteration as end:
            held: Held = end.value
            return held

    def _reply(self, ask: Ask) -> Reply:
        return self._get(ask) if isinstance(ask, Get) else self._sources()

    def _get(self, ask: Get) -> Answer:
        request = self._messages.get_request(ask.etag, ask.known)
        message = self._called(GET, self._stub.GetDiscovery, request)
        answer = self._read(GET, self._messages.answer, message)
        self.traffic.not_modified += isinstance(answer, Same)
        return answer

    def _sources(self) -> Sources:
        request = self._messages.sources_request()
        with contextlib.suppress(DiscoveryError):
            message = self._called(LIST, self._stub.ListSources, request, SOURCES_TIMEOUT_S)
            return self._read(LIST, lambda told, _: self._messages.sources(told), message)
        return Sources()

    def _called(
        self,
        name: str,
        method: Callable[..., Message],
        request: Message,
        timeout_s: float | None = None,
    ) -> Message:
        attempts, renewal = Attempts(name, self._server, timeout_s), Renewal(self._server)
        while True:
            try:
                return self._once(method, request, attempts.left_s)
            except CallFailedError as error:
                failed = error.failed
            if renewal.may_help(failed) and renewal.try_again():
                continue
            if self._closed.wait(self._wait_s(name, attempts, failed)):
                raise closed(self.server)

    def _once(
        self, method: Callable[..., Message], request: Message, timeout_s: float | None
    ) -> Message:
        metadata = self._server.metadata()
        self.traffic.requests += 1
        with _failing():
            return method(request, timeout=timeout_s, metadata=metadata)

    def _wait_s(self, name: str, attempts: Attempts, failed: Failure) -> float:
        if self._closed.is_set():
            raise closed(self.server)
        try:
            return attempts.wait_s(failed)
        except DiscoveryError as error:
            raise named(error, name, self.server) from None

    def _read(self, name: str, read: Callable[[Message, datetime], R], message: Message) -> R:
        return read_message(self.server, name, read, message)


@contextlib.contextmanager
def _failing() -> Generator[None]:
    """Raise `CallFailedError` for what grpcio raises."""
    try:
        yield
    except grpc.RpcError as error:
        raise CallFailedError(failure(error)) from None
    except ValueError as error:  # "Cannot invoke RPC on closed channel!"
        raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, str(error))) from None
