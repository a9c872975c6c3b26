"""Concurrent blocking requests, and how another thread ends them."""

import time
from collections.abc import Callable, Sequence
from itertools import count
from threading import Event, Lock, Thread
from typing import Generic, Protocol, TypeVar

from apidiscovery_client._errors import ClientClosed
from apidiscovery_client._http.flow import Ask, Flow, Outcome, advanced
from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS
from apidiscovery_client._http.request import Deadline
from apidiscovery_client._interfaces import FetchedSnapshot

_END_S = 5.0  # how long to wait for threads that were told to end; a name look-up goes on longer

T = TypeVar("T")


class Abortable(Protocol):
    """A connection, or another operation that takes time."""

    def abort(self) -> None:
        """Make it fail, from another thread; whoever uses it must still close it."""
        ...


class Scope:
    """The requests of one caller, which `end` makes fail."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._ended = Event()
        self._lock = Lock()
        self._streams: set[Abortable] = set()

    @property
    def is_ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended.is_set()

    def ensure_open(self) -> None:
        """Raise `ClientClosed` after `end`."""
        if self.is_ended:
            raise ClientClosed(self._server)

    def add(self, stream: Abortable) -> None:
        """Register a connection; it is aborted at once when the scope has ended."""
        with self._lock:
            self._streams.add(stream)
        if self.is_ended:
            stream.abort()

    def remove(self, stream: Abortable) -> None:
        """Forget a connection that is no longer in use."""
        with self._lock:
            self._streams.discard(stream)

    def pause(self, seconds: float, deadline: Deadline) -> None:
        """Wait that long, but not beyond the deadline or `end`."""
        left_s = deadline.left_s()
        self._ended.wait(seconds if left_s is None else min(seconds, left_s))

    def end(self) -> None:
        """Make all requests fail."""
        self._ended.set()
        with self._lock:
            streams = tuple(self._streams)
        for stream in streams:
            stream.abort()

    def together(
        self, calls: Sequence[Callable[[], T]], at_once: int = MAX_CONCURRENT_REQUESTS
    ) -> list[T]:
        """Return the results of calls that run side by side, in their order.

        Up to `at_once` run at a time, in the caller's thread and others, which have ended by the
        return. After an error or interrupt they are waited for `_END_S` together.

        Raises:
            BaseException: The first that a call raised, or that interrupted the caller; the scope
                is ended then, and no other call begins.
        """
        work = _Work(calls, self.end)
        threads = [
            Thread(target=work.help, name="apidiscovery-http", daemon=True)
            for _ in range(min(at_once, len(calls)) - 1)
        ]
        try:
            for thread in threads:
                thread.start()
            work.do()
            for thread in threads:
                thread.join()
        except BaseException as problem:  # noqa: BLE001 - raised below, unless another came first
            work.fail(problem)
            end = time.monotonic() + _END_S
            for thread in threads:
                if thread.ident is not None:
                    thread.join(max(0.0, end - time.monotonic()))
        return work.results()


class _Work(Generic[T]):
    def __init__(self, calls: Sequence[Callable[[], T]], end: Callable[[], object]) -> None:
        self._calls = calls
        self._end = end
        self._numbers = count()  # its `next` is atomic
        self._results: dict[int, T] = {}
        self._problems: list[BaseException] = []

    def do(self) -> None:
        while (number := next(self._numbers)) < len(self._calls) and not self._problems:
            self._results[number] = self._calls[number]()

    def help(self) -> None:
        try:
            self.do()
        except BaseException as problem:  # noqa: BLE001 - it is raised in the caller's thread
            self.fail(problem)

    def fail(self, problem: BaseException) -> None:
        self._problems.append(problem)
        self._end()

    def results(self) -> list[T]:
        if self._problems:
            raise self._problems[0]
        return [self._results[number] for number in range(len(self._calls))]


def advance(flow: Flow, outcomes: Sequence[Outcome]) -> Sequence[Ask] | FetchedSnapshot:
    """Return what to ask for next, or the result."""
    return advanced(flow, outcomes)


def in_thread(call: Callable[[], T]) -> T:
    """Return what `call` returns; only with asyncio other tasks go on meanwhile."""
    return call()


def pause(seconds: float) -> None:
    """Return after that many seconds."""
    time.sleep(seconds)
