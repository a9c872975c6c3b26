"""The files of the cache: written from a snapshot, and trusted only with proof.

    apidiscovery snapshot 2 SHA-256 of all that follows
    {"key": ..., "server": ..., "checkedAt": ..., "etags": ..., "parts": [...], ...}
    the parts, one after the other

The parts are documents of `apidiscovery.k8s.io`: for each path the document whose hash is its ETag,
or without such proof an equivalent one. The groups are read from them alone.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from apidiscovery_client import _notes as notes
from apidiscovery_client._fields import (
    Fields,
    MisshapenError,
    as_fields,
    each,
    inner,
    required_text,
    text,
    text_map,
)
from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._reading import read_document
from apidiscovery_client._writing import write_aggregated
from apidiscovery_client.cache import proofs
from apidiscovery_client.model import (
    GROUPS_PATH,
    PATHS,
    DiscoveryPath,
    Group,
    GroupVersion,
    Resource,
    Snapshot,
    Stale,
    groups_by_path,
)

SCHEMA = 2

_MAGIC = "apidiscovery snapshot"
_HEAD = f"{_MAGIC} {SCHEMA} ".encode()
_REMEMBERED = "remembered"  # the part with the resources of versions that tell none now

Parts = Mapping[str, Document]


class UntrustedFileError(ValueError):
    """A file is damaged, forged, of another release, or of another server."""


@dataclass(frozen=True, slots=True)
class CachedFile:
    """The content of a file.

    Attributes:
        given: The source.
        fetched: The source with proven ETags only.
        facts: The fields of the header about the groups.
        parts: The documents by path.
    """

    given: FetchedSnapshot
    fetched: FetchedSnapshot
    facts: Fields
    parts: Parts

    def renewed(self, fetched: FetchedSnapshot) -> "CachedFile | None":
        """Return the entry for `fetched`; None unless it has the very same groups and ETags."""
        given = self.given
        if fetched.snapshot.groups is not given.snapshot.groups:
            return None
        if (fetched.etags, fetched.hashes) != (given.etags, given.hashes):
            return None
        return replace(
            self, given=fetched, fetched=replace(self.fetched, snapshot=fetched.snapshot)
        )


def make_entry(fetched: FetchedSnapshot) -> CachedFile:
    """Return the entry from which `fetched` can be read again, except unproven ETags.

    Raises:
        UntrustedFileError: There is none, because documents cannot express the snapshot.
    """
    for proven in (proofs.proven(fetched), proofs.Proven({}, {})):
        entry = _entry(fetched, proven)
        try:
            groups = _groups(entry.facts, entry.parts, fetched.snapshot.checked_at)
        except (ValueError, RecursionError):
            continue
        if groups == fetched.snapshot.groups:
            return entry
    raise UntrustedFileError("no documents say the same as this snapshot")


def write(key: str, entry: CachedFile) -> bytes:
    """Return the content of a file."""
    snapshot = entry.fetched.snapshot
    header = {
        "key": key,
        "server": snapshot.server,
        "checkedAt": snapshot.checked_at.isoformat(),
        "freshness": notes.write_freshness(snapshot.freshness),
        "failures": dict(snapshot.failures),
        "parts": [
            {"name": name, "contentType": part.content_type, "bytes": len(part.body)}
            for name, part in entry.parts.items()
        ],
        **entry.facts,
    }
    bodies = [part.body for part in entry.parts.values()]
    rest = b"\n".join([json.dumps(header, separators=(",", ":")).encode(), b"".join(bodies)])
    return b"%b%b\n%b" % (_HEAD, _digest(rest), rest)


def read(key: str, content: bytes) -> CachedFile:
    """Return the content of a file; raise `UntrustedFileError`."""
    try:
        return _read(key, content)
    except (ValueError, RecursionError) as error:
        raise UntrustedFileError(str(error)) from None


def _entry(fetched: FetchedSnapshot, proven: proofs.Proven) -> CachedFile:
    snapshot = fetched.snapshot
    kept = replace(
        fetched,
        etags=proven.etags,
        hashes=fetched.hashes if proofs.SCOPE in proven.etags else {},
        documents={path: proven.documents[path] for path in proven.etags if path},
    )
    facts = {
        "etags": dict(kept.etags),
        "hashes": dict(kept.hashes),
        "notes": notes.write_notes(snapshot.groups),
    }
    return CachedFile(fetched, kept, facts, dict(_parts(snapshot.groups, proven.documents)))


def _parts(groups: tuple[Group, ...], proven: Parts) -> Iterator[tuple[str, Document]]:
    by_path = groups_by_path(groups)
    for path, part in by_path.items():
        if path in proven:
            yield path, proven[path]
        elif part:
            yield path, _stated(part)
    remembered = (
        _only_remembered(group)
        for path, part in by_path.items()
        if path in proven
        for group in part
    )
    if some := tuple(group for group in remembered if group.versions):
        yield _REMEMBERED, _stated(some)


def _stated(groups: tuple[Group, ...]) -> Document:
    return Document(proofs.JSON_V2, write_aggregated(notes.with_text(groups)))


def _only_remembered(group: Group) -> Group:
    versions = (
        version
        for version in group.versions
        if isinstance(version.freshness, Stale) and version.freshness.retained
    )
    return Group(group.name, tuple(versions))


def _read(key: str, content: bytes) -> CachedFile:
    header, parts = _opened(content)
    if text(header, "key") != key:
        raise UntrustedFileError("it is of another server")
    etags, hashes = text_map(header, "etags"), text_map(header, "hashes")
    if not proofs.are_proven(etags, parts):
        raise UntrustedFileError("a document is not that of its ETag")
    checked_at = notes.read_time(header, "checkedAt")
    snapshot = Snapshot(
        groups=_groups(header, parts, checked_at),
        server=text(header, "server"),
        checked_at=checked_at,
        failures=text_map(header, "failures"),
        freshness=notes.read_freshness(inner(header, "freshness") or {}),
    )
    fetched = FetchedSnapshot(
        snapshot=snapshot,
        etags=etags,
        hashes=hashes if proofs.SCOPE in etags else {},
        documents={path: parts[path] for path in etags if path},
    )
    facts = {name: header[name] for name in ("etags", "hashes", "notes") if name in header}
    return CachedFile(fetched, fetched, facts, parts)


def _opened(content: bytes) -> tuple[Fields, Parts]:
    """Return the header and the parts, once the digest is known to be right."""
    head, _, rest = content.partition(b"\n")
    if not head.startswith(_HEAD):
        raise UntrustedFileError(f"it begins with {head[:32]!r}, not with {_HEAD!r}")
    if head[len(_HEAD) :] != _digest(rest):
        raise UntrustedFileError("it is damaged: the digest is that of something else")
    line, _, bodies = rest.partition(b"\n")
    header = as_fields(json.loads(line))
    return header, dict(_split(header, bodies))


def _split(header: Fields, bodies: bytes) -> Iterator[tuple[str, Document]]:
    start = 0
    for part in each(header, "parts", lambda part: part):
        size = part.get("bytes")
        if not isinstance(size, int) or not 0 <= size <= len(bodies) - start:
            raise MisshapenError("parts", f"has a part of {size!r} bytes")
        body = bodies[start : start + size]
        yield required_text(part, "name"), Document(text(part, "contentType"), body)
        start += size
    if start != len(bodies):
        raise MisshapenError("parts", f"has {len(bodies) - start} bytes less than there are")


def _groups(facts: Fields, parts: Parts, now: datetime) -> tuple[Group, ...]:
    """Return the groups of the parts, those of `/api` first; raise `ValueError`."""
    remarks = notes.read_notes(inner(facts, "notes") or {})
    etags = text_map(facts, "etags")
    remembered = _remembered(parts, now)
    groups: list[Group] = []
    for path in PATHS:
        if path not in parts:
            continue
        found = _groups_in(path, parts[path], now)
        if path in etags or proofs.SCOPE in etags:
            groups += notes.confirmed(found, remarks, remembered)
        else:
            groups += notes.annotated(notes.with_bytes(found), remarks)
    return tuple(groups)


def _remembered(parts: Parts, now: datetime) -> dict[GroupVersion, tuple[Resource, ...]]:
    if _REMEMBERED not in parts:
        return {}
    groups = notes.with_bytes(_groups_in(GROUPS_PATH, parts[_REMEMBERED], now))
    return {version.gv: version.resources for group in groups for version in group.versions}


def _groups_in(path: DiscoveryPath, part: Document, now: datetime) -> tuple[Group, ...]:
    return read_document(path, part.content_type, part.body, now).groups


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
