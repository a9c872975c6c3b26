"""Finds fields by their names and by words of their descriptions, with FTS5 of SQLite in memory.

Source: https://www.sqlite.org/fts5.html.
"""

import re
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from apidiscovery_service.web.search_fields import SchemaFields, Use, joined

MAX_WORDS: Final = 8
MAX_HITS: Final = 40
"""Of fields."""

_MAX_TEXT = 400
# Rows that are looked at for hits that a viewer may see.
_MAX_ROWS = 400
# Rows that are ranked: words such as "the" are nearly everywhere.
_MAX_RANKED = 1500
_WORD = re.compile(r"\w+")
_PATH = re.compile(r"\w+(\.\w+)+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class FieldHit:
    """A field that was found.

    Attributes:
        documents: Those that have it, by hash, with the kinds and paths at which they have it.
        description: The begin of it.
    """

    path: str
    description: str
    documents: Mapping[str, tuple[Use, ...]]


class SearchIndex:
    """The fields of documents. May be called in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        # By the digest of a schema: its first and last row, and who uses it in which document.
        self._places: dict[str, tuple[int, int]] = {}
        self._uses: defaultdict[str, dict[str, tuple[Use, ...]]] = defaultdict(dict)
        self._of_document: dict[str, tuple[str, ...]] = {}
        self._last = 0

    @property
    def documents(self) -> Collection[str]:
        """The hashes of the documents that are in it."""
        return self._of_document.keys()

    def add(self, document: str, schemas: Iterable[SchemaFields]) -> None:
        """Add a document, by its hash; schemas that others have too are stored once."""
        listed = tuple(schemas)
        for schema in listed:  # the lock is free in between for those who search
            with self._lock:
                self._add(document, schema)
        with self._lock:
            self._of_document[document] = tuple(schema.digest for schema in listed)

    def _add(self, document: str, schema: SchemaFields) -> None:
        if schema.digest not in self._places:
            first, self._last = self._last + 1, self._last + len(schema.fields)
            self._places[schema.digest] = first, self._last
            database = self._opened()
            database.execute("BEGIN")
            database.executemany(
                "INSERT INTO fields (rowid, name, words, description, path, owner)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (number, *_row(path, text), schema.digest)
                    for number, (path, text) in enumerate(schema.fields, first)
                ],
            )
            database.execute("COMMIT")
        self._uses[schema.digest][document] = schema.uses

    def remove(self, document: str) -> None:
        """Remove a document, and the schemas that no other has."""
        with self._lock:
            for digest in self._of_document.pop(document, ()):
                users = self._uses[digest]
                users.pop(document, None)
                if not users:
                    del self._uses[digest]
                    rows = self._places.pop(digest)
                    self._opened().execute("DELETE FROM fields WHERE rowid BETWEEN ? AND ?", rows)

    def find(
        self, text: str, documents: Collection[str], keep: Callable[[Use], bool] | None = None
    ) -> list[FieldHit]:
        """Return the fields of some documents that a text finds, the best first.

        Fields with that name come first, then those with its words in their names and paths, then
        those with its words in their descriptions. The last word may be the begin of one.

        Args:
            text: Words, or a path such as `strategy.rollingUpdate`.
            documents: The hashes of those that count.
            keep: Whether a use counts; None for all.
        """
        is_path = _PATH.fullmatch(text.strip()) is not None
        found = words(text.rpartition(".")[2] if is_path else text)
        if not found:
            return []
        end = f".{text.strip().lower()}" if is_path else ""
        hits: dict[tuple[str, str], FieldHit] = {}
        last = " AND ".join([*(f'"{word}"' for word in found[:-1]), f'"{found[-1]}" *'])
        queries = [f'name : "{"".join(found)}"', f"{{name words}} : ({last})"]
        with self._lock:
            for query in [*queries, last]:
                for path, description, owner in self._rows(query):
                    hit = self._hit(path, owner, documents, end)
                    seen = {
                        document: kept
                        for document, uses in hit.items()
                        if (kept := tuple(filter(keep, uses) if keep else uses))
                    }
                    if seen:
                        hits.setdefault((path, owner), FieldHit(path, description, seen))
                    if len(hits) >= MAX_HITS:
                        return list(hits.values())
        return list(hits.values())

    def _rows(self, query: str) -> list[tuple[str, str, str]]:
        if self._database is None:
            return []
        return self._database.execute(
            "SELECT path, description, owner FROM"
            " (SELECT rowid AS number, rank AS place FROM fields WHERE fields MATCH ? LIMIT ?)"
            " CROSS JOIN fields ON fields.rowid = number ORDER BY place LIMIT ?",
            (query, _MAX_RANKED, _MAX_ROWS),
        ).fetchall()

    def _hit(
        self, path: str, owner: str, documents: Collection[str], end: str
    ) -> dict[str, tuple[Use, ...]]:
        """Return where some documents have a field, with the whole path."""
        found: dict[str, tuple[Use, ...]] = {}
        for document, uses in self._uses[owner].items():
            if document in documents:
                whole = ((*use[:3], joined(use[3], path)) for use in uses)
                found[document] = tuple(
                    each for each in whole if f".{each[3]}".lower().endswith(end)
                )
        return found

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = sqlite3.connect(":memory:", check_same_thread=False)
            self._database.isolation_level = None
            self._database.execute(
                "CREATE VIRTUAL TABLE fields USING fts5 (name, words, description,"
                " path UNINDEXED, owner UNINDEXED, tokenize = 'porter unicode61')"
            )
            self._database.execute(
                "INSERT INTO fields (fields, rank) VALUES ('rank', 'bm25(10.0, 5.0, 1.0, 0, 0)')"
            )
        return self._database


def words(text: str) -> list[str]:
    """Return the words of a search, in lower case; names as `maxSurge` are one.

    >>> words('max "surge" AND *')
    ['max', 'surge', 'and']
    """
    return [word.lower() for word in _WORD.findall(text[:_MAX_TEXT])][:MAX_WORDS]


def _row(path: str, description: str) -> tuple[str, str, str, str]:
    name = path.rpartition(".")[2]
    return name, _HUMP.sub(" ", path).replace(".", " "), description, path
