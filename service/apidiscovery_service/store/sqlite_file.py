"""The SQLite file of a store, used by one thread, without an event loop.

Several processes may have the same file open. Every change has its own revision, its row number in
the table `changes`; SQLite never uses a number twice. Written data survives kill -9 and power loss:
WAL with synchronous=FULL, https://sqlite.org/pragma.html.

Each entry has a checksum, as SQLite has none, so that damage is noticed. Reading needs no space on
the disk: only writes fail when it is full.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import structlog

from apidiscovery_service.store import (
    Batch,
    Change,
    Compacted,
    Entry,
    Fenced,
    Guards,
    Listing,
    StoreDamaged,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from apidiscovery_service.store.keys import check_conditions, prefix_end
from apidiscovery_service.store.sqlite_opening import (
    DAMAGED_ADVICE,
    NO_SPACE,
    WITHOUT_CHECKSUMS,
    check,
    checksum_of,
    create,
    no_space,
    open_file,
    store_error,
    upgrade,
)

# The columns of an entry; the condition that its lease has not expired.
_COLUMNS = "entries.key, entries.value, entries.revision, entries.created, entries.lease, checksum"
_ALIVE = "(lease IS NULL OR lease NOT IN (SELECT id FROM leases WHERE ends <= ?))"

_log = structlog.get_logger(__name__)


class SqliteFile:
    """An open file; created, used and closed in one thread.

    Args:
        path: Created if it does not exist, readable for this user alone.
        history: The number of changes that watches can go back.
        clock: Returns seconds since 1970, for the expiry of leases.

    Raises:
        StoreRefused: The file is damaged, of a newer release, of another program, or not writable;
            it is unchanged.
        StoreUnavailable: The disk fails.
    """

    def __init__(
        self, path: Path, history: int = 10_000, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._history = history
        self._clock = clock
        # When the leases of this process end, by its clock.
        self._leases: dict[int, float] = {}
        with self._translated_errors():
            create(path)
            if check(path) == WITHOUT_CHECKSUMS:
                upgrade(path)
            self._connection, self._is_alone = open_file(path)
            self._identity = _identity(path)
            self._verify()
        with contextlib.suppress(StoreFull), self._writing():
            pass  # refuses a file that cannot be written

    def close(self) -> None:
        with self._translated_errors():
            self._connection.close()

    def get(self, key: str) -> Entry | None:
        with self._reading():
            return self._entry(key)

    def list(self, prefix: str) -> Listing:
        bounds, values = _within(prefix)
        query = f"SELECT {_COLUMNS} FROM entries WHERE {bounds} AND {_ALIVE} ORDER BY key"  # noqa: S608 - constants
        with self._reading():
            rows = self._connection.execute(query, (*values, self._clock()))
            entries = map(self._checked, rows)
            return Listing(tuple(entries), self._revision())

    def put(
        self,
        key: str,
        value: bytes,
        expected: int | None,
        guard: Guards,
        lease: int | None,
    ) -> Entry:
        with self._writing():
            before = check_conditions(key, expected, guard, self._entry)
            if lease is not None and not self._is_alive(lease):
                raise Fenced(f"{key}: {self._why_ended(lease)}")
            revision = self._record(key)
            entry = Entry(key, value, revision, before.created if before else revision)
            self._connection.execute(
                "INSERT INTO entries (key, value, revision, created, lease, checksum)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
                " value = excluded.value, revision = excluded.revision, lease = excluded.lease,"
                " checksum = excluded.checksum",
                (*(row := (key, value, revision, entry.created, lease)), checksum_of(*row)),
            )
            return entry

    def delete(self, key: str, expected: int | None, guard: Guards) -> bool:
        with self._writing():
            if check_conditions(key, expected, guard, self._entry) is None:
                return False
            self._remove(key)
            return True

    def changes(self, prefix: str, after: int) -> Batch:
        """Return the changes below a prefix after a revision, in order; may be empty.

        Raises:
            Compacted: See `Store.watch`.
        """
        bounds, values = _within(prefix, "changes.key")
        query = (
            f"SELECT {_COLUMNS}, changes.key, max(changes.revision) AS last"  # noqa: S608 - constants
            f" FROM changes LEFT JOIN entries ON entries.key = changes.key AND {_ALIVE}"
            f" WHERE changes.revision > ? AND {bounds} GROUP BY changes.key ORDER BY last"
        )
        with self._reading():
            revision, forgotten = self._revision(), self._forgotten()
            if not forgotten <= after <= revision:
                raise Compacted(f"revision {after} is not within {forgotten} and {revision}")
            if after == revision:
                return Batch((), revision)
            rows = self._connection.execute(query, (self._clock(), after, *values))
            return Batch(
                tuple(
                    Change(key, None if row[0] is None else self._checked(tuple(row)))
                    for *row, key, _ in rows
                ),
                revision,
            )

    def revision(self) -> int:
        """Return the revision of the last change, after expired keys are removed."""
        with self._reading():
            return self._revision()

    def begin_lease(self, ttl_s: float) -> int:
        with self._writing():
            ends = self._clock() + ttl_s
            cursor = self._connection.execute(
                "INSERT INTO leases (ttl_s, ends) VALUES (?, ?)", (ttl_s, ends)
            )
        lease = _row_id(cursor)
        self._leases[lease] = ends
        return lease

    def keep_alive(self, lease: int) -> bool:
        with self._writing():
            now = self._clock()
            row = self._connection.execute(
                "UPDATE leases SET ends = ? + ttl_s WHERE id = ? RETURNING ends", (now, lease)
            ).fetchone()
        if row is None:
            _log.warning("lease of the store lost", reason=self._why_ended(lease))
            self._leases.pop(lease, None)
            return False
        (self._leases[lease],) = row
        return True

    def end_lease(self, lease: int) -> None:
        with self._writing():
            self._end_lease(lease)
        self._leases.pop(lease, None)

    def _verify(self) -> None:
        """Check each entry, so that damage is noticed at the start."""
        for row in self._connection.execute(f"SELECT {_COLUMNS} FROM entries"):  # noqa: S608 - a constant
            self._checked(row)

    def _checked(self, row: tuple[Any, ...]) -> Entry:
        """Return the entry of a row.

        Raises:
            StoreDamaged: Its checksum is wrong.
        """
        *written, checksum = row
        key, value, revision, created, _ = written
        if checksum_of(*written) != checksum:
            raise StoreDamaged(
                f"{self._path}: is damaged: {key!r} is not as it was written; {DAMAGED_ADVICE}"
            )
        return Entry(key, value, revision, created)

    def _entry(self, key: str) -> Entry | None:
        row = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entries WHERE key = ? AND {_ALIVE}",  # noqa: S608 - constants
            (key, self._clock()),
        ).fetchone()
        return self._checked(row) if row else None

    def _record(self, key: str) -> int:
        """Record a change, and drop the oldest ones; return the revision."""
        revision = _row_id(self._connection.execute("INSERT INTO changes (key) VALUES (?)", (key,)))
        self._connection.execute(
            "DELETE FROM changes WHERE revision <= ?", (revision - self._history,)
        )
        return revision

    def _remove(self, key: str) -> None:
        self._record(key)
        self._connection.execute("DELETE FROM entries WHERE key = ?", (key,))

    def _revision(self) -> int:
        (last,) = self._connection.execute("SELECT max(revision) FROM changes").fetchone()
        return last or 0

    def _forgotten(self) -> int:
        (first,) = self._connection.execute("SELECT min(revision) FROM changes").fetchone()
        return first - 1 if first else 0

    def _is_alive(self, lease: int) -> bool:
        found = self._connection.execute("SELECT 1 FROM leases WHERE id = ?", (lease,))
        return found.fetchone() is not None

    def _why_ended(self, lease: int) -> str:
        left_s = self._leases.get(lease, 0.0) - self._clock()
        if left_s <= 0:
            return "the lease has ended"
        return (
            f"the lease has ended {left_s:.1f} s before its time by the clock of this process;"
            " see that the clocks of all servers that share this file agree"
        )

    def _expired(self) -> tuple[int, ...]:
        now = self._clock()
        rows = self._connection.execute("SELECT id FROM leases WHERE ends <= ?", (now,))
        return tuple(lease for (lease,) in rows)

    def _end_lease(self, lease: int) -> None:
        rows = self._connection.execute(
            "SELECT key FROM entries WHERE lease = ? ORDER BY key", (lease,)
        )
        for (key,) in rows.fetchall():
            self._remove(key)
        self._connection.execute("DELETE FROM leases WHERE id = ?", (lease,))

    @contextlib.contextmanager
    def _reading(self) -> Generator[None]:
        """Read at one moment; keys of expired leases are not seen.

        They are removed if that is possible now, so that watches report it.
        """
        with self._translated_errors():
            if self._expired():
                with (
                    contextlib.suppress(sqlite3.OperationalError),
                    self._transaction("IMMEDIATE"),
                ):
                    self._end_leases()
            with self._transaction("DEFERRED"):
                yield

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        """Write all or nothing."""
        if self._is_alone:
            self._reopen()
        with self._translated_errors(), self._transaction("IMMEDIATE"):
            # A write to a file that was unlinked would be acknowledged and lost.
            if _identity(self._path) != self._identity:
                raise StoreRefused(f"{self._path}: removed or replaced while in use, restart")
            self._end_leases()
            yield

    def _reopen(self) -> None:
        """Reopen the file without an exclusive lock, if there is space for that now."""
        with self._translated_errors():
            self._connection.close()
            self._connection, self._is_alone = open_file(self._path)

    def _end_leases(self) -> None:
        # After the clock was set back leases must not live for hours.
        now = self._clock()
        self._connection.execute(
            "UPDATE leases SET ends = ? + ttl_s WHERE ends > ? + ttl_s", (now, now)
        )
        for lease in self._expired():
            self._end_lease(lease)

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Generator[None]:
        self._connection.execute(f"BEGIN {kind}")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Raise errors of SQLite as errors of the store, with the file and advice."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise store_error(self._path, error) from error
        except OSError as error:
            if error.errno in NO_SPACE:
                raise no_space(self._path, str(error.strerror)) from error
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)


def _within(prefix: str, column: str = "key") -> tuple[str, tuple[str, ...]]:
    """Return an SQL condition for keys with a prefix, and its values."""
    end = prefix_end(prefix)
    if not end:
        return f"{column} >= ?", (prefix,)
    return f"{column} >= ? AND {column} < ?", (prefix, end)


def _row_id(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        raise AssertionError("an INSERT has a row")
    return cursor.lastrowid
