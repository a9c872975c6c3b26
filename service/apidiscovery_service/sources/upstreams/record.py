"""Records in the store of what is known of upstreams: their format, and how they are written.

A record is one line of JSON (format, SHA-256 of the rest, names of parts) and then content,
compressed. Content that does not fit into one value of the store is cut into parts. These stand
under `KEY/part-HASH` and are written before the record that names them, so that a reader of a
record finds its parts.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import orjson
import structlog
import zstandard

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.store import MAX_VALUE_BYTES, Entry, Guard, Store

FORMAT = 2

# Room for the guard and the framing of a transaction.
PART_BYTES = MAX_VALUE_BYTES - 64 * 1024
_LEVEL = 3
# What a damaged record may unpack to at most: some documents of the greatest size.
_MAX_UNPACKED = 512 * 1024 * 1024

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class BadRecord(DiscoveryError):
    """A record is damaged or of a newer format, and is treated as if there were none."""


@dataclass(frozen=True, slots=True)
class RecordFormat(Generic[T]):
    """One kind of record.

    Attributes:
        prefix: What its keys begin with; the id of an upstream follows.
        encode: Returns content as bytes.
        decode: Returns content from these bytes; raises `LookupError`, `TypeError`, `ValueError` or
            `UpstreamFailed` for others.
    """

    prefix: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]

    def key(self, upstream: str) -> str:
        """Return the key of the record of an upstream, by its id."""
        return f"{self.prefix}{upstream}"

    def seal(self, content: T) -> tuple[bytes, dict[str, bytes]]:
        """Return the value of a record, and its parts by name."""
        packed = zstandard.compress(self.encode(content), _LEVEL)
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
            return self.decode(zstandard.ZstdDecompressor().decompress(packed, _MAX_UNPACKED))
        except (zstandard.ZstdError, LookupError, TypeError, ValueError, UpstreamFailed) as error:
            raise BadRecord(f"it cannot be read: {type(error).__name__}: {error}") from None


def is_part(key: str) -> bool:
    """Tell whether a key is that of a part of a record."""
    return "/part-" in key


def cut(packed: bytes) -> tuple[bytes, ...]:
    """Return pieces that each fit into a value of the store, in order."""
    starts = range(0, len(packed), PART_BYTES)
    return tuple(packed[start : start + PART_BYTES] for start in starts)


def _part_names(value: bytes) -> frozenset[str]:
    """Return the names of a record's parts; none for a record that cannot be read."""
    try:
        return frozenset(_read_head(value.partition(b"\n")[0])[1])
    except BadRecord:
        return frozenset()


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
        raise BadRecord("its parts are no list")
    return str(fields.get("sha256")), [str(name) for name in cast("list[object]", names)]


class RecordWriter(Generic[T]):
    """Keeps one record up to date while a claim is held.

    Args:
        kind: What it is a record of.
        store: Where it is.
        upstream: The id of the upstream.
        guard: Goes with every write.

    Attributes:
        is_in_doubt: Whether the store may have something else than was written last: a write has
            failed, which may have been done all the same, or a backup was restored.
    """

    def __init__(self, kind: RecordFormat[T], store: Store, upstream: str, guard: Guard) -> None:
        self.is_in_doubt = False
        self._kind = kind
        self._store = store
        self._guard = guard
        self._key = kind.key(upstream)
        # As it is in the store; None when there is none, or none that can be read.
        self._written: T | None = None
        self._parts: frozenset[str] = frozenset()
        # The digest of what was sealed last, and its content.
        self._sealed: tuple[str, T] | None = None

    def own(self, value: bytes) -> T | None:
        """Return the content of a record that was written here last; None for another one.

        Its writer needs not unpack it again when the store tells of it.
        """
        if self._sealed is None:
            return None
        try:
            digest, _ = _read_head(value.partition(b"\n")[0])
        except BadRecord:
            return None
        return self._sealed[1] if digest == self._sealed[0] else None

    async def load(self, damaged: T | None = None) -> T | None:
        """Return what the store has; None for nothing, `damaged` for a record that is unreadable.

        Raises:
            StoreUnavailable: It cannot be read now.
        """
        entry = await self._store.get(self._key)
        if entry is None:
            return None
        self._parts = _part_names(entry.value)
        try:
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
        self._sealed = _read_head(value.partition(b"\n")[0])[0], content
        for name in parts.keys() - self._parts:
            await self._store.put(f"{self._key}/{name}", parts[name], guard=self._guard)
        await self._store.put(self._key, value, guard=self._guard)
        for name in self._parts - parts.keys():
            await self._store.delete(f"{self._key}/{name}", guard=self._guard)
        self._written, self._parts, self.is_in_doubt = content, frozenset(parts), False

    def write_again(self) -> None:
        """Have the next `save` write everything: the store may have lost any of it."""
        self._parts, self.is_in_doubt = frozenset(), True

    async def remove(self) -> None:
        """Remove the record and all its parts.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps not everything is removed.
        """
        listing = await self._store.list(f"{self._key}/")
        for key in (self._key, *(entry.key for entry in listing.entries)):
            await self._store.delete(key, guard=self._guard)
