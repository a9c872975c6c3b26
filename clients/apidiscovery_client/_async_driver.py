"""Runs operations with asyncio: an attempt is a task that callers share."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TypeVar

from apidiscovery_client._errors import ClientClosed
from apidiscovery_client._interfaces import AsyncTransport, FetchedSnapshot
from apidiscovery_client._sans_io import operations
from apidiscovery_client._sans_io.client_state import ClientState
from apidiscovery_client._sans_io.options import Clock

_T = TypeVar("_T")


class AsyncDriver:
    """Runs operations and attempts for one client, in one event loop.

    Every method but `close` raises `ClientClosed` once it is closed.

    Attributes:
        can_be_interrupted: Whether waiting for pushed changes ends at a timeout.
    """

    can_be_interrupted = True

    def __init__(
        self,
        transport: AsyncTransport,
        slot: operations.CacheSlot,
        state: ClientState,
        clock: Clock,
    ) -> None:
        self._transport = transport
        self._slot = slot
        self._state = state
        self._clock = clock
        self._attempt: asyncio.Task[None] | None = None
        self._pauses: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def ensure_open(self) -> None:
        """Raise `ClientClosed` once it is closed."""
        if self._is_closed:
            raise ClientClosed(self._transport.server)

    async def close(self) -> None:
        """End running attempts and close the transport; it may be called again."""
        try:
            await self.stop()
        finally:
            await self._transport.close()

    async def stop(self) -> None:
        """End running attempts, and leave the transport open."""
        self._is_closed = True
        self._state.close()
        tasks = [*self._pauses, *([self._attempt] if self._attempt else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self, operation: operations.Operation[_T]) -> _T:
        """Return the result of an operation, after the attempts that it waits for."""
        self.ensure_open()
        try:
            number = next(operation)
            while True:
                await self._wait_for(number)
                number = operation.send(None)
        except StopIteration as done:
            result: _T = done.value
            return result

    async def look(self, *, max_age_s: float) -> None:
        """Ask the server, unless the snapshot is younger than that."""
        self.ensure_open()
        number = self._state.attempt_for_age(max_age_s)
        if number is not None:
            await self._wait_for(number)

    async def _wait_for(self, number: int) -> None:
        """Return when the attempt of that number has ended; start it if it has not begun."""
        while self._state.ended < number:
            if self._attempt is None or self._attempt.done():
                steps = operations.attempt(self._state)
                self._attempt = asyncio.get_running_loop().create_task(self.perform(steps))
            await self._unless_closed(asyncio.shield(self._attempt))
            self.ensure_open()

    async def perform(self, steps: operations.Steps) -> None:
        """Carry out an attempt."""
        try:
            step = next(steps)
            while True:
                try:
                    fetched = await self._do(step)
                except Exception as error:  # noqa: BLE001 - the attempt handles it
                    step = steps.throw(error)
                else:
                    step = steps.send(fetched)
        except StopIteration:
            pass
        finally:
            steps.close()

    async def _do(self, step: operations.IO) -> FetchedSnapshot | None:
        match step:
            case operations.Load():
                return await asyncio.to_thread(self._slot.load)
            case operations.Fetch(fetched):
                return await self._transport.fetch(fetched)
            case operations.Save(fetched):
                if self._slot.cache is not None:
                    await asyncio.to_thread(self._slot.save, fetched)
                return None

    async def all_of(
        self, calls: Sequence[Callable[[], Coroutine[None, None, None]]], timeout_s: float
    ) -> None:
        """Run calls side by side; return when all have ended, or after the timeout.

        None continues after that, after an error, or when this is cancelled.
        """
        tasks = [asyncio.get_running_loop().create_task(call()) for call in calls]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def received(
        self, stream: AsyncGenerator[FetchedSnapshot]
    ) -> AsyncGenerator[FetchedSnapshot]:
        """Yield what a stream yields."""
        while (told := await self._unless_closed(anext(stream, None))) is not None:
            yield told

    async def pause(self, seconds: float) -> None:
        """Return after that many seconds."""
        self.ensure_open()
        task = asyncio.get_running_loop().create_task(self._clock.sleep(seconds))
        self._pauses.add(task)
        try:
            await self._unless_closed(task)
        finally:
            self._pauses.discard(task)

    async def _unless_closed(self, awaitable: Awaitable[_T]) -> _T:
        """Return the result; a cancellation by `close` is `ClientClosed`."""
        try:
            return await awaitable
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if self._is_closed and not (me and me.cancelling()):
                raise ClientClosed(self._transport.server) from None
            raise
