"""What is kept of an upstream in the store, under `upstreams/ID`.

A record is lines of JSON, compressed: what is known, and for each path its groups as a document,
which is read piece by piece like one that has been fetched. One that does not fit into a value of
the store is cut; its parts stand under `upstreams/ID/part-HASH` and are written before the record
that names them, so whoever reads a record finds its parts.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import orjson
import zstandard

from apidiscovery_service.core.group_document import group_value
from apidiscovery_service.core.model import Freshness, Group
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.upstreams.answers import Reading, read_aggregated
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.spec import Limits
from apidiscovery_service.sources.upstreams.state import Known, Root
from apidiscovery_service.store import MAX_VALUE_BYTES, Guard, Store

PREFIX = "upstreams/"
FORMAT = 2

# Room for the guard and the framing of a transaction.
PART_BYTES = MAX_VALUE_BYTES - 64 * 1024
_LEVEL = 3
# What a damaged record may unpack to at most: some documents of the greatest size.
_MAX_UNPACKED = 512 * 1024 * 1024

# What is quick enough to be read on the event loop, unpacked.
_SMALL = 16 * 1024

T = TypeVar("T")


class BadRecord(DiscoveryError):
    """A record is damaged, or of a newer format; it is as good as none."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A record as it is written.

    Attributes:
        parts: Values by key, to be written before.
    """

    key: str
    value: bytes
    parts: Mapping[str, bytes]


def key_of(upstream: str) -> str:
    """Return where the record of an upstream is, by its id."""
    return f"{PREFIX}{upstream}"


def is_part(key: str) -> bool:
    """Tell whether a key is that of a part of a record."""
    return "/part-" in key


def seal(upstream: str, known: Known) -> Sealed:
    """Return the record of what is known of an upstream."""
    content = {"claim": known.claim, "roots": [_root_value(root) for root in known.roots]}
    lines = [orjson.dumps(content), *(_groups_line(root) for root in known.roots)]
    packed = zstandard.compress(b"\n".join(lines), _LEVEL)
    return cut(key_of(upstream), packed)


def cut(key: str, packed: bytes) -> Sealed:
    """Return a value as it is written: in parts, when it is too large for one."""
    digest = hashlib.sha256(packed).hexdigest()
    head = {"format": FORMAT, "sha256": digest}
    if len(packed) <= PART_BYTES:
        return Sealed(key, orjson.dumps(head) + b"\n" + packed, {})
    pieces = [packed[i : i + PART_BYTES] for i in range(0, len(packed), PART_BYTES)]
    parts = {f"{key}/part-{hashlib.sha256(piece).hexdigest()[:32]}": piece for piece in pieces}
    names = [f"part-{hashlib.sha256(piece).hexdigest()[:32]}" for piece in pieces]
    return Sealed(key, orjson.dumps({**head, "parts": names}) + b"\n", parts)


def _root_value(root: Root) -> dict[str, object]:
    return {
        "path": root.path,
        "core": root.core,
        "state": root.state,
        "since": root.since,
        "error": root.error,
        "reason": root.reason,
        "etag": root.etag,
        "old": root.old,
        "failures": root.failures,
        "warnings": root.warnings,
        "listed": root.listed,
    }


def _groups_line(root: Root) -> bytes:
    # Group by group: the whole at once would hold the interpreter for long.
    items = b",".join(orjson.dumps(_kept_group(group)) for group in root.groups)
    return b'{"items":[' + items + b"]}"


def _kept_group(group: Group) -> dict[str, JSONValue]:
    """Return the item of an aggregated document with what only unaggregated ones tell."""
    value = group_value(group)
    versions = cast("list[dict[str, JSONValue]]", value.get("versions", []))
    for version, version_value in zip(group.versions, versions, strict=True):
        resources = cast("list[dict[str, JSONValue]]", version_value.get("resources", []))
        for resource, resource_value in zip(version.resources, resources, strict=True):
            if resource.storage_version_hash:
                resource_value["storageVersionHash"] = resource.storage_version_hash
        if version.listed:
            version_value["listed"] = version.listed
    return value


async def unseal(value: bytes, part: Callable[[str], Awaitable[bytes | None]]) -> Known:
    """Return what a record says.

    Args:
        value: What stands under its key.
        part: Returns what stands under `part-HASH` below its key.

    Raises:
        BadRecord: It is damaged, of a newer format, or a part of it is missing.
        StoreUnavailable: A part cannot be read now.
    """
    return await opened(value, part, _known)


async def opened(
    value: bytes, part: Callable[[str], Awaitable[bytes | None]], reader: Callable[[bytes], T]
) -> T:
    """Return what `reader` makes of what `cut` was given; it runs in a thread unless that is small.

    Raises:
        BadRecord: It is damaged, of a newer format, or a part of it is missing.
        StoreUnavailable: A part cannot be read now.
    """
    head_line, _, packed = value.partition(b"\n")
    digest, names = _head(head_line)
    for name in names:
        piece = await part(name)
        if piece is None:
            raise BadRecord(f"its {name} is missing")
        packed += piece

    def read() -> T:
        if hashlib.sha256(packed).hexdigest() != digest:
            raise BadRecord("its bytes do not have the hash that it states")
        return reader(packed)

    if _is_small(packed):
        return read()
    return await asyncio.to_thread(read)


async def sealed(upstream: str, known: Known) -> Sealed:
    """Return `seal` of what is known, made in a thread."""
    return await asyncio.to_thread(seal, upstream, known)


def is_large(value: bytes) -> bool:
    """Tell whether reading a record takes long."""
    return bool(part_names(value)) or not _is_small(value.partition(b"\n")[2])


def _is_small(packed: bytes) -> bool:
    """Tell whether something packed is small unpacked; what is all alike packs to nothing."""
    try:
        return 0 <= zstandard.frame_content_size(packed) <= _SMALL and len(packed) <= _SMALL
    except zstandard.ZstdError:
        return True  # it cannot be unpacked


def part_names(value: bytes) -> frozenset[str]:
    """Return the names of a record's parts; none for a record that cannot be read."""
    try:
        return frozenset(_head(value.partition(b"\n")[0])[1])
    except BadRecord:
        return frozenset()


def _head(line: bytes) -> tuple[str, list[str]]:
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


def _known(packed: bytes) -> Known:
    try:
        text = zstandard.ZstdDecompressor().decompress(packed, _MAX_UNPACKED)
        head, *documents = text.split(b"\n")
        content = orjson.loads(head)
        roots = zip(content["roots"], documents, strict=True)
        return Known(int(content["claim"]), tuple(_root(*root) for root in roots))
    except (zstandard.ZstdError, LookupError, TypeError, ValueError, UpstreamFailed) as error:
        raise BadRecord(f"it cannot be read: {type(error).__name__}: {error}") from None


def _root(value: dict[str, object], document: bytes) -> Root:
    core = bool(value["core"])
    reading = Reading(_KEPT_LIMITS, core=core, kept=True)
    groups = read_aggregated(document, reading)
    failures = cast("list[tuple[str, str]]", value["failures"])
    return Root(
        path=str(value["path"]),
        core=core,
        state=Freshness(str(value["state"])),
        since=str(value["since"]),
        error=str(value["error"]),
        reason=str(value["reason"]),
        etag=str(value["etag"]),
        old=bool(value["old"]),
        groups=groups,
        failures=tuple((str(name), str(text)) for name, text in failures),
        warnings=tuple(str(text) for text in cast("list[object]", value["warnings"])),
        listed=tuple(str(name) for name in cast("list[object]", value.get("listed", []))),
    )


# What was taken once is taken again, whatever the limits are now.
_KEPT_LIMITS = Limits(group_versions=10**9)


async def write(
    store: Store, sealed: Sealed, guard: Guard, former_parts: frozenset[str]
) -> frozenset[str]:
    """Write a record, its new parts first, and remove parts that it does not name any more.

    Returns:
        The names of its parts.

    Raises:
        StoreUnavailable: Perhaps it is not written.
        Fenced: Somebody else has taken over.
    """
    names = frozenset(key.rpartition("/")[2] for key in sealed.parts)
    for key, value in sealed.parts.items():
        if key.rpartition("/")[2] not in former_parts:
            await store.put(key, value, guard=guard)
    await store.put(sealed.key, sealed.value, guard=guard)
    for name in former_parts - names:
        await store.delete(f"{sealed.key}/{name}", guard=guard)
    return names
