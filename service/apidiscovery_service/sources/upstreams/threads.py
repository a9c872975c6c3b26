"""A thread for what may hang: the end of the process does not wait for it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


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
