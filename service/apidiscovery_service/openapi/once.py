"""Work that several wait for and that is done once."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Once(Generic[K, T]):
    """Runs what is asked for under a key, once while it is under way."""

    def __init__(self) -> None:
        self._under_way: dict[K, asyncio.Task[T]] = {}

    async def run(self, key: K, work: Callable[[], Coroutine[None, None, T]]) -> T:
        """Return what the work under way for a key comes to, which is `work` if there is none.

        It goes on when whoever waits gives up. What it raises is raised in all who wait.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        try:
            return await asyncio.shield(task)
        finally:
            # An error would keep this frame, and so the task with the error, and all it worked on.
            del task

    def _end(self, key: K, done: asyncio.Task[T]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # looked at, or asyncio complains when nobody waits any more
