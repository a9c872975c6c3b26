"""Work that is done once for concurrent callers."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Once(Generic[K, T]):
    """Runs at most one task for each key at a time; concurrent callers share it."""

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}

    async def run(self, key: K, work: Callable[[], Coroutine[None, None, T]]) -> T:
        """Return the result of the task that runs for a key; start `work` if none does.

        The task goes on when its callers are cancelled. Its error is raised in all of them.
        """
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        try:
            return await asyncio.shield(task)
        finally:
            # A traceback keeps this frame, which would keep the task with the error.
            del task

    def is_running(self, key: K) -> bool:
        """Return whether a task runs for a key."""
        return key in self._tasks

    def _end(self, key: K, done: asyncio.Task[T]) -> None:
        del self._tasks[key]
        if not done.cancelled():
            done.exception()  # or asyncio logs that it was never retrieved
