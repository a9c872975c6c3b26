"""Notes beside v2 documents: facts about groups that the documents cannot express.

These are since when and why a version is stale, and fields of unaggregated documents. The notes are
JSON:

    {"preferredVersions": {"apps": "v1"},
     "versions": [{"groupVersion": "apps/v1", "freshness": "Stale", "since": "2026-11-20T17:59:53Z",
                   "reason": "...", "retained": true, "unstated": true,
                   "storageVersionHashes": {"deployments": "8aSe+NMegvE="}}]}

Where a group or version is listed twice, the first counts, as in `Snapshot.version`.
"""

import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from apidiscovery_client._fields import (
    Fields,
    MisshapenError,
    each,
    flag,
    required_text,
    text,
    text_map,
)
from apidiscovery_client._writing import PROTOBUF_EXTRA
from apidiscovery_client.model import (
    CURRENT,
    NO_EXTRAS,
    Current,
    Freshness,
    Group,
    GroupVersion,
    Resource,
    Stale,
    Subresource,
    Unknown,
    Version,
)

_CURRENT, _STALE, _UNKNOWN = "Current", "Stale", "Unknown"


@dataclass(frozen=True, slots=True)
class Note:
    """The note of a version.

    Attributes:
        freshness: None where it is that of the document.
        is_unstated: Whether the original document did not state it.
        hashes: The storage version hashes by resource.
    """

    freshness: Freshness | None
    is_unstated: bool
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of groups and versions, by their names."""

    preferred: Mapping[str, str]
    versions: Mapping[str, Note]


def write_notes(groups: Iterable[Group]) -> dict[str, object]:
    """Return the notes that these groups need."""
    preferred: dict[str, str] = {}
    versions: dict[str, dict[str, object]] = {}
    for group in groups:
        if group.stated_preference:
            preferred.setdefault(group.name, group.stated_preference)
        for version in group.versions:
            if note := _note(version):
                versions.setdefault(str(version.gv), note)
    listed = [{"groupVersion": name, **note} for name, note in versions.items()]
    return {"preferredVersions": preferred, "versions": listed}


def read_notes(fields: Fields) -> Notes:
    """Return the notes; raise `MisshapenError`, also for invalid times and words."""
    noted = each(fields, "versions", _named_note)
    return Notes(text_map(fields, "preferredVersions"), dict(reversed(noted)))


def annotated(groups: Iterable[Group], notes: Notes) -> tuple[Group, ...]:
    """Return the groups of documents with their notes applied."""
    return tuple(_annotated_group(group, notes) for group in groups)


def confirmed(
    groups: Iterable[Group], notes: Notes, remembered: Mapping[GroupVersion, tuple[Resource, ...]]
) -> tuple[Group, ...]:
    """Return the groups of documents that are proven, with notes that are not.

    Notes may make a version less fresh than in the document, but not fresher; resources of
    `remembered` are used only for versions without resources in the document.

    Raises:
        MisshapenError: The notes say that a version is current, the document that it is not.
    """
    return tuple(_confirmed_group(group, notes, remembered) for group in groups)


def write_freshness(freshness: Freshness) -> dict[str, object]:
    """Return a freshness as JSON."""
    if isinstance(freshness, Current):
        return {"freshness": _CURRENT}
    told: dict[str, object] = {"since": freshness.since.isoformat(), "reason": freshness.reason}
    if isinstance(freshness, Unknown):
        return {"freshness": _UNKNOWN, **told}
    retained = {"retained": True} if freshness.retained else {}
    return {"freshness": _STALE, **told, **retained}


def read_freshness(fields: Fields) -> Freshness:
    """Return a freshness; raise `MisshapenError`."""
    word = text(fields, "freshness")
    if word == _CURRENT:
        return CURRENT
    if word not in (_STALE, _UNKNOWN):
        wanted = f"{_CURRENT}, {_STALE} or {_UNKNOWN}"
        raise MisshapenError("freshness", f"is {word!r}, not {wanted}")
    since, reason = read_time(fields, "since"), text(fields, "reason")
    if word == _UNKNOWN:
        return Unknown(since, reason)
    return Stale(since, reason, retained=flag(fields, "retained"))


def read_time(fields: Fields, key: str) -> datetime:
    """Return a time that has a zone; raise `MisshapenError`."""
    written = required_text(fields, key)
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise MisshapenError(key, f"is {written!r}, not a time such as 2026-11-20T17:59:53+00:00")
    return time


def _note(version: Version) -> dict[str, object]:
    note: dict[str, object] = {}
    # What the document says is read as current, unless it says that it is stale.
    if version.freshness != CURRENT or version.stated_freshness in ("", _STALE):
        note.update(write_freshness(version.freshness))
    if not version.stated_freshness:
        note["unstated"] = True
    hashes: dict[str, str] = {}
    for resource in version.resources:
        if resource.storage_version_hash:
            hashes.setdefault(resource.name, resource.storage_version_hash)
    if hashes:
        note["storageVersionHashes"] = hashes
    return note


def _named_note(fields: Fields) -> tuple[str, Note]:
    freshness = read_freshness(fields) if "freshness" in fields else None
    note = Note(freshness, flag(fields, "unstated"), text_map(fields, "storageVersionHashes"))
    return required_text(fields, "groupVersion"), note


def _annotated_group(group: Group, notes: Notes) -> Group:
    versions = tuple(
        _annotated(version, notes.versions.get(str(version.gv))) for version in group.versions
    )
    return replace(group, versions=versions, stated_preference=notes.preferred.get(group.name, ""))


def _annotated(version: Version, note: Note | None) -> Version:
    if note is None:
        return version
    return replace(
        version,
        resources=_hashed(version.resources, note.hashes) if note.hashes else version.resources,
        freshness=note.freshness or version.freshness,
        stated_freshness="" if note.is_unstated else version.stated_freshness,
    )


def _hashed(resources: Iterable[Resource], hashes: Mapping[str, str]) -> tuple[Resource, ...]:
    return tuple(
        replace(resource, storage_version_hash=hashes[resource.name])
        if resource.name in hashes
        else resource
        for resource in resources
    )


def _confirmed_group(
    group: Group, notes: Notes, remembered: Mapping[GroupVersion, tuple[Resource, ...]]
) -> Group:
    found = [notes.versions.get(str(version.gv)) for version in group.versions]
    if not any(found):
        return group
    versions = (
        _confirmed(version, note, remembered) if note else version
        for version, note in zip(group.versions, found, strict=True)
    )
    return replace(group, versions=tuple(versions))


def _confirmed(
    version: Version, note: Note, remembered: Mapping[GroupVersion, tuple[Resource, ...]]
) -> Version:
    freshness = note.freshness
    if freshness is None:
        return version
    if isinstance(freshness, Current):
        if version.freshness != CURRENT:
            raise MisshapenError(str(version.gv), "is noted as current, but stated to be stale")
        return version
    is_retained = isinstance(freshness, Stale) and freshness.retained
    is_silent = version.freshness != CURRENT and not version.resources
    resources = remembered.get(version.gv, ()) if is_retained and is_silent else version.resources
    return replace(version, freshness=freshness, resources=resources)


_BASE64 = "base64:"  # the key in JSON of what is under `PROTOBUF_EXTRA`
# An unaggregated document may have unknown fields of these names. In a document of v2 they would be
# read as the known fields of the same name.
_TAKEN = frozenset(
    {
        *("versions", "version", "resources", "freshness"),
        *("resource", "responseKind", "scope", "singularResource", "verbs"),
        *("shortNames", "categories", "subresources", "subresource", "acceptedTypes"),
    }
)

Extra = Mapping[str, object]
Change = Callable[[Extra], Extra]


def with_text(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return the groups with nothing but JSON in their extras."""
    return _changed(groups, _text)


def with_bytes(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return the groups as they were before `with_text`."""
    return _changed(groups, _bytes)


def _text(extra: Extra) -> Extra:
    kept = {name: value for name, value in extra.items() if name not in _TAKEN}
    wire = kept.pop(PROTOBUF_EXTRA, None)
    return {**kept, _BASE64: _encoded(wire)} if isinstance(wire, bytes) else kept


def _bytes(extra: Extra) -> Extra:
    """Return the fields as they were; text that `with_text` does not write is a field as it is."""
    written = extra.get(_BASE64)
    if not isinstance(written, str):
        return extra
    try:
        wire = binascii.a2b_base64(written.encode())
    except (binascii.Error, UnicodeEncodeError):
        return extra
    if _encoded(wire) != written:
        return extra
    return {
        **{name: value for name, value in extra.items() if name != _BASE64},
        PROTOBUF_EXTRA: wire,
    }


def _encoded(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()  # base64 takes longer to import


def _changed(groups: tuple[Group, ...], change: Change) -> tuple[Group, ...]:
    if not any(map(_has_extra, groups)):
        return groups
    return tuple(_group(group, change) for group in groups)


def _has_extra(group: Group) -> bool:
    """Return whether there are extras; only servers newer than this package have them."""
    return bool(group.extra) or any(
        version.extra
        or any(
            resource.extra or any(below.extra for below in resource.subresources)
            for resource in version.resources
        )
        for version in group.versions
    )


def _group(group: Group, change: Change) -> Group:
    versions = tuple(_version(version, change) for version in group.versions)
    return replace(group, versions=versions, extra=_or_none(change(group.extra)))


def _version(version: Version, change: Change) -> Version:
    resources = tuple(_resource(resource, change) for resource in version.resources)
    return replace(version, resources=resources, extra=_or_none(change(version.extra)))


def _resource(resource: Resource, change: Change) -> Resource:
    below = tuple(_subresource(found, change) for found in resource.subresources)
    return replace(resource, subresources=below, extra=_or_none(change(resource.extra)))


def _subresource(subresource: Subresource, change: Change) -> Subresource:
    return replace(subresource, extra=_or_none(change(subresource.extra)))


def _or_none(extra: Extra) -> Extra:
    return extra or NO_EXTRAS
