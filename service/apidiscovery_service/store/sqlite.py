"""A store in a file of this machine, which several processes may use at once."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store import (
    NEWS_EVERY_S,
    Batch,
    Change,
    Entry,
    Guards,
    Lease,
    Listing,
    StoreUnavailable,
)
from apidiscovery_service.store.keys import check_size
from apidiscovery_service.store.sqlite_file import SqliteFile
from apidiscovery_service.waiting import Wakeup, happens_within

# Interval of the search for changes by other processes while there are watches: it looks at the
# time of the last write to the log. Reading the file each time took 2 % of a core.
_POLL_EVERY_S = 0.1

# Interval at which the file is read though that time is the same: two writes within one tick of the
# kernel's clock have the same time, and leases end without a write.
_READ_EVERY_S = 0.2

# The number of own writes that watches report without a query.
_RECENT = 16

_T = TypeVar("_T")


class _RecentWrites:
    """The last writes of this process, if no other process has written in between.

    Watches report them while the only thread of the file is busy with further writes: of eight
    concurrent writers the changes are visible in half the time.
    """

    def __init__(self, history: int) -> None:
        self._entries: deque[Entry] = deque(maxlen=min(_RECENT, history))

    def add(self, entry: Entry) -> None:
        if self._entries and self._entries[-1].revision != entry.revision - 1:
            self._entries.clear()
        self._entries.append(entry)

    def changes(self, prefix: str, after: int) -> Batch | None:
        """Return the changes after a revision; None when these writes are not all of them."""
        if not self._entries or not (
            self._entries[0].revision - 1 <= after < self._entries[-1].revision
        ):
            return None
        latest = {
            e.key: e for e in self._entries if e.revision > after and e.key.startswith(prefix)
        }
        in_order = sorted(latest.values(), key=lambda entry: entry.revision)
        changes = tuple(Change(entry.key, entry) for entry in in_order)
        return Batch(changes, self._entries[-1].revision)


class SqliteStore:
    """A store in one SQLite file; all SQL runs in a thread of its own."""

    def __init__(
        self, path: Path, thread: ThreadPoolExecutor, file: SqliteFile, history: int
    ) -> None:
        self._log = Path(f"{path}-wal")
        self._thread = thread
        self._file = file
        self._wakeup = Wakeup()
        self._recent = _RecentWrites(history)
        self._watches = 0
        self._polling: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(
        cls, path: Path, *, history: int = 10_000, clock: Callable[[], float] = time.time
    ) -> Self:
        """Open a file; create it if it does not exist.

        Args:
            path: Missing folders are created, readable for this user alone.
            history: The number of changes that watches can go back.
            clock: Returns seconds since 1970, for the expiry of leases.

        Raises:
            StoreRefused: The file is damaged, of a newer release, of another program, or not
                writable; it is unchanged.
            StoreUnavailable: The disk fails.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        loop = asyncio.get_running_loop()
        try:
            file = await loop.run_in_executor(thread, SqliteFile, path, history, clock)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(path, thread, file, history)

    async def get(self, key: str) -> Entry | None:
        return await self._run(lambda: self._file.get(key))

    async def list(self, prefix: str) -> Listing:
        return await self._run(lambda: self._file.list(prefix))

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        check_size(key, value)
        number = self._number(lease)
        entry = await self._run(lambda: self._file.put(key, value, expected, guard, number))
        self._recent.add(entry)
        self._wakeup.ring()
        return entry

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        return await self.write(lambda file: file.delete(key, expected, guard))

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        with self._polling_others():
            yielded_at = time.monotonic()
            while not self._closed:
                changed = self._wakeup.next()
                batch = self._recent.changes(prefix, after) or await self._changes(prefix, after)
                if batch is None:
                    return
                after = batch.revision
                silent_s = NEWS_EVERY_S - (time.monotonic() - yielded_at)
                if batch.changes or not await happens_within(silent_s, changed.wait()):
                    yield batch
                    yielded_at = time.monotonic()

    async def lease(self, ttl_s: float) -> Lease:
        number = await self.write(lambda file: file.begin_lease(ttl_s))
        return _SqliteLease(self, number, ttl_s)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._wakeup.ring()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
        self._thread.shutdown()

    async def _run(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def write(self, work: Callable[[SqliteFile], _T]) -> _T:
        """Return the result of work in the file's thread, and wake all watches."""
        result = await self._run(lambda: work(self._file))
        self._wakeup.ring()
        return result

    async def _changes(self, prefix: str, after: int) -> Batch | None:
        """Return the changes, or None once the store is closed."""
        try:
            return await self._run(lambda: self._file.changes(prefix, after))
        except StoreUnavailable:
            if self._closed:
                return None
            raise

    def _number(self, lease: Lease | None) -> int | None:
        if lease is None:
            return None
        if isinstance(lease, _SqliteLease) and lease.store is self:
            return lease.number
        raise ValueError("the lease is of another store")

    @contextlib.contextmanager
    def _polling_others(self) -> Generator[None]:
        """Poll for changes by other processes while there are watches."""
        self._watches += 1
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            self._watches -= 1
            if not self._watches:
                self._polling.cancel()
                self._polling = None

    async def _poll(self) -> None:
        seen, written, read_at = -1, None, 0.0
        while not self._closed:
            await asyncio.sleep(_POLL_EVERY_S)
            last, now = _last_write(self._log), time.monotonic()
            if last == written and now < read_at + _READ_EVERY_S:
                continue
            written, read_at = last, now
            try:
                revision = await self._run(self._file.revision)
            except DiscoveryError:
                revision = -1  # each watch gets the error itself
            if revision != seen or revision < 0:
                seen = revision
                self._wakeup.ring()


def _last_write(log: Path) -> tuple[int, int] | None:
    """Return the time and the size of a log after its last write; None when there is no log."""
    try:
        status = log.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


class _SqliteLease:
    """A lease, which is a row of the file."""

    def __init__(self, store: SqliteStore, number: int, ttl_s: float) -> None:
        self.store = store
        self.number = number
        self._ttl_s = ttl_s

    @property
    def ttl_s(self) -> float:
        return self._ttl_s

    async def keep_alive(self) -> bool:
        return await self.store.write(lambda file: file.keep_alive(self.number))

    async def revoke(self) -> None:
        await self.store.write(lambda file: file.end_lease(self.number))
