"""Concurrent requests with asyncio, and how they are ended."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from apidiscovery_client._errors import ClientClosed
from apidiscovery_client._http.flow import Ask, Flow, Outcome, advanced
from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS, Reply
from apidiscovery_client._http.request import Deadline
from apidiscovery_client._interfaces import FetchedSnapshot

_LONG_TO_READ = 1 << 18  # bytes; some milliseconds

T = TypeVar("T")


class AsyncScope:
    """The requests of one caller, which `end` makes fail."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[object]] = set()
        self.is_ended = False

    def ensure_open(self) -> None:
        """Raise `ClientClosed` after `end`."""
        if self.is_ended:
            raise ClientClosed(self._server)

    async def pause(self, seconds: float, deadline: Deadline) -> None:
        """Wait that long, but not beyond the deadline."""
        left_s = deadline.left_s()
        await asyncio.sleep(seconds if left_s is None else min(seconds, left_s))

    async def end(self) -> None:
        """Make all requests fail; return when they have."""
        self.is_ended = True
        await _cancelled(self._tasks)

    async def together(
        self,
        calls: Sequence[Callable[[], Awaitable[T]]],
        at_once: int = MAX_CONCURRENT_REQUESTS,
    ) -> list[T]:
        """Return the results of calls that run side by side, in their order.

        Up to `at_once` run at a time. None goes on after an error or a cancellation.

        Raises:
            ClientClosed: The scope was ended.
            Exception: The first that a call raised.
        """
        slots = asyncio.Semaphore(at_once)

        async def one(call: Callable[[], Awaitable[T]]) -> T:
            async with slots:
                return await call()

        if not calls:
            return []
        tasks = [asyncio.create_task(one(call)) for call in calls]
        self._tasks.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await _cancelled(tasks)
            self._tasks.difference_update(tasks)
        self.ensure_open()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                raise error
        return [task.result() for task in tasks]


async def _cancelled(tasks: Iterable[asyncio.Task[T]]) -> None:
    """Cancel tasks, and return when they have ended."""
    running = tuple(tasks)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def advance(flow: Flow, outcomes: Sequence[Outcome]) -> Sequence[Ask] | FetchedSnapshot:
    """Return what to ask for next, or the result; large answers are read in a thread."""
    if sum(len(o.body) for o in outcomes if isinstance(o, Reply)) < _LONG_TO_READ:
        return advanced(flow, outcomes)
    return await in_thread(partial(advanced, flow, outcomes))


async def in_thread(call: Callable[[], T]) -> T:
    """Return what `call` returns, from a thread of its own, which ends with it.

    The end of the process does not wait for it, unlike for one of a ThreadPoolExecutor.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            future.set_exception(error)

    threading.Thread(target=run, name="apidiscovery-http", daemon=True).start()
    return await asyncio.wrap_future(future)


async def pause(seconds: float) -> None:
    """Return after that many seconds."""
    await asyncio.sleep(seconds)
