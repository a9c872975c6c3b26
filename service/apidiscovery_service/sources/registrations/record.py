"""The records of registrations and owners in the store: JSON with a format number.

Both have one prefix, so that its watch reports an owner before its registrations.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar, cast

import orjson

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.store import Entry, Guard
from apidiscovery_service.workers import run_sized

PREFIX = "registrations/"
OWNERS = "registrations/owners/"
FORMAT = 1

T = TypeVar("T")
Object: TypeAlias = dict[str, JSONValue]


class RegistrationKind(StrEnum):
    """The kinds of registrations, in the order of lists; the value is part of the key."""

    GROUPS = "groups"
    CRD = "crds"
    API_SERVICE = "apiservices"


KINDS = tuple(RegistrationKind)


class InvalidRecord(DiscoveryError):
    """A value in the store is not one that this release writes."""


@dataclass(frozen=True, slots=True)
class Record:
    """A registration in the store.

    Attributes:
        owner: Empty for none.
        owner_id: The id of the owner's life; a name that was removed may be used again.
        created: Time of the first registration, RFC 3339.
        content: A list of groups as `published` reads it, or a manifest.
        by: The user who wrote it last; empty when callers are not identified. The same content of
            another user is the same registration.
    """

    owner: str
    owner_id: str
    created: str
    content: JSONValue
    by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """An owner in the store.

    Attributes:
        id: Of this life of the owner, never used again.
        user: The user it belongs to; empty when callers were not identified.
        duration_s: Seconds without renewal until it is stale; None if it need not renew.
        removal_after_s: Seconds from then until it is removed.
        stale_since: RFC 3339; empty while it is alive.
        renewals: The number of renewals, so that every renewal is a change.
    """

    id: str
    user: str
    duration_s: float | None = None
    removal_after_s: float = 0.0
    stale_since: str = ""
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner of a registration that is written; all empty if it has none.

    Attributes:
        guard: Holds during this life of the owner.
    """

    owner: str = ""
    owner_id: str = ""
    guard: Guard | None = None


def key_of(kind: RegistrationKind, name: str) -> str:
    """Return the key of a registration."""
    return f"{PREFIX}{kind}/{name}"


def owner_key(owner: str) -> str:
    """Return the key of an owner."""
    return OWNERS + owner


def parse_key(key: str) -> tuple[RegistrationKind, str] | None:
    """Return kind and name of a registration; None for any other key."""
    kind, slash, name = key.removeprefix(PREFIX).partition("/")
    return (RegistrationKind(kind), name) if slash and name and kind in KINDS else None


def encode(record: Record) -> bytes:
    """Write a registration.

    Raises:
        TypeError: JSON has no form for a value in it.
    """
    return orjson.dumps(
        {
            "format": FORMAT,
            "owner": record.owner,
            "ownerId": record.owner_id,
            "created": record.created,
            "content": record.content,
            # Older releases pass over it, so the format of records is the same.
            **({"by": record.by} if record.by else {}),
        }
    )


def decode(value: bytes) -> Record:
    """Read a registration.

    Raises:
        InvalidRecord: It is not one, or of a newer format.
    """
    fields = _fields(value)
    content = fields.get("content")
    if not isinstance(content, dict | list):
        raise InvalidRecord("want content, got none")
    return Record(
        _text(fields, "owner"),
        _text(fields, "ownerId"),
        _moment(fields, "created"),
        cast("JSONValue", content),
        _text(fields, "by") if "by" in fields else "",
    )


def record_of(entry: Entry) -> Record:
    """Read an entry of a registration.

    Raises:
        InvalidRecord: It is not one, or of a newer format; the message has the key.
    """
    return _read(entry, decode)


async def read_record(entry: Entry) -> Record:
    """Return the result of `record_of`; large entries are read in a thread."""
    return await run_sized(len(entry.value), lambda: record_of(entry))


def owner_of(entry: Entry) -> OwnerRecord:
    """Read an entry of an owner; raises as `record_of`."""
    return _read(entry, decode_owner)


def _read(entry: Entry, decode_value: Callable[[bytes], T]) -> T:
    try:
        return decode_value(entry.value)
    except InvalidRecord as error:
        raise InvalidRecord(f"{entry.key} in the store cannot be read: {error}") from None


def encode_owner(record: OwnerRecord) -> bytes:
    """Write an owner."""
    return orjson.dumps({"format": FORMAT, **asdict(record)})


def decode_owner(value: bytes) -> OwnerRecord:
    """Read an owner.

    Raises:
        InvalidRecord: It is not one, or of a newer format.
    """
    fields = _fields(value)
    duration = fields.get("duration_s")
    return OwnerRecord(
        id=_text(fields, "id"),
        user=_text(fields, "user"),
        duration_s=None if duration is None else _number(fields, "duration_s"),
        removal_after_s=_number(fields, "removal_after_s"),
        stale_since=_moment(fields, "stale_since"),
        renewals=int(_number(fields, "renewals")),
    )


def _fields(value: bytes) -> Mapping[str, object]:
    try:
        fields = cast("object", orjson.loads(value))
    except ValueError as error:
        raise InvalidRecord(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidRecord("want an object")
    known = cast("Mapping[str, object]", fields)
    if known.get("format") != FORMAT:
        raise InvalidRecord(f"want format {FORMAT}, got {known.get('format')!r}")
    return known


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidRecord(f"{name}: want a string, got {type(value).__name__}")
    return value


def _moment(fields: Mapping[str, object], name: str) -> str:
    """Return a time in RFC 3339, or empty text."""
    text = _text(fields, name)
    try:
        if text:
            datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRecord(f"{name}: want a time, got {text[:100]!r}") from None
    return text


def _number(fields: Mapping[str, object], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRecord(f"{name}: want a number, got {type(value).__name__}")
    return float(value)
