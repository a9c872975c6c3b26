"""Claims: one of the processes that share a store does a piece of background work.

A claim is a key under the lease of its holder. The holder counts the lease from the moment before
it asked the store to renew it, so

    end of the work < end of the lease as the holder counts it <= end of the lease in the store

and no other process can begin while the work still runs. If a holder is delayed even so, such
as a suspended process, the guard that its work passes to every write makes those writes fail.
"""

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

import structlog

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store import (
    Batch,
    Conflict,
    Entry,
    Fenced,
    Guard,
    Lease,
    Store,
)
from apidiscovery_service.store.following import follow
from apidiscovery_service.waiting import Wakeup

Work: TypeAlias = Callable[[Guard], Awaitable[None]]
Listener: TypeAlias = Callable[[Sequence[str]], None]

PREFIX = "claims/"

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")

# In /proc/PID/stat, after the command in parentheses: proc(5), field 22.
_START_FIELD = 22 - 3

# The share of the time to live after which the holder stops by itself: two attempts to renew the
# lease have failed by then, and the work has the rest of the time to end.
_STOPS_AFTER = 0.8

# Timeout of the revocation at the end; without it others wait for the lease to expire.
_REVOKE_TIMEOUT_S = 2.0

_log = structlog.get_logger(__name__)


def is_dead(value: bytes) -> bool:
    """Return whether the process of a claim has certainly ended, though its lease may not have.

    Args:
        value: The value of the claim.
    """
    try:
        claim: object = json.loads(value)
    except ValueError:
        return False
    holder = cast("dict[object, object]", claim).get("holder") if isinstance(claim, dict) else None
    return isinstance(holder, str) and has_ended(holder)


def own_holder() -> str:
    """Return a globally unique name of this process.

    It has the host, the process, and the scope in which process numbers can be compared, so that a
    server of this machine that was killed need not wait for its own lease to end.
    """
    pid = os.getpid()
    return " ".join((socket.gethostname(), _scope(), str(pid), _started(pid), secrets.token_hex(4)))


def has_ended(holder: str) -> bool:
    """Return whether a process has certainly ended; False where that is unknown from here."""
    parts = holder.split(" ")
    if len(parts) != 5 or not parts[2].isdecimal():  # noqa: PLR2004 - those of `own_holder`
        return False
    _, scope, pid, started, _ = parts
    # Process numbers are unique under one kernel and in one namespace only: each container of a
    # machine has a process 1.
    return bool(_scope()) and scope == _scope() and _started(int(pid)) != started


def _scope() -> str:
    """Return the boot of the kernel and the namespace of process numbers; empty if unknown."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
        return f"{boot}/{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return the start of a process in ticks since boot; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[_START_FIELD]


class _Session:
    """One lease and the claims under it.

    Attributes:
        lease: The lease.
        value: The value of its claims, unique to the session.
        renewed_at: Monotonic time just before the last successful renewal.
        ended: Set when no work may be done under it any more.
    """

    def __init__(self, lease: Lease, holder: str, begun: float) -> None:
        self.lease = lease
        self.value = json.dumps({"holder": holder, "session": secrets.token_hex(8)}).encode()
        self.ended = asyncio.Event()
        self.renewed_at = begun

    @property
    def stops(self) -> float:
        """The monotonic time at which the session ends unless it is renewed."""
        return self.renewed_at + self.lease.ttl_s * _STOPS_AFTER


class Claims:
    """Competes for the claims of a store.

    Args:
        store: Shared with the other processes.
        holder: Name of this process, see `own_holder`.
        ttl_s: Time after a crash of a holder until another process takes over.
        pause_s: Pause after a failed attempt.
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
        self._cancelled: set[asyncio.Task[None]] = set()
        self._session: _Session | None = None
        self._running = False
        # The claims in the store as of a revision.
        self._claims: dict[str, Entry] = {}
        self._revision = -1
        # What `is_dead` has answered since the last news, by the value of claims: one process may
        # hold thousands, and everyone who waits for one of them asks.
        self._dead: dict[bytes, bool] = {}
        self._news = Wakeup()
        self._listeners: list[Listener] = []

    def register(self, name: str, work: Work) -> None:
        """Compete for a claim; also while running.

        Args:
            name: Unique in this process.
            work: Runs while the claim is held, and is cancelled when it is lost. It passes the
                guard to all its writes. It is started again after a failure and a pause; when it
                returns, the claim is kept.
        """
        if name in self._works:
            raise ValueError(f"{name!r} is registered already")
        self._works[name] = work
        if self._running:
            self._start(name)

    def unregister(self, name: str) -> None:
        """Cancel the work, release the claim and no longer compete for it."""
        del self._works[name]
        if task := self._tasks.pop(name, None):
            task.cancel()
            self._cancelled.add(task)
            task.add_done_callback(self._cancelled.discard)

    def on_change(self, listener: Listener) -> None:
        """Call a listener with the names of claims that may have changed, of any process.

        It is also called with none, as news that the store is there.
        """
        self._listeners.append(listener)

    def held_since(self, name: str) -> int | None:
        """Return the revision since which a process holds a claim; None if none does."""
        entry = self._claims.get(PREFIX + name)
        return None if entry is None or self._is_dead(entry) else entry.created

    async def run(self) -> None:
        """Compete until cancelled; then cancel all work, and let others take over at once."""
        self._running = True
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._follow())
            try:
                for name in self._works:
                    self._start(name)
                while True:
                    await self._run_session()
            finally:
                self._running = False
                await self._end((following, *self._tasks.values(), *self._cancelled))
                self._tasks.clear()
                await self._revoke()

    def _start(self, name: str) -> None:
        self._tasks[name] = asyncio.create_task(self._compete_always(name, self._works[name]))

    # The lease.

    async def _run_session(self) -> None:
        """Get a lease and keep it for as long as it lasts; pause if there is none."""
        begun = time.monotonic()
        try:
            # A lease granted later than that may have expired already.
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
        await self._keep_alive(session)
        session.ended.set()
        _log.warning("lease of claims lost, their work is stopped")

    async def _keep_alive(self, session: _Session) -> None:
        """Renew the lease; return when it has ended, or might end soon."""
        step = session.lease.ttl_s / 3
        next_at = time.monotonic() + step
        while True:
            await asyncio.sleep(max(0.0, min(next_at, session.stops) - time.monotonic()))
            next_at += step
            left_s = session.stops - time.monotonic()
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(left_s):
                    if not await self._renew(session):
                        return
            except TimeoutError:
                return

    async def _renew(self, session: _Session) -> bool:
        asked = time.monotonic()
        try:
            if not await session.lease.keep_alive():
                return False
        except DiscoveryError as error:
            _log.warning("lease of claims not renewed", error=str(error))
        else:
            session.renewed_at = asked
        return True

    async def _revoke(self) -> None:
        session, self._session = self._session, None
        if session is None or session.ended.is_set():
            return
        session.ended.set()
        with suppress(DiscoveryError, TimeoutError):
            async with asyncio.timeout(_REVOKE_TIMEOUT_S):
                await session.lease.revoke()

    # The claims of all processes.

    async def load(self) -> int:
        """Read the claims of all processes; return the revision of the store.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        listing = await self._store.list(PREFIX)
        entries: dict[str, Entry | None] = dict.fromkeys(self._claims)
        self._apply(entries | {entry.key: entry for entry in listing.entries}, listing.revision)
        return listing.revision

    async def _follow(self) -> None:
        async def take(batch: Batch) -> None:
            self._apply({change.key: change.entry for change in batch.changes}, batch.revision)

        await follow(self._store, PREFIX, self.load, take, pause_s=self._pause_s)

    def _apply(self, changes: Mapping[str, Entry | None], revision: int) -> None:
        for key, entry in changes.items():
            if entry is None:
                self._claims.pop(key, None)
            else:
                self._claims[key] = entry
        self._revision = revision
        self._dead.clear()
        self._news.ring()
        for listener in self._listeners:
            listener([key.removeprefix(PREFIX) for key in changes])

    # One claim.

    async def _compete_always(self, name: str, work: Work) -> None:
        while True:
            await self._news.until(self._has_session)
            session = self._session
            if session is None:
                continue
            try:
                await self._within(session, self._compete(session, name, work))
            except Exception:  # noqa: BLE001 - an error must stop neither this claim nor others
                _log.exception("claim failed, trying again", claim=name)
                await asyncio.sleep(self._pause_s)

    def _has_session(self) -> bool:
        return self._session is not None and not self._session.ended.is_set()

    async def _within(self, session: _Session, doing: Coroutine[Any, Any, None]) -> None:
        """Run something until it is done or the session ends."""
        task = asyncio.create_task(doing)
        ended = asyncio.create_task(session.ended.wait())
        try:
            await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            await self._end((task, ended))

    async def _compete(self, session: _Session, name: str, work: Work) -> None:
        """Acquire the claim whenever it is free, and work while it is held."""
        key = PREFIX + name
        try:
            while True:
                entry = await self._acquire(session, key)
                if entry is None:
                    await asyncio.sleep(self._pause_s)
                else:
                    await self._work(name, work, entry)
        except asyncio.CancelledError:
            await self._release(session, key)
            raise

    async def _acquire(self, session: _Session, key: str) -> Entry | None:
        """Return the claim once this session has it; None when the store fails."""
        await self._news.until(lambda: self._is_free(session, key))
        try:
            await self._clear(session, key)
            return await self._put(session, key)
        except Conflict as conflict:
            return await self._adopt(session, key, conflict.revision)
        except DiscoveryError as error:
            _log.warning("claim not acquired, trying again", claim=key, error=str(error))
            return None

    async def _put(self, session: _Session, key: str) -> Entry:
        """Write the claim, and finish a write once begun: it might happen after a release."""
        putting = asyncio.ensure_future(
            self._store.put(key, session.value, expected=0, lease=session.lease)
        )
        try:
            return await asyncio.shield(putting)
        except asyncio.CancelledError:
            if not self._is_active(session):
                putting.cancel()
            await asyncio.gather(putting, return_exceptions=True)
            raise

    async def _adopt(self, session: _Session, key: str, revision: int) -> Entry | None:
        """Return the claim if this session has it, although the answer to its write was lost."""
        await self._news.until(lambda: self._revision >= revision)
        entry = self._claims.get(key)
        return entry if entry is not None and entry.value == session.value else None

    def _is_free(self, session: _Session, key: str) -> bool:
        entry = self._claims.get(key)
        return entry is None or entry.value == session.value or self._is_dead(entry)

    def _is_dead(self, claim: Entry) -> bool:
        if claim.value not in self._dead:
            self._dead[claim.value] = is_dead(claim.value)
        return self._dead[claim.value]

    async def _clear(self, session: _Session, key: str) -> None:
        """Remove the claim of a process that has ended before its lease."""
        entry = self._claims.get(key)
        if entry is not None and entry.value != session.value:
            await self._store.delete(key, expected=entry.revision)

    async def _work(self, name: str, work: Work, entry: Entry) -> None:
        """Work until the claim is lost or the work fails."""
        _log.debug("claim held", claim=name)
        working = asyncio.ensure_future(work(Guard(entry.key, entry.created)))
        losing = asyncio.create_task(self._news.until(lambda: self._is_lost(entry)))
        try:
            await asyncio.wait((working, losing), return_when=asyncio.FIRST_COMPLETED)
            if working.done() and not self._has_failed(name, working):
                await losing
        finally:
            await self._end((working, losing))
        if not self._is_lost(entry):
            await asyncio.sleep(self._pause_s)

    def _is_lost(self, entry: Entry) -> bool:
        now = self._claims.get(entry.key)
        # A store that was restored from a backup may reuse revisions for other content.
        is_same = now is not None and (now.created, now.value) == (entry.created, entry.value)
        return self._revision >= entry.revision and not is_same

    def _has_failed(self, name: str, working: "asyncio.Future[None]") -> bool:
        error = None if working.cancelled() else working.exception()
        if isinstance(error, Fenced):
            _log.warning("claim lost to another holder", claim=name, error=str(error))
        elif error is not None:
            _log.error("work of a claim failed, it begins again", claim=name, exc_info=error)
        return working.cancelled() or error is not None

    async def _release(self, session: _Session, key: str) -> None:
        """Let others take over while the lease goes on for other claims."""
        while self._is_active(session):
            try:
                entry = await self._store.get(key)
                if entry is not None and entry.value == session.value:
                    await self._store.delete(key, expected=entry.revision)
            except Conflict:
                return
            except DiscoveryError as error:
                _log.warning("claim not released, trying again", claim=key, error=str(error))
                await asyncio.sleep(self._pause_s)
            else:
                return

    def _is_active(self, session: _Session) -> bool:
        return self._running and not session.ended.is_set()

    async def _end(self, tasks: "tuple[asyncio.Future[Any], ...]") -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
