"""The making of documents: few at a time, each once however many wait for it."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeAlias, TypeVar

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi.entries import Entry, Known
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.recipe import Recipe

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


# What was made, such as `document`, and how many seconds that took.
Observer: TypeAlias = Callable[[str, float], None]

_log = structlog.get_logger(__name__)

# More would not be quicker, for most of it holds Python's lock, but would starve the event loop.
_AT_ONCE = 2

# Above so many bytes SHA-512 takes longer than a change of threads.
_HASHED_AT_ONCE = 2**16

# Of what nobody asked for by name so many are made or waited for.
_WORKERS = 16

# What takes longer waits for something, and so holds up no others.
_TURN_S = 1.0

# What has not come by then is taken to be lost. The largest documents take a second.
_PATIENCE_S = 30.0

# A document that is wrong stays so; what could not be read may be there again.
_RETRY_S = 60.0
_UNKNOWN_REASON = "the document could not be had"
_TOO_LATE = "the document was not there in time"
_MAX_REASON = 1000


class DocumentUnavailable(DiscoveryError):
    """A document should be there, but neither it nor one in its place can be made."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"the OpenAPI document of {key} is not available: {reason}")
        self.key = key


@dataclass(frozen=True, slots=True)
class Made:
    """A document.

    Attributes:
        hash: Upper-case hex SHA-512 of `data`; empty when there is no document to be had.
        failure: Why another one was made in its place, or none; empty when nothing failed.
    """

    hash: str
    data: bytes
    failure: str = ""


async def sha512(data: bytes) -> str:
    """Return the upper-case hex SHA-512."""
    if len(data) > _HASHED_AT_ONCE:
        return (await asyncio.to_thread(hashlib.sha512, data)).hexdigest().upper()
    return hashlib.sha512(data).hexdigest().upper()


class Making:
    """Makes documents and notes their hashes."""

    def __init__(self, known: Known, observe: Observer) -> None:
        self._known = known
        self._observe = observe
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._finding_turns = asyncio.Semaphore(_AT_ONCE)
        self._once: Once[tuple[Entry, bool], Made] = Once()

    async def make(self, entry: Entry) -> Made:
        """Return the document of an entry, or the one in its place if it cannot be made.

        Raises:
            DocumentUnavailable: Its hash was known before, and it cannot be had now.
        """
        if entry.failure and entry.hash:  # not to be tried again yet
            return await self._once.run((entry, True), lambda: self._known_to_fail(entry))
        return await self._once.run((entry, False), lambda: self._make(entry))

    async def _known_to_fail(self, entry: Entry) -> Made:
        made, _ = await self._instead(entry.recipe, entry.failure)
        return made

    async def again(self, entry: Entry) -> None:
        """Try to make what could not be made; until then what is in its place stays there."""
        await self._once.run((entry, False), lambda: self._make(entry))

    async def find(self, entries: Iterable[Entry]) -> None:
        """Make what is not known yet and drop it; a document that is asked for goes before."""
        todo = iter(entries)

        async def work() -> None:
            for entry in todo:
                async with self._finding_turns:
                    if entry not in self._known.unknown:
                        continue
                    making = asyncio.create_task(self.make(entry))
                    await asyncio.wait((making,), timeout=_TURN_S)
                await making

        await asyncio.gather(*(work() for _ in range(_WORKERS)))

    async def in_turn(self, what: str, work: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return what some work comes to, when it is its turn."""
        async with self._turns:
            return await self._timed(what, work)

    async def _timed(self, what: str, work: Callable[[], Awaitable[bytes]]) -> bytes:
        start = perf_counter()
        try:
            return await work()
        finally:
            self._observe(what, perf_counter() - start)

    async def _document(self, recipe: Recipe) -> bytes:
        """Return what a recipe makes when it is its turn, for which it waits however long.

        Raises:
            TimeoutError: It takes too long.
        """
        async with self._turns:
            task = asyncio.ensure_future(self._timed("document", recipe.make))
            try:
                await asyncio.wait((task,), timeout=_TURN_S)
            except asyncio.CancelledError:
                task.cancel()
                raise
        return await asyncio.wait_for(task, _PATIENCE_S - _TURN_S)

    async def _make(self, entry: Entry) -> Made:
        recipe = entry.recipe
        retry_at: float | None = None
        instead: Hashable = None
        try:
            data = await self._document(recipe)
            made = Made(await sha512(data), data)
            entry.reported = ""
        except Exception as error:  # whatever it is must not take the index with it
            reason, is_wrong = _reason(error), isinstance(error, InvalidOpenAPI)
            _report(entry, reason, error)
            if recipe.hash and not is_wrong:  # it is there, and another one must not pass for it
                raise DocumentUnavailable(entry.key, reason) from error
            made, instead = await self._instead(recipe, reason)
            if not is_wrong:
                retry_at = asyncio.get_running_loop().time() + _RETRY_S
        self._known.learn(entry, made.hash, made.failure, retry_at, instead)
        return made

    async def _instead(self, recipe: Recipe, reason: str) -> tuple[Made, Hashable]:
        """Return the document in place of one that cannot be made, and its fingerprint."""
        if recipe.fallback is None:
            return Made("", b"", reason), None
        try:
            fallback = recipe.fallback(reason)
            data = await self._document(fallback)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("cannot make the document in place of another")
            return Made("", b"", reason), None
        return Made(await sha512(data), data, reason), fallback.fingerprint


def _reason(error: Exception) -> str:
    """Return what clients are told; of what is unexpected the log says more."""
    if isinstance(error, InvalidOpenAPI):
        return str(error)[:_MAX_REASON]
    return _TOO_LATE if isinstance(error, TimeoutError) else _UNKNOWN_REASON


def _report(entry: Entry, reason: str, error: Exception) -> None:
    """Log a failure once, not at every time that it is tried again."""
    if entry.reported == reason:
        return
    entry.reported = reason
    log = _log.bind(document=entry.key, error=str(error) or type(error).__name__)
    if isinstance(error, InvalidOpenAPI):
        log.warning("an OpenAPI document cannot be made")
    elif isinstance(error, DiscoveryError | TimeoutError):
        log.warning("an OpenAPI document could not be had")
    else:
        log.error("an OpenAPI document could not be had", exc_info=error)
