"""Runs operations in the calling thread; one thread at a time asks the server."""

import threading
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from apidiscovery_client._errors import ClientClosed
from apidiscovery_client._interfaces import FetchedSnapshot, Transport
from apidiscovery_client._sans_io import operations
from apidiscovery_client._sans_io.client_state import ClientState
from apidiscovery_client._sans_io.options import Clock

_T = TypeVar("_T")


class Driver:
    """Runs operations and attempts for one client, from any thread.

    Every method but `close` raises `ClientClosed` once it is closed.

    Attributes:
        can_be_interrupted: Whether waiting for pushed changes ends at a timeout.
    """

    can_be_interrupted = False

    def __init__(
        self, transport: Transport, slot: operations.CacheSlot, state: ClientState, clock: Clock
    ) -> None:
        self._transport = transport
        self._slot = slot
        self._state = state
        self._clock = clock
        self._turn = threading.Lock()  # held by the thread that runs an attempt
        self._closed = threading.Event()

    def ensure_open(self) -> None:
        """Raise `ClientClosed` once it is closed."""
        if self._closed.is_set():
            raise ClientClosed(self._transport.server)

    def close(self) -> None:
        """Wake waiting threads, and close the transport; it may be called again."""
        if not self._closed.is_set():
            self.stop()
            self._transport.close()

    def stop(self) -> None:
        """Wake waiting threads, and leave the transport open."""
        self._state.close()
        self._closed.set()

    def run(self, operation: operations.Operation[_T]) -> _T:
        """Return the result of an operation, after the attempts that it waits for."""
        self.ensure_open()
        try:
            number = next(operation)
            while True:
                self._wait_for(number)
                number = operation.send(None)
        except StopIteration as done:
            result: _T = done.value
            return result

    def look(self, *, max_age_s: float) -> None:
        """Ask the server, unless the snapshot is younger than that."""
        self.ensure_open()
        number = self._state.attempt_for_age(max_age_s)
        if number is not None:
            self._wait_for(number)

    def _wait_for(self, number: int) -> None:
        """Return when the attempt of that number has ended; run it if no other thread does."""
        with self._turn:
            while self._state.ended < number:
                self.ensure_open()
                self.perform(operations.attempt(self._state))
        self.ensure_open()

    def perform(self, steps: operations.Steps) -> None:
        """Carry out an attempt."""
        try:
            step = next(steps)
            while True:
                try:
                    fetched = self._do(step)
                except Exception as error:  # noqa: BLE001 - the attempt handles it
                    step = steps.throw(error)
                else:
                    step = steps.send(fetched)
        except StopIteration:
            pass
        finally:
            steps.close()

    def _do(self, step: operations.IO) -> FetchedSnapshot | None:
        match step:
            case operations.Load():
                return self._slot.load()
            case operations.Fetch(fetched):
                return self._transport.fetch(fetched)
            case operations.Save(fetched):
                self._slot.save(fetched)
                return None

    def all_of(self, calls: Sequence[Callable[[], None]], _timeout_s: float) -> None:
        """Run calls one after another; each checks the time by itself."""
        for call in calls:
            call()

    def received(self, stream: Generator[FetchedSnapshot]) -> Generator[FetchedSnapshot]:
        """Yield what a stream yields."""
        for told in stream:
            self.ensure_open()
            yield told

    def pause(self, seconds: float) -> None:
        """Return after that many seconds."""
        self._clock.wait(self._closed, seconds)
        self.ensure_open()
