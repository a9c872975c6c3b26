"""Makes documents, a few at a time, and each once for concurrent callers."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.once import Once
from apidiscovery_service.openapi.entries import DocumentEntry, Known
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.recipe import Recipe

# Told what was made, such as `document`, and the seconds it took.
Observer: TypeAlias = Callable[[str, float], None]

_log = structlog.get_logger(__name__)

# More at a time is not quicker, for most of the work holds the interpreter's lock.
_AT_ONCE = 2

# Documents that are made or waited for at a time for the index.
_WORKERS = 16

# A document that takes longer probably waits for something, and gives up its turn.
_TURN_S = 1.0

# The largest documents take a second.
_TIMEOUT_S = 30.0

# After a failure to read; an invalid document is not tried again.
_RETRY_S = 60.0
_UNKNOWN_REASON = "the document could not be read"
_TOO_LATE = "the document took too long"
_MAX_REASON = 1000


class DocumentUnavailable(DiscoveryError):
    """A document should exist, but neither it nor its fallback can be made."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"the OpenAPI document of {key} is not available: {reason}")
        self.key = key


@dataclass(frozen=True, slots=True)
class Made:
    """A document.

    Attributes:
        hash: Upper-case hex SHA-512 of `data`; empty when no document could be made.
        failure: Why the fallback was made, or nothing; empty when nothing failed.
    """

    hash: str
    data: bytes
    failure: str = ""


async def _sha512(data: bytes) -> str:
    """Return the upper-case hex SHA-512, which takes 60 ms for the largest documents."""
    return (await asyncio.to_thread(hashlib.sha512, data)).hexdigest().upper()


class Making:
    """Makes documents and notes their hashes."""

    def __init__(self, known: Known, observe: Observer) -> None:
        self._known = known
        self._observe = observe
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._finding_slots = asyncio.Semaphore(_AT_ONCE)
        self._once: Once[tuple[DocumentEntry, bool], Made] = Once()

    async def make(self, entry: DocumentEntry) -> Made:
        """Return the document of an entry, or its fallback when it cannot be made.

        Raises:
            DocumentUnavailable: Its hash is known, and it cannot be made now.
        """
        if entry.failure and entry.hash:  # not to be retried yet
            return await self._once.run((entry, True), lambda: self._fallback_of(entry))
        return await self._once.run((entry, False), lambda: self._make(entry))

    async def _fallback_of(self, entry: DocumentEntry) -> Made:
        made, _ = await self._fallback(entry.recipe, entry.failure)
        return made

    async def again(self, entry: DocumentEntry) -> None:
        """Retry a document that failed; its fallback is served meanwhile."""
        await self._once.run((entry, False), lambda: self._make(entry))

    async def find(self, entries: Iterable[DocumentEntry]) -> None:
        """Make documents to learn their hashes; requested documents go before."""
        todo = iter(entries)

        async def work() -> None:
            for entry in todo:
                async with self._finding_slots:
                    if entry not in self._known.unknown:
                        continue
                    making = asyncio.create_task(self.make(entry))
                    await asyncio.wait((making,), timeout=_TURN_S)
                await making

        await asyncio.gather(*(work() for _ in range(_WORKERS)))

    async def in_turn(self, what: str, work: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the result of some work, which waits for its turn."""
        async with self._slots:
            return await self._timed(what, work)

    async def _timed(self, what: str, work: Callable[[], Awaitable[bytes]]) -> bytes:
        start = perf_counter()
        try:
            return await work()
        finally:
            self._observe(what, perf_counter() - start)

    async def _document(self, recipe: Recipe) -> bytes:
        """Return what a recipe makes; the wait for its turn is not limited.

        Raises:
            TimeoutError: It takes too long.
        """
        async with self._slots:
            task = asyncio.ensure_future(self._timed("document", recipe.make))
            try:
                await asyncio.wait((task,), timeout=_TURN_S)
            except asyncio.CancelledError:
                task.cancel()
                raise
        return await asyncio.wait_for(task, _TIMEOUT_S - _TURN_S)

    async def _make(self, entry: DocumentEntry) -> Made:
        recipe = entry.recipe
        retry_at: float | None = None
        instead: Hashable = None
        try:
            data = await self._document(recipe)
            made = Made(await _sha512(data), data)
            entry.reported = ""
        except Exception as error:  # no failure of a document may fail the index
            reason, is_invalid = _reason(error), isinstance(error, InvalidOpenAPI)
            _report(entry, reason, error)
            if recipe.hash and not is_invalid:  # it exists: a fallback must not replace it
                raise DocumentUnavailable(entry.key, reason) from error
            made, instead = await self._fallback(recipe, reason)
            if not is_invalid:
                retry_at = asyncio.get_running_loop().time() + _RETRY_S
        self._known.learn(entry, made.hash, made.failure, retry_at, instead)
        return made

    async def _fallback(self, recipe: Recipe, reason: str) -> tuple[Made, Hashable]:
        """Return the fallback of a document that cannot be made, and its fingerprint."""
        if recipe.fallback is None:
            return Made("", b"", reason), None
        try:
            fallback = recipe.fallback(reason)
            data = await self._document(fallback)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("cannot make the document in place of another")
            return Made("", b"", reason), None
        return Made(await _sha512(data), data, reason), fallback.fingerprint


def _reason(error: Exception) -> str:
    """Return the reason for clients; the log has the details of unexpected errors."""
    if isinstance(error, InvalidOpenAPI):
        return str(error)[:_MAX_REASON]
    return _TOO_LATE if isinstance(error, TimeoutError) else _UNKNOWN_REASON


def _report(entry: DocumentEntry, reason: str, error: Exception) -> None:
    """Log a failure once, not at every retry."""
    if entry.reported == reason:
        return
    entry.reported = reason
    log = _log.bind(document=entry.key, error=str(error) or type(error).__name__)
    if isinstance(error, InvalidOpenAPI):
        log.warning("an OpenAPI document cannot be made")
    elif isinstance(error, DiscoveryError | TimeoutError):
        log.warning("an OpenAPI document could not be read")
    else:
        log.error("an OpenAPI document could not be read", exc_info=error)
