"""Changes as they are remembered, and how long."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration

# The name of what this server itself serves, merged from its sources.
MERGED = ""

_AGE = re.compile(r"([0-9]+)(m|h|d)")
AGE_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_SIZE = re.compile(r"([0-9]+)(KiB|MiB|GiB)")
_SIZES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_MAX_AGE = timedelta(days=36500)


class ChangeKind(StrEnum):
    """What has changed."""

    GROUP = "Group"
    DOCUMENT = "Document"
    OPENAPI = "OpenAPI"
    STATE = "State"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        id: Rises with each change; no number is used twice.
        time: When it was seen, in UTC, to the millisecond; never before that of an earlier change.
        cluster: The name of the cluster; empty for what this server itself serves.
        kind: What has changed: a group; the document around the groups, which has their order; an
            OpenAPI document; or whether the cluster answers.
        name: The name of the group, empty for the core group; the path of an OpenAPI document; else
            empty.
        cause: Why, in one line.
        before: Hash of the content before; empty where there was none.
        after: Hash of the content from then on; empty where there is none.
        etag_before: The ETag of the aggregated document before; empty where there was none.
        etag_after: The ETag from then on.
    """

    id: int
    time: datetime
    cluster: str
    kind: ChangeKind
    name: str
    cause: str
    before: str
    after: str
    etag_before: str = ""
    etag_after: str = ""


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change that is to be written; attributes as those of `Change`.

    Attributes:
        completes: Whether the content says more about the same than the one before, so the change
            that led to that one has led to this one.
    """

    cluster: str
    kind: ChangeKind
    name: str
    cause: str
    before: str
    after: str
    etag_before: str = ""
    etag_after: str = ""
    completes: bool = False


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Selects changes: those that pass all of these.

    Attributes:
        clusters: Names; None for all.
        may_read: Whether changes of a cluster are selected, by its name; None for all.
        kinds: Kinds; nothing for all.
        groups: Names of groups, empty for the core group: changes of these and of their OpenAPI
            documents; None for all changes.
        since: The time of the first; None for the beginning.
        until: Only earlier ones; None for all until now.
    """

    clusters: tuple[str, ...] | None = None
    may_read: Callable[[str], bool] | None = None
    kinds: tuple[ChangeKind, ...] = ()
    groups: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None


EVERYTHING = ChangeFilter()


@dataclass(frozen=True, slots=True)
class Retention:
    """How long changes are kept; what is served now is kept however old it is.

    Attributes:
        age: The age at which they are forgotten.
        max_bytes: The size of the file at which the oldest are forgotten.
    """

    age: timedelta = timedelta(days=90)
    max_bytes: int = 2 * 2**30

    @classmethod
    def parse(cls, text: str) -> "Retention":
        """Read an age and a size such as `90d,2GiB`.

        Raises:
            InvalidConfiguration: It is not that.
        """
        age_text, _, size_text = text.partition(",")
        age, size = _AGE.fullmatch(age_text.strip()), _SIZE.fullmatch(size_text.strip())
        if age and size and int(age[1]) and int(size[1]):
            # A longer age than a date can have is for ever.
            length = min(int(age[1]), _MAX_AGE // AGE_UNITS[age[2]]) * AGE_UNITS[age[2]]
            return cls(length, int(size[1]) * _SIZES[size[2]])
        raise InvalidConfiguration(f"want an age and a size such as 90d,2GiB, got {text[:100]!r}")


class HistoryError(DiscoveryError):
    """The history cannot be read or written; the text may name its file."""

    public_text = "the history cannot be read now, try again; the log of the server has the reason"


class NotRecorded(HistoryError):
    """The history does not go back so far, or has nothing of that cluster.

    Attributes:
        since: Since when there is something; None if there is nothing.
    """

    public_text = ""  # its own

    def __init__(self, message: str, since: datetime | None) -> None:
        super().__init__(message)
        self.since = since


class NothingRecorded(NotRecorded):
    """The history has nothing of that cluster, at no time."""


class ContentDamaged(HistoryError):
    """A content does not have its hash any more; a retry cannot succeed."""

    public_text = ""  # its own


def from_milliseconds(number: int) -> datetime:
    """Return milliseconds of Unix time as a time in UTC."""
    return datetime.fromtimestamp(number / 1000, UTC)


def milliseconds(when: datetime) -> int:
    """Return a time as whole milliseconds of Unix time."""
    return int(when.timestamp() * 1000)
