"""Creates, checks, upgrades and opens the file of a SQLite store, and translates its errors."""

import contextlib
import errno
import fcntl
import os
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

from apidiscovery_service.store import StoreDamaged, StoreFull, StoreRefused, StoreUnavailable

# application_id in the header of the file: "APID".
APPLICATION_ID = 0x41504944

# user_version of the file; a greater one is of a newer release.
SCHEMA_VERSION = 2

# The first version, without checksums of entries.
WITHOUT_CHECKSUMS = 1

# Timeout of a write for the write of another process.
_BUSY_TIMEOUT_S = 5.0

# Pause between attempts to lock a file exclusively.
_LOCK_PAUSE_S = 0.02

# Size of the write-ahead log after a burst of writes.
_LOG_LIMIT_BYTES = 16 * 1024 * 1024

_CHECKSUM = "checksum INTEGER NOT NULL DEFAULT -1"

_SCHEMA = f"""
    BEGIN;
    CREATE TABLE changes (revision INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL);
    CREATE TABLE entries (
        key TEXT NOT NULL UNIQUE,
        value BLOB NOT NULL,
        revision INTEGER NOT NULL,
        created INTEGER NOT NULL,
        lease INTEGER,
        {_CHECKSUM}
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

# All statements are ours: an SQL error means that the tables are not ours.
_DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_CONSTRAINT,
)
_FORBIDDEN = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
)
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

# No space for the index of the write-ahead log, which is a file beside.
_NO_SPACE_FOR_INDEX = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)

_NO_TEXT = "Could not decode to UTF-8"  # sqlite3's message for text that is not UTF-8
DAMAGED_ADVICE = "restore a backup to that path, or move the file away to begin anew"
_FORBIDDEN_ADVICE = "let the user of this process write the file and its folder"


def create(path: Path) -> None:
    """Create the file atomically with all its tables; another process may be faster."""
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


def check(path: Path) -> int:
    """Check a file before the first write; return its format.

    Raises:
        StoreRefused: It is of another program, newer, or damaged.
    """
    if not path.is_file():
        raise StoreRefused(f"{path}: is not a file; name a file for the store")
    if path.stat().st_size == 0:
        raise StoreRefused(f"{path}: is empty, which the store never leaves; {DAMAGED_ADVICE}")
    with contextlib.closing(_open_to_read(path)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise StoreRefused(
                f"{path}: is a SQLite database of another program (application_id {application:#x},"
                f" wanted {APPLICATION_ID:#x}); name another file"
            )
        if version not in (SCHEMA_VERSION, WITHOUT_CHECKSUMS):
            raise StoreRefused(
                f"{path}: has format {version}, this release reads {SCHEMA_VERSION};"
                " run the release that wrote it, or name another file"
            )
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise StoreDamaged(f"{path}: is damaged: {verdict}; {DAMAGED_ADVICE}")
        return int(version)


def upgrade(path: Path) -> None:
    """Add checksums to all entries.

    Raises:
        StoreRefused: A server of an older release, which writes no checksums, has the file open.
    """
    with _upgrade_lock(path.parent):
        _upgrade_alone(path, time.monotonic() + _BUSY_TIMEOUT_S)


@contextlib.contextmanager
def _upgrade_lock(folder: Path) -> Generator[None]:
    """Let processes upgrade one after the other."""
    # Not the file: closing it would release the locks of SQLite on it in this process.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _upgrade_alone(path: Path, deadline: float) -> None:
    while not _has_checksums(path):
        with contextlib.closing(_connect(path, "rw")) as connection:
            try:
                # Another process of this release may upgrade too.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("BEGIN EXCLUSIVE")
                _add_checksums(connection)
                connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                if _code(error) & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() > deadline:
                    raise StoreRefused(
                        f"{path}: has format {WITHOUT_CHECKSUMS} and is in use by a server of an"
                        " older release; stop that, so that the file can be brought to format"
                        f" {SCHEMA_VERSION}"
                    ) from None
        time.sleep(_LOCK_PAUSE_S)


def _has_checksums(path: Path) -> bool:
    with contextlib.closing(_connect(path, "ro")) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return bool(version != WITHOUT_CHECKSUMS)


def _add_checksums(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != WITHOUT_CHECKSUMS:
        return
    connection.execute(f"ALTER TABLE entries ADD COLUMN {_CHECKSUM}")
    connection.create_function("checksum_of", 5, checksum_of, deterministic=True)
    connection.execute(
        "UPDATE entries SET checksum = checksum_of(key, value, revision, created, lease)"
    )
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def checksum_of(
    key: object, value: object, revision: object, created: object, lease: object
) -> int:
    """Return the checksum of an entry; after damage its fields may have any type."""
    beside = zlib.crc32(repr((key, revision, created, lease)).encode(errors="backslashreplace"))
    return zlib.crc32(value if isinstance(value, bytes) else repr(value).encode(), beside)


def open_file(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Return a connection, and whether it has an exclusive lock because the disk is full."""
    try:
        return _connect_ready(path), False
    except sqlite3.OperationalError as error:
        if _code(error) not in _NO_SPACE_FOR_INDEX:
            raise
    return _connect_ready(path, alone=True), True


def _open_to_read(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "ro")
    try:
        connection.execute("PRAGMA application_id").fetchone()
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if _code(error) not in _NO_SPACE_FOR_INDEX:
            raise
        return _connect_ready(path, alone=True)
    return connection


def _connect_ready(path: Path, *, alone: bool = False) -> sqlite3.Connection:
    """Return a connection that reads and writes.

    Args:
        path: The file.
        alone: Lock the file exclusively. Then the index of the write-ahead log is in memory, and a
            file that no other process has open can be read although the disk is full.
    """
    connection = _connect(path, "rw")
    try:
        if alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        _make_ready(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_ready(path: Path, connection: sqlite3.Connection) -> None:
    mode = _enter_wal(connection, time.monotonic() + _BUSY_TIMEOUT_S)
    if mode != "wal":
        raise StoreRefused(f"{path}: journal_mode is {mode}, it must be wal")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT_BYTES}")
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()


def _enter_wal(connection: sqlite3.Connection, deadline: float) -> str:
    """Return the journal mode of the file, after an attempt to make it WAL.

    A backup by VACUUM INTO is in another mode. SQLite does not wait when two connections change it
    at the same time, but refuses both.
    """
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if _code(error) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_PAUSE_S)
        else:
            return str(mode)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
    )


def store_error(
    path: Path, error: sqlite3.Error | UnicodeDecodeError
) -> StoreRefused | StoreUnavailable:
    """Return the error of the store for an error of SQLite, with the file and advice."""
    code = _code(error) & 0xFF
    # A name in the file that is not UTF-8 makes the message of SQLite undecodable too.
    is_no_text = isinstance(error, UnicodeDecodeError) or str(error).startswith(_NO_TEXT)
    if code in _DAMAGED or is_no_text:
        return StoreDamaged(f"{path}: is damaged or no SQLite database: {error}; {DAMAGED_ADVICE}")
    if code in _FORBIDDEN:
        return StoreRefused(f"{path}: {error}; {_FORBIDDEN_ADVICE}")
    if _code(error) in _NO_SPACE_FOR_INDEX or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return no_space(path, str(error))
    return StoreUnavailable(f"{path}: {error}")


def _code(error: Exception) -> int:
    # Errors of the sqlite3 module itself have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)


def no_space(path: Path, what: str) -> StoreFull:
    """Return the error for a full disk."""
    return StoreFull(f"no space left on device: {path}: {what}; make room on its file system")


def _is_full(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
