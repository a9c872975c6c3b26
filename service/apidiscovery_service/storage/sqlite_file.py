"""A SQLite file of the store, as one thread uses it: nothing here knows the event loop.

Several processes may have the same file open. Every change has a revision of its own, the row
number of its line in the table `changes`; SQLite never gives a number out twice. What stands in the
file survives kill -9 and power loss: WAL with synchronous=FULL, https://sqlite.org/pragma.html.
"""

import contextlib
import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from urllib.parse import quote

from apidiscovery_service.storage import (
    Batch,
    Change,
    Compacted,
    Entry,
    Fenced,
    Guards,
    Listing,
    StoreRefused,
    StoreUnavailable,
)
from apidiscovery_service.storage.keys import check_conditions, prefix_end

# Says whose file it is, in its header: "APID".
APPLICATION_ID = 0x41504944

# Says which tables it has; a file with a greater one was written by a newer release.
SCHEMA_VERSION = 1

# How long a write waits for one of another process.
_BUSY_TIMEOUT_S = 5.0

# What the write-ahead log may keep of the disk after a burst.
_LOG_LIMIT_BYTES = 16 * 1024 * 1024

_SCHEMA = f"""
    BEGIN;
    CREATE TABLE changes (revision INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL);
    CREATE TABLE entries (
        key TEXT NOT NULL UNIQUE,
        value BLOB NOT NULL,
        revision INTEGER NOT NULL,
        created INTEGER NOT NULL,
        lease INTEGER
    );
    CREATE INDEX entries_under_lease ON entries (lease) WHERE lease IS NOT NULL;
    CREATE TABLE leases (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        ttl_s REAL NOT NULL,
        ends REAL NOT NULL  -- seconds since 1970
    );
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {SCHEMA_VERSION};
    COMMIT;
"""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FORBIDDEN = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
)
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_DAMAGED_ADVICE = "restore a backup to that path, or move the file away to begin anew"
_FORBIDDEN_ADVICE = "let the user of this process write the file and its folder"


class SqliteFile:
    """An open file; made, used and closed in one thread.

    Args:
        path: Made, readable for this user alone, when nothing is there.
        history: How many changes are remembered for those who watch.
        clock: Seconds since 1970, by which leases end.

    Raises:
        StoreRefused: It is damaged, of a newer release, of another program, or cannot be written;
            it is left as it was.
        StoreUnavailable: The disk fails.
    """

    def __init__(
        self, path: Path, history: int = 10_000, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._history = history
        self._clock = clock
        with self._errors_told():
            _make(path)
            _check(path)
            self._connection = _connect(path, "rw")
            self._identity = _identity(path)
            self._prepare()

    def close(self) -> None:
        with self._errors_told():
            self._connection.close()

    def get(self, key: str) -> Entry | None:
        with self._reading():
            return self._entry(key)

    def list(self, prefix: str) -> Listing:
        bounds, values = _within(prefix)
        query = f"SELECT key, value, revision, created FROM entries WHERE {bounds} ORDER BY key"  # noqa: S608 - constants
        with self._reading():
            entries = [Entry(*row) for row in self._connection.execute(query, values)]
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
                raise Fenced(f"{key}: the lease has ended")
            revision = self._record(key)
            entry = Entry(key, value, revision, before.created if before else revision)
            self._connection.execute(
                "INSERT INTO entries (key, value, revision, created, lease) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET"
                " value = excluded.value, revision = excluded.revision, lease = excluded.lease",
                (key, value, revision, entry.created, lease),
            )
            return entry

    def delete(self, key: str, expected: int | None, guard: Guards) -> bool:
        with self._writing():
            if check_conditions(key, expected, guard, self._entry) is None:
                return False
            self._remove(key)
            return True

    def changes(self, prefix: str, after: int) -> Batch:
        """Return what has changed below a prefix after a revision, in order; perhaps nothing.

        Raises:
            Compacted: See `Store.watch`.
        """
        bounds, values = _within(prefix, "changes.key")
        query = (
            "SELECT changes.key, value, entries.revision, created, max(changes.revision) AS last"  # noqa: S608 - constants
            " FROM changes LEFT JOIN entries ON entries.key = changes.key"
            f" WHERE changes.revision > ? AND {bounds} GROUP BY changes.key ORDER BY last"
        )
        with self._reading():
            revision, forgotten = self._revision(), self._forgotten()
            if not forgotten <= after <= revision:
                raise Compacted(f"revision {after} is not within {forgotten} and {revision}")
            rows = self._connection.execute(query, (after, *values)) if after < revision else ()
            return Batch(tuple(map(_change, rows)), revision)

    def revision(self) -> int:
        """Return that of the last change, once what has run out is removed."""
        with self._reading():
            return self._revision()

    def begin_lease(self, ttl_s: float) -> int:
        with self._writing():
            cursor = self._connection.execute(
                "INSERT INTO leases (ttl_s, ends) VALUES (?, ?)", (ttl_s, self._clock() + ttl_s)
            )
            return _row_id(cursor)

    def keep_alive(self, lease: int) -> bool:
        with self._writing():
            self._connection.execute(
                "UPDATE leases SET ends = ? + ttl_s WHERE id = ?", (self._clock(), lease)
            )
            return self._is_alive(lease)

    def end_lease(self, lease: int) -> None:
        with self._writing():
            self._end_lease(lease)

    def _prepare(self) -> None:
        # A backup by VACUUM INTO is not in this mode; a file that is stays as it is.
        (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreRefused(f"{self._path}: journal_mode is {mode}, it must be wal")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT_BYTES}")
        with self._writing():
            pass  # so that a file that cannot be written is refused now

    def _entry(self, key: str) -> Entry | None:
        row = self._connection.execute(
            "SELECT key, value, revision, created FROM entries WHERE key = ?", (key,)
        ).fetchone()
        return Entry(*row) if row else None

    def _record(self, key: str) -> int:
        """Give a change its revision, and forget the oldest."""
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

    def _run_out(self) -> tuple[int, ...]:
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
        """Read at one moment, in which no lease has run out and is still there."""
        with self._errors_told():
            if self._run_out():
                with self._transaction("IMMEDIATE"):
                    self._end_leases()
            with self._transaction("DEFERRED"):
                yield

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        """Write all of it or nothing."""
        with self._errors_told(), self._transaction("IMMEDIATE"):
            # Else it would be acknowledged and lost with the file that has no name any more.
            if _identity(self._path) != self._identity:
                raise StoreRefused(f"{self._path}: removed or replaced while in use, restart")
            self._end_leases()
            yield

    def _end_leases(self) -> None:
        # A clock that was set back must not give leases hours to live.
        now = self._clock()
        self._connection.execute(
            "UPDATE leases SET ends = ? + ttl_s WHERE ends > ? + ttl_s", (now, now)
        )
        for lease in self._run_out():
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
    def _errors_told(self) -> Generator[None]:
        """Tell SQLite's errors in our own words, with the file and what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise _told(self._path, error) from error
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from error


def _make(path: Path) -> None:
    """Make the file at once with all its tables; another process may have been faster."""
    if path.exists():
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable for this user alone.
        descriptor, name = tempfile.mkstemp(".new", f".{path.name}.", path.parent)
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            raise
        message = f"{path}: cannot be made: {error.strerror}; {_FORBIDDEN_ADVICE}"
        raise StoreRefused(message) from error
    os.close(descriptor)
    unfinished = Path(name)
    try:
        with contextlib.closing(_connect(unfinished, "rw")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        unfinished.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(path: Path) -> None:
    """Look at a file before anything can be written to it.

    Raises:
        StoreRefused: It is not one of ours, newer, or damaged.
    """
    if not path.is_file():
        raise StoreRefused(f"{path}: is not a file; name a file for the store")
    if path.stat().st_size == 0:
        raise StoreRefused(f"{path}: is empty, which the store never leaves; {_DAMAGED_ADVICE}")
    with contextlib.closing(_connect(path, "ro")) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise StoreRefused(
                f"{path}: is a SQLite database of another program (application_id {application:#x},"
                f" wanted {APPLICATION_ID:#x}); name another file"
            )
        if version != SCHEMA_VERSION:
            raise StoreRefused(
                f"{path}: has format {version}, this release reads {SCHEMA_VERSION};"
                " run the release that wrote it, or name another file"
            )
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise StoreRefused(f"{path}: is damaged: {verdict}; {_DAMAGED_ADVICE}")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
    )


def _told(path: Path, error: sqlite3.Error) -> StoreRefused | StoreUnavailable:
    # Errors of the sqlite3 module itself have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _DAMAGED:
        return StoreRefused(f"{path}: is damaged or no SQLite database: {error}; {_DAMAGED_ADVICE}")
    if code in _FORBIDDEN:
        return StoreRefused(f"{path}: {error}; {_FORBIDDEN_ADVICE}")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"{path}: {error}; make room on its file system")
    return StoreUnavailable(f"{path}: {error}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)


def _within(prefix: str, column: str = "key") -> tuple[str, tuple[str, ...]]:
    """Return a condition for keys that begin with a prefix, and its values."""
    end = prefix_end(prefix)
    if not end:
        return f"{column} >= ?", (prefix,)
    return f"{column} >= ? AND {column} < ?", (prefix, end)


def _change(row: tuple[str, bytes | None, int, int, int]) -> Change:
    key, value, revision, created, _ = row
    return Change(key, None if value is None else Entry(key, value, revision, created))


def _row_id(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        raise AssertionError("an INSERT has a row")
    return cursor.lastrowid
