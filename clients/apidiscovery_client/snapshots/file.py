"""Writes a snapshot as a readable file, and reads such files and saved answers of servers.

The file is indented JSON:

    {"apiVersion": "apidiscovery/v1", "kind": "DiscoverySnapshot",
     "server": ..., "checkedAt": ..., "freshness": {...}, "failures": {...}, "notes": {...},
     "documents": {"/api": an APIGroupDiscoveryList, "/apis": another}, "schemas": {...}}

The documents are of `apidiscovery.k8s.io/v2`; what those cannot say is in the notes. Schemas are
there on request; `apidiscovery_client.schemas` writes and reads them.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from apidiscovery_formats.json_values import as_object
from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND

from apidiscovery_client import _notes as notes
from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._fields import (
    Fields,
    MisshapenError,
    as_fields,
    inner,
    is_deeper,
    text,
    text_map,
)
from apidiscovery_client._negotiation import VERSIONS
from apidiscovery_client._reading.aggregated import read_groups
from apidiscovery_client._writing import write_aggregated
from apidiscovery_client.model import PATHS, Group, Snapshot, groups_by_path

API_VERSION = "apidiscovery/v1"
KIND = "DiscoverySnapshot"
MAX_BYTES = 64 << 20
MAX_DEPTH = 64  # of a document: arrays and objects within each other; known fields have 11

_DEPTH_OF_DOCUMENTS = 2  # in our own file

T = TypeVar("T")

_UNAGGREGATED = ("APIVersions", "APIGroupList", "APIGroup", "APIResourceList")
_ANSWERS = tuple(f"{AGGREGATED_GROUP}/{version}" for version in VERSIONS)
_TOO_DEEP = f"it has more than {MAX_DEPTH} arrays and objects within each other"
_SAVE = "save one by `apidiscovery snapshot save`"


def dump(snapshot: Snapshot, *, schemas: Fields | None = None) -> bytes:
    """Return the content of a file, from which `load` makes the same snapshot.

    Args:
        snapshot: What was served.
        schemas: The field `schemas` (`apidiscovery_client.schemas.stored_schemas`); None for none.

    Raises:
        InvalidConfiguration: `load` would refuse it, for its size or for what nests too deeply in
            fields that are not known.
    """
    groups = notes.with_text(snapshot.groups)
    content = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "server": snapshot.server,
        "checkedAt": snapshot.checked_at.isoformat(),
        "freshness": notes.write_freshness(snapshot.freshness),
        "failures": dict(snapshot.failures),
        "notes": notes.write_notes(groups),
        "documents": {
            path: json.loads(write_aggregated(part))
            for path, part in groups_by_path(groups).items()
            if part
        },
        **({} if schemas is None else {"schemas": schemas}),
    }
    if is_deeper(content, MAX_DEPTH + _DEPTH_OF_DOCUMENTS):
        raise _unfit(snapshot, _TOO_DEEP)
    # A lone surrogate becomes \udXXX, which is what JSON has for it.
    data = f"{json.dumps(content, ensure_ascii=False, indent=2)}\n".encode(
        errors="backslashreplace"
    )
    if len(data) > MAX_BYTES:
        raise _unfit(snapshot, _too_large(data))
    return data


def _unfit(snapshot: Snapshot, problem: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"what {snapshot.server} serves cannot be saved: {problem}")


def _too_large(data: bytes) -> str:
    return f"it has {len(data)} bytes, more than {MAX_BYTES}"


def load(data: bytes, name: str, *, now: datetime | None = None) -> Snapshot:
    """Return the snapshot in a file.

    Besides what `dump` writes it may be an `APIGroupDiscoveryList` of v2 or v2beta1, as servers
    answer at `/api` or `/apis`. The one that is not in it is among the snapshot's `failures`.

    Args:
        data: The content of the file.
        name: What errors call it, and the `server` of an answer, which does not say it.
        now: When the server gave an answer, which does not say it; None for the present.

    Raises:
        InvalidConfiguration: It is something else, or damaged; the text tells where.
    """
    document = _parsed(data, name)
    try:
        fields = as_fields(document)
        kind, api_version = text(fields, "kind"), text(fields, "apiVersion")
        is_own = (kind, api_version) == (KIND, API_VERSION)
        if is_deeper(document, MAX_DEPTH + (_DEPTH_OF_DOCUMENTS if is_own else 0)):
            raise InvalidConfiguration(f"{name}: {_TOO_DEEP}")
        if is_own:
            return _from_own(fields)
        if kind == AGGREGATED_KIND and api_version in _ANSWERS:
            return _from_answer(fields, name, now or datetime.now(UTC))
    except MisshapenError as error:
        raise InvalidConfiguration(f"{name}: {error}; {_SAVE}") from None
    raise InvalidConfiguration(f"{name}: {_unwanted(kind, api_version)}")


def parsed_own(data: bytes, name: str) -> Fields:
    """Return the fields of a file that `dump` has written; raise `InvalidConfiguration`."""
    fields = as_object(_parsed(data, name))
    if (fields.get("kind"), fields.get("apiVersion")) != (KIND, API_VERSION):
        raise InvalidConfiguration(f"{name}: it is not a {KIND} {API_VERSION}; {_SAVE}")
    return fields


def _parsed(data: bytes, name: str) -> object:
    if len(data) > MAX_BYTES:
        raise InvalidConfiguration(f"{name}: {_too_large(data)}")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise InvalidConfiguration(f"{name}: {_TOO_DEEP}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InvalidConfiguration(
            f"{name}: {place}: it is not JSON: {error.msg}; {_SAVE}"
        ) from None
    except ValueError as error:
        raise InvalidConfiguration(f"{name}: it is not JSON: {error}; {_SAVE}") from None


def _from_own(document: Fields) -> Snapshot:
    if document.get("documents") is None:
        raise MisshapenError("documents", "is missing")
    checked_at = notes.read_time(document, "checkedAt")
    groups = _at(document, "documents", lambda told: _of_both_paths(told, checked_at))
    return Snapshot(
        groups=notes.annotated(groups, _at(document, "notes", notes.read_notes)),
        server=text(document, "server"),
        checked_at=checked_at,
        failures=text_map(document, "failures"),
        freshness=_at(document, "freshness", notes.read_freshness),
    )


def _of_both_paths(documents: Fields, now: datetime) -> tuple[Group, ...]:
    groups: tuple[Group, ...] = ()
    for path in PATHS:
        if documents.get(path) is not None:
            groups += _at(documents, path, lambda part: read_groups(part, now))
    return notes.with_bytes(groups)


def _from_answer(document: Fields, name: str, now: datetime) -> Snapshot:
    groups = read_groups(document, now)
    by_path = groups_by_path(groups)
    return Snapshot(
        groups=tuple(group for part in by_path.values() for group in part),
        server=name,
        checked_at=now,
        failures={path: f"it is not in {name}" for path, part in by_path.items() if not part},
    )


def _at(fields: Fields, key: str, read: Callable[[Fields], T]) -> T:
    """Return what `read` makes of an object, by default an empty one."""
    value = inner(fields, key)
    try:
        return read(value or {})
    except MisshapenError as error:
        raise error.below(key) from None


def _unwanted(kind: str, api_version: str) -> str:
    if not kind:
        return f"it has no kind; {_SAVE}"
    seen = f"it is {kind} {api_version}".rstrip()
    if kind in _UNAGGREGATED:
        return f"{seen}, which does not tell the resources of groups; {_SAVE}"
    wanted = f"{KIND} {API_VERSION} and {AGGREGATED_KIND} of {AGGREGATED_GROUP}"
    return f"{seen}, and can only be {wanted} {' or '.join(VERSIONS)}; {_SAVE}"
