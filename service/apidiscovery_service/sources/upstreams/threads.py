"""Threads that read what strangers sent; the end of the process does not wait for them."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ReadingThreads(Executor):
    """Runs work in threads of its own, in the order in which it comes.

    Reading the worst that a stranger may send takes many seconds, and nobody needs the result when
    the process ends. A ThreadPoolExecutor would have the interpreter wait for it.

    Args:
        count: How many threads there are, from the first work on.
        name: What their names begin with.
    """

    def __init__(self, count: int, name: str) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._work = queue.SimpleQueue()
        self._count = count
        self._name = name
        self._threads: list[threading.Thread] = []
        self._is_shut_down = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a function called; for the thread of the event loop alone.

        Raises:
            RuntimeError: It has been shut down.
        """
        if self._is_shut_down:
            raise RuntimeError("the threads have been shut down")
        future: Future[T] = Future()
        self._work.put((future, lambda: fn(*args, **kwargs)))
        if not self._threads:
            self._start()
        return future

    def _start(self) -> None:
        names = [f"{self._name}_{number}" for number in range(self._count)]
        self._threads = [
            threading.Thread(target=_run, args=(self._work,), name=name, daemon=True)
            for name in names
        ]
        for thread in self._threads:
            thread.start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        """Take nothing more, and have the threads end when they have done what there is."""
        self._is_shut_down = True
        if cancel_futures:
            self._cancel()
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _cancel(self) -> None:
        while not self._work.empty():
            try:
                item = self._work.get_nowait()
            except queue.Empty:
                return
            if item is not None:
                item[0].cancel()


def in_thread(call: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Return what will be the result of a call in a thread of its own.

    For what may hang: it keeps nobody else from being served, and does not outlive the process.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(future)


def _run(work: "queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]") -> None:
    while (item := work.get()) is not None:
        future, call = item
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            future.set_exception(error)
        # What is large is not kept until there is something new.
        del item, future, call
