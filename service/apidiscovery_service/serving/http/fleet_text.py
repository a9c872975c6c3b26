"""The JSON of clusters and matrix, from the text of each row, which is made once.

A matrix of a thousand clusters has megabytes of JSON, and changes by a row or a column at a time.
The form is `apidiscovery_formats.matrix.to_json`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from apidiscovery_formats.matrix import (
    Column,
    Freshness,
    Key,
    Matrix,
    Row,
    Selection,
    canonical_text,
    column_json,
    hash_of_text,
    row_json,
)

from apidiscovery_service.encoding import compression
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.objects.selectors import LabelSelector
from apidiscovery_service.serving.http.fleet_query import Place

# Cached bodies of one scope: some forms of the largest one.
_MAX_CACHED_BYTES = 16 * 1024 * 1024
_MAX_LISTINGS = 16
# Cached texts of columns, beyond twice those in use.
_MANY_COLUMNS = 1000

# The clusters, and the rows; None for the list of clusters alone.
_Selected: TypeAlias = tuple[LabelSelector, Selection | None]


@dataclass(frozen=True, slots=True, eq=False)
class MatrixListing:
    """Columns and rows as JSON text.

    Attributes:
        hash: As in `matrix.to_json`.
        rows: None for a list of clusters alone.
    """

    hash: str
    columns: tuple[bytes, ...]
    rows: tuple[bytes, ...] | None

    @property
    def items(self) -> tuple[bytes, ...]:
        """The items that pages consist of."""
        return self.columns if self.rows is None else self.rows


@dataclass(frozen=True, slots=True)
class ListingForm:
    """A form of a listing.

    Attributes:
        start: How many items came before.
        limit: Maximum number of items; 0 for all.
        pretty: Whether it is indented.
    """

    start: int = 0
    limit: int = 0
    pretty: bool = False
    coding: Coding = "identity"


class FleetText:
    """The text of one scope. Used in the event loop; texts are made in a thread."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._revision = -1
        self._listings: dict[_Selected, MatrixListing] = {}
        self._bodies: dict[tuple[MatrixListing, ListingForm], tuple[bytes, Coding]] = {}
        self._cached_bytes = 0
        self._columns: dict[str, tuple[Column, bytes]] = {}
        self._rows = _RowTexts()

    async def clusters(self, scope: Scope, labels: LabelSelector) -> MatrixListing:
        """Return the list of clusters."""
        columns = scope.selected(labels).columns()
        return await self._listing(
            scope, (labels, None), lambda: _listing(self._column_texts(columns), None)
        )

    async def matrix(
        self, scope: Scope, labels: LabelSelector, selection: Selection
    ) -> MatrixListing:
        """Return the matrix."""
        matrix = scope.selected(labels).matrix()
        # Only texts of the whole matrix are cached: rows of a selection have other columns.
        texts = _RowTexts() if labels.requirements else self._rows

        def make() -> MatrixListing:
            columns = self._column_texts(matrix.columns)
            rows = filter(selection.admits, matrix.rows)
            return _listing(columns, tuple(texts.of(rows, matrix)))

        return await self._listing(scope, (labels, selection), make)

    async def _listing(
        self, scope: Scope, key: _Selected, make: Callable[[], MatrixListing]
    ) -> MatrixListing:
        revision = scope.revision
        async with self._turn:
            if self._revision < revision or len(self._listings) >= _MAX_LISTINGS:
                self._forget(revision)
            found = self._listings.get(key) if self._revision == revision else None
            if found is None:
                found = await asyncio.to_thread(make)
                if self._revision == revision:
                    self._listings[key] = found
            return found

    def _column_texts(self, columns: tuple[Column, ...]) -> tuple[bytes, ...]:
        texts: list[bytes] = []
        for column in columns:
            known, text = self._columns.get(column.name, (None, b""))
            if known is not column:
                text = canonical_text(column_json(column))
            self._columns[column.name] = column, text
            texts.append(text)
        if len(self._columns) > 2 * len(columns) + _MANY_COLUMNS:  # of clusters that are gone
            self._columns = {
                column.name: (column, text) for column, text in zip(columns, texts, strict=True)
            }
        return tuple(texts)

    def _forget(self, revision: int) -> None:
        self._revision = revision
        self._listings, self._bodies, self._cached_bytes = {}, {}, 0

    async def body(self, listing: MatrixListing, form: ListingForm) -> tuple[bytes, Coding]:
        """Return the text of a listing, and its coding: identity for a small body."""
        key = listing, form
        found = self._bodies.get(key)
        if found is None:
            found = await asyncio.to_thread(_body, listing, form)
            if self._cached_bytes + len(found[0]) > _MAX_CACHED_BYTES:
                self._bodies, self._cached_bytes = {}, 0
            if key not in self._bodies:
                self._bodies[key] = found
                self._cached_bytes += len(found[0])
        return found


class _RowTexts:
    """The text of each row of one matrix, until the row or the columns change."""

    def __init__(self) -> None:
        self._places: list[tuple[str, bool]] = []
        self._texts: dict[Key, tuple[Row, bytes]] = {}

    def of(self, rows: Iterable[Row], whole: Matrix) -> Iterator[bytes]:
        """Yield the texts of some rows of a matrix."""
        # The text of a row names the columns without a cell that are unknown.
        places = [(c.name, c.freshness is Freshness.UNKNOWN) for c in whole.columns]
        if places != self._places:
            self._places, self._texts = places, {}
        for row in rows:
            key = row.group, row.resource
            known, text = self._texts.get(key, (None, b""))
            if known is not row:
                text = canonical_text(row_json(row, whole.columns))
                self._texts[key] = row, text
            yield text
        if len(self._texts) > 2 * len(whole.rows):
            keys = {(row.group, row.resource) for row in whole.rows}
            # A thread whose request was cancelled may still add texts.
            known_texts = list(self._texts.items())
            self._texts = {key: text for key, text in known_texts if key in keys}


def _listing(columns: tuple[bytes, ...], rows: tuple[bytes, ...] | None) -> MatrixListing:
    content = b"".join((b"{", _content(columns, rows), b"}"))
    return MatrixListing(hash_of_text([content]), columns, rows)


def _content(columns: tuple[bytes, ...], rows: tuple[bytes, ...] | None) -> bytes:
    """Return the canonical text of `clusters` and `rows`, without braces around it."""
    parts = [b'"clusters":[', b",".join(columns), b"]"]
    if rows is not None:
        parts += [b',"rows":[', b",".join(rows), b"]"]
    return b"".join(parts)


def _body(listing: MatrixListing, form: ListingForm) -> tuple[bytes, Coding]:
    end = form.start + form.limit if form.limit else len(listing.items)
    page = listing.items[form.start : end]
    columns, rows = (page, None) if listing.rows is None else (listing.columns, page)
    parts = [b'{"hash":"', listing.hash.encode(), b'",', _content(columns, rows)]
    left = len(listing.items) - end
    if left > 0:
        metadata = {"continue": Place(listing.hash, end).encode(), "remainingItemCount": left}
        parts += [b',"metadata":', go_json.dumps(metadata)]
    text = b"".join((*parts, b"}"))
    text = go_json.indent(text) if form.pretty else text
    text += b"\n"
    coding = compression.coding_for(len(text), form.coding)
    return compression.compress(text, coding), coding
