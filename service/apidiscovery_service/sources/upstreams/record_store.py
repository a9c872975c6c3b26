"""Records of upstreams in the store: how they are written, read and followed.

There are two kinds: the discovery of an upstream, and the index of its OpenAPI documents.

A record is one line of JSON (format, SHA-256 of the rest, names of parts) and then content,
compressed. Content that does not fit into one value of the store is cut into parts. These stand
under `KEY/part-HASH` and are written before the record that names them, so that a reader of a
record finds its parts.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

import orjson
import structlog
import zstandard

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.store import MAX_VALUE_BYTES, Batch, Entry, Guard, Store
from apidiscovery_service.store.following import follow

FORMAT = 2

# Room for the guard and the framing of a transaction.
PART_BYTES = MAX_VALUE_BYTES - 64 * 1024
_LEVEL = 3
# The largest size to which a record may unpack: some documents of the greatest size.
_MAX_UNPACKED = 512 * 1024 * 1024

_log = structlog.get_logger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class BadRecord(DiscoveryError):
    """A record is damaged or of a newer format, and is treated as if there were none."""


class RecordFormat(Generic[T]):
    """One kind of record.

    Args:
        prefix: The beginning of its keys; the id of an upstream follows.
        encode: Returns content as bytes.
        decode: Returns content from these bytes; raises `LookupError`, `TypeError`, `ValueError` or
            `UpstreamFailed` for others.

    Attributes:
        written: Content that this process wrote, by its digest, so that it is not read again.
    """

    def __init__(
        self, prefix: str, encode: Callable[[T], bytes], decode: Callable[[bytes], T]
    ) -> None:
        self.prefix = prefix
        self.written: WeakValueDictionary[str, T] = WeakValueDictionary()
        self._encode = encode
        self._decode = decode

    def key(self, upstream: str) -> str:
        """Return the key of the record of an upstream, by its id."""
        return f"{self.prefix}{upstream}"

    def seal(self, content: T) -> tuple[bytes, dict[str, bytes]]:
        """Return the value of a record, and its parts by name."""
        packed = zstandard.compress(self._encode(content), _LEVEL)
        head: dict[str, object] = {"format": FORMAT, "sha256": hashlib.sha256(packed).hexdigest()}
        if len(packed) <= PART_BYTES:
            return orjson.dumps(head) + b"\n" + packed, {}
        pieces = cut(packed)
        names = [f"part-{hashlib.sha256(piece).hexdigest()[:32]}" for piece in pieces]
        value = orjson.dumps({**head, "parts": names}) + b"\n"
        return value, dict(zip(names, pieces, strict=True))

    async def read(self, store: Store, entry: Entry) -> T:
        """Return the content of a record, read in a thread.

        Args:
            store: Where its parts are.
            entry: The record.

        Raises:
            BadRecord: It is damaged, of a newer format, or a part of it is missing.
            StoreUnavailable: A part cannot be read now.
        """
        head, _, packed = entry.value.partition(b"\n")
        digest, names = _read_head(head)
        written = self.written.get(digest)
        if written is not None:
            return written
        for name in names:
            part = await store.get(f"{entry.key}/{name}")
            if part is None:
                raise BadRecord(f"its {name} is missing")
            packed += part.value
        return await asyncio.to_thread(self._unseal, packed, digest)

    def _unseal(self, packed: bytes, digest: str) -> T:
        if hashlib.sha256(packed).hexdigest() != digest:
            raise BadRecord("its bytes do not have the hash that it states")
        try:
            return self._decode(zstandard.ZstdDecompressor().decompress(packed, _MAX_UNPACKED))
        except (zstandard.ZstdError, LookupError, TypeError, ValueError, UpstreamFailed) as error:
            raise BadRecord(f"it cannot be read: {type(error).__name__}: {error}") from None


def cut(packed: bytes) -> tuple[bytes, ...]:
    """Return pieces that each fit into a value of the store, in order."""
    starts = range(0, len(packed), PART_BYTES)
    return tuple(packed[start : start + PART_BYTES] for start in starts)


def _read_head(line: bytes) -> tuple[str, list[str]]:
    try:
        head = cast("object", orjson.loads(line))
    except orjson.JSONDecodeError:
        raise BadRecord("it does not begin with a line of JSON") from None
    if not isinstance(head, dict):
        raise BadRecord("it does not begin with an object")
    fields = cast("dict[str, object]", head)
    if fields.get("format") != FORMAT:
        raise BadRecord(f"want format {FORMAT}, got {fields.get('format')!r}")
    names = fields.get("parts", [])
    if not isinstance(names, list):
        raise BadRecord("its parts are not a list")
    return str(fields.get("sha256")), [str(name) for name in cast("list[object]", names)]


class RecordWriter(Generic[T]):
    """Keeps one record up to date while a claim is held.

    Args:
        kind: The kind of record.
        store: Where it is.
        upstream: The id of the upstream.
        guard: Goes with every write.

    Attributes:
        is_in_doubt: Whether the store may have something else than was written last: a write
            failed, and may have been done all the same.
    """

    def __init__(self, kind: RecordFormat[T], store: Store, upstream: str, guard: Guard) -> None:
        self.is_in_doubt = False
        self._kind = kind
        self._store = store
        self._guard = guard
        self._key = kind.key(upstream)
        # The content in the store; None when there is none, or none that can be read.
        self._written: T | None = None
        self._parts: frozenset[str] = frozenset()

    async def load(self, damaged: T | None = None) -> T | None:
        """Return what the store has; None for nothing, `damaged` for a record that is unreadable.

        Raises:
            StoreUnavailable: It cannot be read now.
        """
        self._written, self._parts = None, frozenset()
        entry = await self._store.get(self._key)
        if entry is None:
            return None
        try:
            self._parts = frozenset(_read_head(entry.value.partition(b"\n")[0])[1])
            self._written = await self._kind.read(self._store, entry)
        except BadRecord as error:
            _log.warning("record of an upstream ignored", key=self._key, reason=str(error))
            return damaged
        return self._written

    async def save(self, content: T) -> None:
        """Write the record if it changes: new parts first, then it, then remove former parts.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps it is not written.
        """
        if content == self._written and not self.is_in_doubt:
            return
        value, parts = await asyncio.to_thread(self._kind.seal, content)
        self.is_in_doubt = True
        self._kind.written[_read_head(value.partition(b"\n")[0])[0]] = content
        for name in parts.keys() - self._parts:
            await self._store.put(f"{self._key}/{name}", parts[name], guard=self._guard)
        await self._store.put(self._key, value, guard=self._guard)
        for name in self._parts - parts.keys():
            await self._store.delete(f"{self._key}/{name}", guard=self._guard)
        self._written, self._parts, self.is_in_doubt = content, frozenset(parts), False

    async def remove(self) -> None:
        """Remove the record and all its parts.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps not everything is removed.
        """
        listing = await self._store.list(f"{self._key}/")
        for key in (self._key, *(entry.key for entry in listing.entries)):
            await self._store.delete(key, guard=self._guard)


class Listener(Protocol[T_contra]):
    """Called with changes of records."""

    def __call__(self, before: Mapping[str, T_contra | None], *, is_news: bool) -> None:
        """Take changes.

        Args:
            before: The ids of the upstreams, each with the former content; None for none.
            is_news: Whether the records were written just now, so that their writers are alive.
        """


class RecordFollower(Generic[T]):
    """Follows the records of one kind: those of every upstream in the store.

    Args:
        kind: The kind.
        store: Where they are.
        changed: Called after each listing and each batch of the watch, also an empty one.
        lost: Called with an upstream whose record is older than before, or missing: the store was
            restored from a backup.

    Attributes:
        content: The content of each record, by the id of the upstream. A damaged record keeps
            the content that was read last.
    """

    def __init__(
        self,
        kind: RecordFormat[T],
        store: Store,
        changed: Listener[T],
        lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.content: dict[str, T] = {}
        self._kind = kind
        self._store = store
        self._changed = changed
        self._lost = lost
        self._marks: dict[str, tuple[int, int]] = {}

    async def load(self) -> int:
        """Read all records; return the revision of the store.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        listing = await self._store.list(self._kind.prefix)
        entries: dict[str, Entry | None] = dict.fromkeys(map(self._kind.key, self._marks))
        entries |= {entry.key: entry for entry in listing.entries}
        for upstream, mark in self._marks.items():
            entry = entries[self._kind.key(upstream)]
            if entry is None or (entry.mark != mark and entry.revision <= mark[0]):
                self._lost(upstream)
        await self._take(entries, is_news=False)
        return listing.revision

    async def follow(self) -> None:
        """Follow the records, until cancelled."""

        async def take(batch: Batch) -> None:
            await self._take({c.key: c.entry for c in batch.changes}, is_news=True)

        await follow(self._store, self._kind.prefix, self.load, take)

    async def _take(self, entries: Mapping[str, Entry | None], *, is_news: bool) -> None:
        before: dict[str, T | None] = {}
        try:
            await self._read_into(before, entries)
        except DiscoveryError:
            if before:  # the next load finds these unchanged
                self._changed(before, is_news=is_news)
            raise
        self._changed(before, is_news=is_news)

    async def _read_into(
        self, before: dict[str, T | None], entries: Mapping[str, Entry | None]
    ) -> None:
        """Read the records that have changed; add the former content of each to `before`."""
        for key, entry in entries.items():
            upstream = key.removeprefix(self._kind.prefix)
            if "/" in upstream:
                continue  # a part
            if entry is None:
                self._marks.pop(upstream, None)
                before[upstream] = self.content.pop(upstream, None)
            elif entry.mark != self._marks.get(upstream):
                try:
                    content = await self._kind.read(self._store, entry)
                except BadRecord as error:
                    _log.warning("record of an upstream ignored", key=key, reason=str(error))
                    continue
                self._marks[upstream] = entry.mark
                before[upstream] = self.content.get(upstream)
                self.content[upstream] = content
