"""Who does a piece of background work: one of all the processes that share a store.

A claim is a key under the lease of its holder. The holder counts the lease from the moment before
it asked the store to prolong it, so

    end of the work < end of the lease as the holder counts it <= end of the lease in the store

and nobody else can begin while the work still runs. Should a holder be held up all the same, a
stopped process say, the guard that its work passes to every write keeps it from writing.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias, cast

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store import (
    Batch,
    Change,
    Conflict,
    Entry,
    Fenced,
    Guard,
    Lease,
    Store,
)
from apidiscovery_service.store.following import follow
from apidiscovery_service.store.holders import is_gone
from apidiscovery_service.store.wakeup import Wakeup

Work: TypeAlias = Callable[[Guard], Awaitable[None]]

PREFIX = "claims/"

# Which part of the time to live passes until the holder stops by itself: two attempts to prolong
# have failed by then, and the work has the rest to end.
_HELD_FOR = 0.8

# How long taking leave may take: whoever waits for the claim waits for the lease then.
_LEAVE_S = 2.0

_log = structlog.get_logger(__name__)


def is_dead(claim: Entry) -> bool:
    """Tell whether the holder of a claim has certainly ended, though its lease may not have."""
    try:
        value: object = json.loads(claim.value)
    except ValueError:
        return False
    holder = cast("dict[object, object]", value).get("holder") if isinstance(value, dict) else None
    return isinstance(holder, str) and is_gone(holder)


class _Session:
    """The life of one lease.

    Attributes:
        value: What claims under it say; no two sessions say the same.
        ended: Set when nothing may be done under it any more.
    """

    def __init__(self, lease: Lease, holder: str, begun: float) -> None:
        self.lease = lease
        self.value = json.dumps({"holder": holder, "session": secrets.token_hex(8)}).encode()
        self.ended = asyncio.Event()
        self._prolonged = begun

    @property
    def stops(self) -> float:
        """When to end by itself, on the clock of the event loop."""
        return self._prolonged + self.lease.ttl_s * _HELD_FOR

    def prolong(self, asked: float) -> None:
        self._prolonged = asked


class Claims:
    """Takes part in the claims of a store.

    Args:
        store: Shared with the others.
        holder: Name of this process, for whoever looks into the store.
        ttl_s: How long after the end of a holder without farewell another one begins.
        pause_s: Between an attempt that failed and the next.
    """

    def __init__(
        self, store: Store, holder: str, ttl_s: float = 5.0, *, pause_s: float = 1.0
    ) -> None:
        self._store = store
        self._holder = holder
        self._ttl_s = ttl_s
        self._pause_s = pause_s
        self._works: dict[str, Work] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._session: _Session | None = None
        self._running = False
        self._held: set[str] = set()
        # The claims in the store, as far as they have been heard of.
        self._claimed: dict[str, Entry] = {}
        self._heard = -1
        self._news = Wakeup()

    @property
    def held(self) -> frozenset[str]:
        """The names of what is held and worked at here."""
        return frozenset(self._held)

    def register(self, name: str, work: Work) -> None:
        """Take part in a claim, also while running.

        Args:
            name: Unique in this process.
            work: Runs while the claim is held, and is cancelled when it is lost. It passes the
                guard to all that it writes. When it fails it begins again after a pause; when it
                returns it is done, and the claim is kept.
        """
        if name in self._works:
            raise ValueError(f"{name!r} is registered already")
        self._works[name] = work
        if self._running:
            self._begin(name)

    def unregister(self, name: str) -> None:
        """Take no part any more; work under way is cancelled, and the claim then given up."""
        del self._works[name]
        if task := self._tasks.pop(name, None):
            task.cancel()
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def run(self) -> None:
        """Take part until cancelled; then end all work, and let the others take over at once."""
        self._running = True
        following = asyncio.create_task(self._follow())
        try:
            for name in self._works:
                self._begin(name)
            while True:
                await self._live()
        finally:
            self._running = False
            await self._end((following, *self._tasks.values(), *self._leaving))
            self._tasks.clear()
            await self._take_leave()

    def _begin(self, name: str) -> None:
        self._tasks[name] = asyncio.create_task(self._take_part(name, self._works[name]))

    # The lease.

    async def _live(self) -> None:
        """Keep a lease for as long as it lasts; without one, pause."""
        begun = time.monotonic()
        try:
            # One that comes too late would have ended before it was known.
            async with asyncio.timeout(self._ttl_s):
                lease = await self._store.lease(self._ttl_s)
        except (DiscoveryError, TimeoutError) as error:
            why = str(error) or f"no answer within {self._ttl_s:g} s"
            _log.warning("no lease for claims, trying again", error=why)
            await asyncio.sleep(self._pause_s)
            return
        session = _Session(lease, self._holder, begun)
        self._session = session
        self._news.ring()
        await self._keep(session)
        session.ended.set()
        _log.warning("lease of claims lost, their work is stopped")

    async def _keep(self, session: _Session) -> None:
        """Return when the lease has ended, or might end before long."""
        step = session.lease.ttl_s / 3
        next_at = time.monotonic() + step
        while True:
            await self._sleep_until(min(next_at, session.stops))
            next_at += step
            left_s = session.stops - time.monotonic()
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(left_s):
                    if not await self._prolong(session):
                        return
            except TimeoutError:
                return

    async def _prolong(self, session: _Session) -> bool:
        asked = time.monotonic()
        try:
            if not await session.lease.keep_alive():
                return False
        except DiscoveryError as error:
            _log.warning("lease of claims not prolonged", error=str(error))
        else:
            session.prolong(asked)
        return True

    async def _sleep_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - time.monotonic()))

    async def _take_leave(self) -> None:
        session, self._session = self._session, None
        if session is None or session.ended.is_set():
            return
        session.ended.set()
        with suppress(DiscoveryError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await session.lease.revoke()

    # What is heard of the claims of all.

    async def _follow(self) -> None:
        async def load() -> int:
            listing = await self._store.list(PREFIX)
            self._claimed = {entry.key: entry for entry in listing.entries}
            self._hear((), listing.revision)
            return listing.revision

        async def take(batch: Batch) -> None:
            self._hear(batch.changes, batch.revision)

        await follow(self._store, PREFIX, load, take, pause_s=self._pause_s)

    def _hear(self, changes: tuple[Change, ...], revision: int) -> None:
        for change in changes:
            if change.entry is None:
                self._claimed.pop(change.key, None)
            else:
                self._claimed[change.key] = change.entry
        self._heard = revision
        self._news.ring()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that is so after a session began or claims have changed."""
        while True:
            news = self._news.next()
            if holds():
                return
            await news.wait()

    # One claim.

    async def _take_part(self, name: str, work: Work) -> None:
        while True:
            await self._until(self._has_session)
            session = self._session
            if session is None:
                continue
            try:
                await self._within(session, self._compete(session, name, work))
            except Exception:  # noqa: BLE001 - one claim must not end for ever, nor the others
                _log.exception("claim failed, trying again", claim=name)
                await asyncio.sleep(self._pause_s)

    def _has_session(self) -> bool:
        return self._session is not None and not self._session.ended.is_set()

    async def _within(self, session: _Session, doing: Coroutine[Any, Any, None]) -> None:
        """Do something until it is done or the session ends."""
        task = asyncio.create_task(doing)
        ended = asyncio.create_task(session.ended.wait())
        try:
            await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            await self._end((task, ended))

    async def _compete(self, session: _Session, name: str, work: Work) -> None:
        """Hold the claim whenever nobody else does, and work meanwhile."""
        key = PREFIX + name
        try:
            while True:
                entry = await self._acquire(session, key)
                if entry is None:
                    await asyncio.sleep(self._pause_s)
                else:
                    await self._hold(name, work, entry)
        except asyncio.CancelledError:
            await self._give_up(session, key)
            raise

    async def _acquire(self, session: _Session, key: str) -> Entry | None:
        """Return the claim once it is ours; None when the store fails."""
        await self._until(lambda: self._is_free(session, key))
        try:
            await self._clear(session, key)
            return await self._put(session, key)
        except Conflict as conflict:
            return await self._adopt(session, key, conflict.revision)
        except DiscoveryError as error:
            _log.warning("no claim, trying again", claim=key, error=str(error))
            return None

    async def _put(self, session: _Session, key: str) -> Entry:
        """Put to the end, or it might happen after the claim was given up."""
        putting = asyncio.ensure_future(
            self._store.put(key, session.value, expected=0, lease=session.lease)
        )
        try:
            return await asyncio.shield(putting)
        except asyncio.CancelledError:
            if not self._lives_on(session):
                putting.cancel()
            await asyncio.gather(putting, return_exceptions=True)
            raise

    async def _adopt(self, session: _Session, key: str, revision: int) -> Entry | None:
        """Return the claim if it is ours though the store failed to say so when it was put."""
        await self._until(lambda: self._heard >= revision)
        entry = self._claimed.get(key)
        return entry if entry is not None and entry.value == session.value else None

    def _is_free(self, session: _Session, key: str) -> bool:
        entry = self._claimed.get(key)
        return entry is None or entry.value == session.value or is_dead(entry)

    async def _clear(self, session: _Session, key: str) -> None:
        """Remove the claim of a process that has ended, whose lease has not yet."""
        entry = self._claimed.get(key)
        if entry is not None and entry.value != session.value:
            await self._store.delete(key, expected=entry.revision)

    async def _hold(self, name: str, work: Work, entry: Entry) -> None:
        """Work until the claim is somebody else's or the work fails."""
        _log.debug("claim held", claim=name)
        self._held.add(name)
        working = asyncio.ensure_future(work(Guard(entry.key, entry.created)))
        losing = asyncio.create_task(self._until(lambda: self._is_lost(entry)))
        try:
            await asyncio.wait((working, losing), return_when=asyncio.FIRST_COMPLETED)
            if working.done() and not self._has_failed(name, working):
                await losing
        finally:
            await self._end((working, losing))
            self._held.discard(name)
        if not self._is_lost(entry):
            await asyncio.sleep(self._pause_s)

    def _is_lost(self, entry: Entry) -> bool:
        now = self._claimed.get(entry.key)
        # Where a store is restored from a backup, revisions stand for something else again.
        is_same = now is not None and (now.created, now.value) == (entry.created, entry.value)
        return self._heard >= entry.revision and not is_same

    def _has_failed(self, name: str, working: "asyncio.Future[None]") -> bool:
        error = None if working.cancelled() else working.exception()
        if isinstance(error, Fenced):
            _log.warning("claim lost to another holder", claim=name, error=str(error))
        elif error is not None:
            _log.error("work of a claim failed, it begins again", claim=name, exc_info=error)
        return working.cancelled() or error is not None

    async def _give_up(self, session: _Session, key: str) -> None:
        """Let others take over, when the lease lives on without us."""
        while self._lives_on(session):
            try:
                entry = await self._store.get(key)
                if entry is not None and entry.value == session.value:
                    await self._store.delete(key, expected=entry.revision)
            except Conflict:
                return
            except DiscoveryError as error:
                _log.warning("claim not given up, trying again", claim=key, error=str(error))
                await asyncio.sleep(self._pause_s)
            else:
                return

    def _lives_on(self, session: _Session) -> bool:
        return self._running and not session.ended.is_set()

    async def _end(self, tasks: "tuple[asyncio.Future[Any], ...]") -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
