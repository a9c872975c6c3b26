"""The SQLite file of a history, used by one thread, without an event loop.

Contents are addressed by their hash, so each is there once, compressed. Changes name the content
before and after. The state at a time is, for each name, what the last change until then led to; so
compaction forgets a change only when a later one, which is old enough too, replaces it.

A commit survives kill -9; after a power loss the last ones may be missing, but none is half there
(WAL with synchronous=NORMAL, https://sqlite.org/pragma.html#pragma_synchronous).
"""

import contextlib
import hashlib
import itertools
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
import zstandard
from apidiscovery_formats.openapi.keys import prefix_of

from apidiscovery_service.history.model import (
    EVERYTHING,
    Change,
    ChangeFilter,
    ChangeKind,
    ContentDamaged,
    HistoryError,
    NewChange,
    NothingRecorded,
    NotRecorded,
    Retention,
    from_milliseconds,
    milliseconds,
)

# user_version of the file; another one is of another release.
_VERSION = 1
_APPLICATION_ID = 0x41504948  # "APIH"
_BUSY_TIMEOUT_S = 5.0
_LEVEL = 9
_MAX_CONTENT_BYTES = 256 * 2**20
_HASH_DIGITS = 32

# One step of compaction takes a few milliseconds.
_STEP_ROWS = 100
_STEP_PAGES = 64

_SCHEMA = f"""
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    BEGIN;
    CREATE TABLE IF NOT EXISTS contents (hash TEXT PRIMARY KEY, packed BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time INTEGER NOT NULL,  -- milliseconds since 1970
        cluster TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        cause TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT NOT NULL,
        etag_before TEXT NOT NULL,
        etag_after TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS by_name ON changes (cluster, kind, name, id, after);
    CREATE INDEX IF NOT EXISTS by_cluster ON changes (cluster);
    CREATE INDEX IF NOT EXISTS by_time ON changes (time);
    CREATE INDEX IF NOT EXISTS by_before ON changes (before) WHERE before != '';
    CREATE INDEX IF NOT EXISTS by_after ON changes (after) WHERE after != '';
    CREATE TABLE IF NOT EXISTS kept_since (time INTEGER NOT NULL);
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_VERSION};
    COMMIT;
"""
_COLUMNS = "id, time, cluster, kind, name, cause, before, after, etag_before, etag_after"

# Each name by one look into the index; DISTINCT would read all of it.
_ALL_CLUSTERS = """
    WITH RECURSIVE seen(one) AS (
        SELECT min(cluster) FROM changes
        UNION ALL
        SELECT (SELECT min(cluster) FROM changes WHERE cluster > seen.one) FROM seen
        WHERE seen.one IS NOT NULL
    )
    SELECT one FROM seen WHERE one IS NOT NULL
"""
# What each content of a cluster was after a change, by one look into the index for each.
_STATE = """
    WITH RECURSIVE seen(kind_of, name_of) AS (
        SELECT * FROM (SELECT kind, name FROM changes WHERE cluster = ?1
            ORDER BY kind, name LIMIT 1)
        UNION ALL
        SELECT following.kind, following.name FROM seen, changes AS following
        WHERE following.id = coalesce(
            (SELECT id FROM changes WHERE cluster = ?1 AND kind = seen.kind_of
                AND name > seen.name_of ORDER BY name LIMIT 1),
            (SELECT id FROM changes WHERE cluster = ?1 AND kind > seen.kind_of
                ORDER BY kind, name LIMIT 1))
    )
    SELECT kind_of, name_of, (SELECT after FROM changes WHERE cluster = ?1
        AND kind = kind_of AND name = name_of AND id <= ?2 ORDER BY id DESC LIMIT 1)
    FROM seen
"""
# Rows of one statement: between two statements the thread waits for its turn to run Python, and a
# new fleet has tens of thousands of rows.
_ROWS_AT_ONCE = 500
_INSERT = (
    "INSERT INTO changes"
    " (time, cluster, kind, name, cause, before, after, etag_before, etag_after) VALUES {rows}"
)
# Lets the last change of each name lead to another content, if it led to the one before that.
_COMPLETE = """
    WITH new(cluster, kind, name, before, after, etag_after) AS (VALUES {rows})
    UPDATE changes SET after = new.after, etag_after = new.etag_after FROM new
    WHERE changes.after = new.before AND changes.id = (SELECT id FROM changes AS last
        WHERE last.cluster = new.cluster AND last.kind = new.kind AND last.name = new.name
        ORDER BY id DESC LIMIT 1)
    RETURNING cluster, kind, name, id
"""
_LISTED = "(SELECT value FROM json_each(?))"
_FIRST_ID_SINCE = (
    "coalesce((SELECT id FROM changes WHERE time >= ? ORDER BY time, id LIMIT 1),"
    " 9223372036854775807)"
)
_OF_GROUPS = (
    "(kind = 'Group' AND name IN (SELECT value FROM json_each(?)) OR kind = 'OpenAPI' AND EXISTS"
    " (SELECT 1 FROM json_each(?) WHERE substr(name, 1, length(value)) = value))"
)

_log = structlog.get_logger(__name__)


def hash_of(content: bytes) -> str:
    """Return the hash by which a content is found, but for OpenAPI documents."""
    return hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]


def _has_hash(content: bytes, key: str) -> bool:
    """Return whether a content has a hash; those of OpenAPI documents are the ones they state."""
    if len(key) == _HASH_DIGITS:
        return hash_of(content) == key
    return hashlib.sha512(content).hexdigest().upper() == key


class HistoryFile:
    """An open file; created, used and closed in one thread.

    Args:
        path: Created if it does not exist, readable for this user alone; None for memory.
        clock: Returns seconds since 1970.

    Raises:
        HistoryError: It cannot be opened.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._path = path
        self._packer = zstandard.ZstdCompressor(_LEVEL)
        self._unpacker = zstandard.ZstdDecompressor()
        try:
            self._connection = _opened(path)
        except sqlite3.Error as error:
            if path is None or not _is_damaged(error):
                raise HistoryError(f"history {path}: {error}") from error
            self._connection = self._begun_anew(path, error)

    @staticmethod
    def _begun_anew(path: Path, error: sqlite3.Error) -> sqlite3.Connection:
        """Move a damaged file away and begin another: no cluster needs its history to be served."""
        aside = path.with_name(f"{path.name}.damaged-{int(time.time())}")
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        _log.error("history is damaged; a new one begins", moved_to=str(aside), reason=str(error))
        try:
            return _opened(path)
        except sqlite3.Error as again:
            raise HistoryError(f"history {path}: {again}") from again

    def close(self) -> None:
        self._connection.close()

    def latest(self) -> dict[str, dict[tuple[ChangeKind, str], str]]:
        """Return, by cluster, the hash of each content that is there now, by kind and name."""
        found: dict[str, dict[tuple[ChangeKind, str], str]] = {}
        keys: dict[tuple[ChangeKind, str], tuple[ChangeKind, str]] = {}
        with self._translated():
            for cluster, kind, name, after, _ in self._connection.execute(
                "SELECT cluster, kind, name, after, max(id) FROM changes"
                " GROUP BY cluster, kind, name"
            ):
                if after:
                    key = ChangeKind(kind), name
                    # A thousand clusters have mostly the same.
                    key = keys.setdefault(key, key)
                    found.setdefault(cluster, {})[key] = sys.intern(after)
        return found

    def append(
        self, changes: Sequence[NewChange], contents: Mapping[str, Callable[[], bytes]]
    ) -> tuple[Change, ...]:
        """Write changes and the contents that are new, all or none.

        Args:
            changes: The changes.
            contents: Make contents that may be new, by their hashes. A new fleet has so many that
                only their packed forms are in memory together.

        Returns:
            The changes with their ids, but for those that complete the last one.

        Raises:
            HistoryError: Nothing was written.
        """
        packed = {
            key: self._packer.compress(contents[key]()) for key in sorted(self.missing(contents))
        }
        with self._writing():
            (last,) = self._connection.execute("SELECT max(time) FROM changes").fetchone()
            now = max(int(self._clock() * 1000), last or 0)
            self._connection.executemany(
                "INSERT OR IGNORE INTO contents (hash, packed) VALUES (?, ?)", packed.items()
            )
            completed = self._completed([new for new in changes if new.completes])
            added = [new for new in changes if (new.cluster, new.kind, new.name) not in completed]
            self._execute_rows(_INSERT, [(now, *_of(new)) for new in added])
            first = self.last_id() - len(added) + 1
        return tuple(
            Change(number, from_milliseconds(now), *_of(new))
            for number, new in enumerate(added, first)
        )

    def _completed(self, changes: Sequence[NewChange]) -> set[tuple[str, str, str]]:
        """Let last changes lead to other contents; return cluster, kind and name of these."""
        rows = [(c.cluster, c.kind, c.name, c.before, c.after, c.etag_after) for c in changes]
        found = self._execute_rows(_COMPLETE, rows)
        # Some led back to what was there before, as after a start without known states.
        self._connection.execute(
            f"DELETE FROM changes WHERE before = after AND id IN {_LISTED}",  # noqa: S608 - constant
            (json.dumps([number for *_, number in found]),),
        )
        self._forget_unused({new.before for new in changes})
        return {(str(cluster), str(kind), str(name)) for cluster, kind, name, _ in found}

    def _execute_rows(
        self, statement: str, rows: Sequence[tuple[object, ...]]
    ) -> list[tuple[object, ...]]:
        """Execute a statement, which has `{rows}`, with some rows at once; return its results."""
        found: list[tuple[object, ...]] = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            places = ", ".join([f"({', '.join('?' * len(some[0]))})"] * len(some))
            values = tuple(itertools.chain.from_iterable(some))
            found += self._connection.execute(statement.format(rows=places), values)
        return found

    def missing(self, keys: Iterable[str]) -> frozenset[str]:
        """Return the hashes for which there is no content."""
        with self._translated():
            rows = self._connection.execute(
                "SELECT value FROM json_each(?)"
                " WHERE NOT EXISTS (SELECT 1 FROM contents WHERE hash = value)",
                (json.dumps(list(keys)),),
            )
            return frozenset(key for (key,) in rows)

    def content(self, key: str) -> bytes:
        """Return a content by its hash.

        Raises:
            ContentDamaged: It does not have that hash any more, or is missing.
        """
        with self._translated():
            row = self._connection.execute(
                "SELECT packed FROM contents WHERE hash = ?", (key,)
            ).fetchone()
        if row is None:
            raise ContentDamaged(f"content {key} is missing")
        try:
            content = self._unpacker.decompress(row[0], _MAX_CONTENT_BYTES)
        except zstandard.ZstdError as error:
            raise ContentDamaged(f"content {key} cannot be unpacked: {error}") from None
        if not _has_hash(content, key):
            raise ContentDamaged(f"content {key} does not match its hash")
        return content

    def changes(
        self,
        only: ChangeFilter = EVERYTHING,
        *,
        before: int | None = None,
        after: int = 0,
        limit: int = 1000,
        newest_first: bool = True,
    ) -> tuple[Change, ...]:
        """Return changes.

        Args:
            only: Which.
            before: Only those with a smaller id.
            after: Only those with a greater id.
            limit: How many at most.
            newest_first: Their order; else the oldest first.
        """
        with self._translated():
            condition, arguments = self._selected(only, before, after)
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM changes WHERE {condition}"  # noqa: S608 - constants
                f" ORDER BY id {'DESC' if newest_first else 'ASC'} LIMIT ?",
                (*arguments, limit),
            )
            return tuple(map(_change, rows))

    def following(
        self, only: ChangeFilter, after: int, limit: int = 1000
    ) -> tuple[tuple[Change, ...], int]:
        """Return changes after an id, the oldest first, and the id to continue with."""
        last = self.last_id()  # before they are read: another process may write in between
        found = self.changes(only, after=after, limit=limit, newest_first=False)
        is_all = len(found) < limit
        return found, max(found[-1].id if found else after, last if is_all else 0)

    def change(self, number: int) -> Change | None:
        """Return a change by its id; None if there is none."""
        with self._translated():
            row = self._connection.execute(
                f"SELECT {_COLUMNS} FROM changes WHERE id = ?",  # noqa: S608 - constants
                (number,),
            ).fetchone()
        return None if row is None else _change(row)

    def last_id(self) -> int:
        """Return the greatest id that any change has or had; 0 for none."""
        with self._translated():
            row = self._connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'changes'"
            ).fetchone()
        return int(row[0]) if row else 0

    def _selected(
        self, only: ChangeFilter, before: int | None, after: int
    ) -> tuple[str, tuple[object, ...]]:
        """Return the condition of a query and its arguments."""
        parts: list[tuple[str, tuple[object, ...]]] = [("id > ?", (after,))]
        if before is not None:
            parts.append(("id < ?", (before,)))
        # Ids rise with time, so a time is a range of ids.
        if only.since is not None:
            parts.append(
                (f"id >= {_FIRST_ID_SINCE}", (milliseconds(only.since),)),
            )
        if only.until is not None:
            parts.append((f"id < {_FIRST_ID_SINCE}", (milliseconds(only.until),)))
        clusters = self._clusters(only)
        if clusters is not None:
            parts.append((f"cluster IN {_LISTED}", (json.dumps(clusters),)))
        if only.kinds:
            parts.append((f"kind IN {_LISTED}", (json.dumps(only.kinds),)))
        if only.groups is not None:
            prefixes = [f"{prefix_of(group)}/" for group in only.groups]
            parts.append((_OF_GROUPS, (json.dumps(only.groups), json.dumps(prefixes))))
        condition = " AND ".join(text for text, _ in parts)
        return condition, tuple(value for _, values in parts for value in values)

    def _clusters(self, only: ChangeFilter) -> list[str] | None:
        """Return the names of the clusters that a filter selects; None for all."""
        if only.may_read is None:
            return None if only.clusters is None else list(only.clusters)
        named = self._connection.execute(_ALL_CLUSTERS) if only.clusters is None else ()
        names = (name for (name,) in named) if only.clusters is None else only.clusters
        return [name for name in names if only.may_read(name)]

    def state_at(self, cluster: str, when: datetime) -> dict[tuple[ChangeKind, str], str]:
        """Return the hash of each content of a cluster at a time, by kind and name.

        Raises:
            NotRecorded: There is nothing of the cluster, or not from so long ago.
        """
        moment = milliseconds(when)
        with self._translated():
            (begun,) = self._connection.execute(
                "SELECT (SELECT time FROM changes WHERE cluster = ? ORDER BY id LIMIT 1)",
                (cluster,),
            ).fetchone()
            kept = self._kept_since()
            since = None if begun is None else max(begun, kept)
            if since is None or moment < since:
                raise _not_recorded(cluster, when, since)
            (last,) = self._connection.execute(
                "SELECT max(id) FROM changes WHERE time <= ?", (moment,)
            ).fetchone()
            rows = self._connection.execute(_STATE, (cluster, last))
            return {(ChangeKind(kind), name): after for kind, name, after in rows if after}

    def size_bytes(self) -> int:
        """Return how much of the file is in use."""
        with self._translated():
            pages, free, size = (
                self._connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int(pages - free) * int(size)

    def compact(self, keep: Retention) -> bool:
        """Forget a few changes that are too old or too many; return whether there is more to do.

        Raises:
            HistoryError: It cannot be written.
        """
        cutoff = int(self._clock() * 1000) - keep.age // timedelta(milliseconds=1)
        if self.size_bytes() > keep.max_bytes:
            cutoff = max(cutoff, self._oldest_tenth())
        with self._writing():
            forgotten = self._connection.execute(
                "DELETE FROM changes WHERE id IN (SELECT id FROM changes AS old WHERE time < ?1"
                " AND (after = '' AND NOT EXISTS (SELECT 1 FROM changes AS earlier WHERE"
                " earlier.cluster = old.cluster AND earlier.kind = old.kind"
                " AND earlier.name = old.name AND earlier.id < old.id)"
                # One remains, so that it is known that the cluster was there, and was empty.
                " AND EXISTS (SELECT 1 FROM changes AS other WHERE"
                " other.cluster = old.cluster AND other.id > old.id AND other.time <= ?1)"
                " OR EXISTS (SELECT 1 FROM changes AS later WHERE"
                " later.cluster = old.cluster AND later.kind = old.kind"
                " AND later.name = old.name AND later.id > old.id AND later.time <= ?1))"
                " ORDER BY id LIMIT ?2) RETURNING before, after",
                (cutoff, _STEP_ROWS),
            ).fetchall()
            if forgotten and cutoff > self._kept_since():
                self._connection.execute("DELETE FROM kept_since")
                self._connection.execute("INSERT INTO kept_since (time) VALUES (?)", (cutoff,))
            self._forget_unused({key for row in forgotten for key in row if key})
        with self._translated():
            self._connection.execute(f"PRAGMA incremental_vacuum({_STEP_PAGES})").fetchall()
        return bool(forgotten)

    def _forget_unused(self, keys: Iterable[str]) -> None:
        """Remove contents that no change names: they come with one, and go with the last one."""
        self._connection.execute(
            "DELETE FROM contents WHERE hash IN (SELECT value FROM json_each(?))"
            " AND NOT EXISTS (SELECT 1 FROM changes WHERE before = hash AND before != '')"
            " AND NOT EXISTS (SELECT 1 FROM changes WHERE after = hash AND after != '')",
            (json.dumps(list(keys)),),
        )

    def _oldest_tenth(self) -> int:
        """Return the time until which a tenth of all changes came, the last one excluded."""
        with self._translated():
            (number,) = self._connection.execute("SELECT count(*) FROM changes").fetchone()
            row = self._connection.execute(
                "SELECT time + 1 FROM changes ORDER BY id LIMIT 1 OFFSET ?", (number // 10,)
            ).fetchone()
        return int(row[0]) if row else 0

    def _kept_since(self) -> int:
        row = self._connection.execute("SELECT time FROM kept_since").fetchone()
        return int(row[0]) if row else 0

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HistoryError(f"history {self._path or 'in memory'}: {error}") from error


def _opened(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    # Transactions are begun and ended by hand.
    connection = sqlite3.connect(path or ":memory:", timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        _check_version(connection, path)
        connection.executescript(_SCHEMA)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("SELECT count(*) FROM kept_since").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: sqlite3.Connection, path: Path | None) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _VERSION):
        message = f"the file has version {version}, this release reads {_VERSION}"
        raise HistoryError(f"history {path}: {message}; move it away to begin another")


def _is_damaged(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _not_recorded(cluster: str, when: datetime, since: int | None) -> NotRecorded:
    what = f"of cluster {cluster}" if cluster else "of what is served here"
    if since is None:
        return NothingRecorded(f"the history has nothing {what}", None)
    begun = from_milliseconds(since)
    message = (
        f"the history {what} begins at {begun:%Y-%m-%dT%H:%M:%SZ}, want it of"
        f" {when:%Y-%m-%dT%H:%M:%SZ}"
    )
    return NotRecorded(message, begun)


def _of(new: NewChange) -> tuple[str, ChangeKind, str, str, str, str, str, str]:
    return (
        new.cluster,
        new.kind,
        new.name,
        new.cause,
        new.before,
        new.after,
        new.etag_before,
        new.etag_after,
    )


def _change(row: tuple[Any, ...]) -> Change:
    number, time_ms, cluster, kind, *rest = row
    return Change(number, from_milliseconds(time_ms), cluster, ChangeKind(kind), *rest)
