"""Blocking calls over a channel of grpcio, with messages of any stubs."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

import grpc

from apidiscovery_client._grpc.calls import GrpcServer, open_channel
from apidiscovery_client._grpc.errors import CallFailedError, failure, plain_failure
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import (
    CountingChannel,
    Metadata,
    Stub,
)
from apidiscovery_client.transports._grpc_watching import Patience, silent
from apidiscovery_client.transports._waiting import Read


class _Call(Protocol):
    def cancel(self) -> object: ...


class Watchdog:
    """Cancels a read that takes too long, since grpcio has no timeout for it.

    The reader talks to its thread through a queue, because a KeyboardInterrupt may come anywhere in
    the reader's thread: between acquiring a lock and the block that releases it, the lock would
    stay held, and `end`, which joins the other thread, would hang.
    """

    def __init__(self, silence_s: float, bark: Callable[[], object]) -> None:
        self._silence_s = silence_s
        self._bark = bark
        # When to bark, on the monotonic clock; infinity for not now, None for the end.
        self._told: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self.has_barked = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def awake(self) -> Generator[None]:
        """Limit the duration of this block."""
        self._told.put(time.monotonic() + self._silence_s)
        try:
            yield
        finally:
            self._told.put(float("inf"))

    def end(self) -> None:
        """Return once its thread has ended."""
        self._told.put(None)
        self._thread.join()

    def _watch(self) -> None:
        bark_at: float | None = float("inf")
        while bark_at is not None:
            left_s = min(bark_at - time.monotonic(), threading.TIMEOUT_MAX)
            try:
                bark_at = self._told.get(timeout=max(left_s, 0))
            except queue.Empty:
                break
        if bark_at is not None:
            self.has_barked = True
            self._bark()


@contextlib.contextmanager
def closing_silent(call: _Call, silence_s: float) -> Generator[Watchdog]:
    """Cancel a call at the end, or when a read takes too long."""
    watchdog = Watchdog(silence_s, call.cancel)
    try:
        yield watchdog
    finally:
        call.cancel()
        watchdog.end()


class GrpcioCalls:
    """Implements `_calling.Calls`; threads may share it.

    Raises:
        InvalidConfiguration: The server has a `context` for grpclib, and no credentials of grpcio.
    """

    def __init__(
        self,
        server: GrpcServer,
        traffic: Traffic,
        stub: Callable[[CountingChannel], Stub],
        watch: str,
        patience: Patience,
    ) -> None:
        self._server = server
        self._traffic = traffic
        self._stub_of = stub
        self._watch = watch
        self._patience = patience
        channel = open_channel(server)
        self._channels = {channel}
        self._stub = stub(CountingChannel(channel, traffic))
        self._making = threading.Lock()
        self._is_closed = False

    def once(
        self, method: str, request: Message, timeout_s: float | None, metadata: Metadata
    ) -> Message:
        """Return the answer of a unary method."""
        call: Callable[..., Message] = getattr(self._stub, method)
        with _failing():
            return call(request, timeout=timeout_s, metadata=metadata)

    @contextlib.contextmanager
    def watch(self, request: Message, metadata: Metadata) -> Generator[Read]:
        """Begin a watch over a new connection, because the earlier one may be dead."""
        with self._opened() as stub:
            with _failing():
                call: Message = getattr(stub, self._watch)(request, metadata=metadata)
            with closing_silent(call, self._patience.silence_s) as watchdog:
                yield lambda: self._read(call, watchdog)

    def close(self) -> None:
        """End all calls and close all connections; it may be called again."""
        self._is_closed = True
        with self._making:
            channels = tuple(self._channels)
        for channel in channels:
            channel.close()

    @contextlib.contextmanager
    def _opened(self) -> Generator[Stub]:
        # Complete before `close` sees it: making a stub of a closed channel crashes the process.
        with self._making:
            channel = open_channel(self._server)
            stub = self._stub_of(CountingChannel(channel, self._traffic))
            self._channels.add(channel)
        try:
            if self._is_closed:
                channel.close()
            yield stub
        finally:
            self._channels.discard(channel)
            channel.close()

    def _read(self, call: Iterator[Message], watchdog: Watchdog) -> Message | None:
        try:
            with _failing(), watchdog.awake():
                return next(call, None)
        except CallFailedError:
            if not watchdog.has_barked:
                raise
            raise CallFailedError(silent(self._patience)) from None


@contextlib.contextmanager
def _failing() -> Generator[None]:
    """Raise `CallFailedError` for what grpcio raises."""
    try:
        yield
    except grpc.RpcError as error:
        raise CallFailedError(failure(error)) from None
    except ValueError as error:  # "Cannot invoke RPC on closed channel!"
        raise CallFailedError(plain_failure(grpc.StatusCode.CANCELLED, str(error))) from None
