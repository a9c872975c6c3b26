"""What is asked of registrations and what is answered, apart from any transport."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from apidiscovery_service.access import LOCAL, Caller
from apidiscovery_service.sources.registrations.owners import Claimant, OwnerLease
from apidiscovery_service.sources.registrations.published import PlacedGroup
from apidiscovery_service.sources.registrations.record import Kind, Record

# Says why registrations of some API groups may not be changed; None if they may.
Permit: TypeAlias = Callable[[frozenset[str]], str | None]


def _anything(_api_groups: frozenset[str]) -> None:
    return None


# No group has this name: only who may change every group may change it.
_EVERY_GROUP = frozenset("*")


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks, and what they may change.

    Attributes:
        is_admin: Whether other users' owners are theirs as well.
    """

    caller: Caller = LOCAL
    permit: Permit = _anything
    is_admin: bool = False

    @property
    def may_change_every_group(self) -> bool:
        """Whether there is no group whose registrations they may not change."""
        return self.permit(_EVERY_GROUP) is None

    @property
    def claimant(self) -> Claimant:
        """Who they are to owners."""
        return Claimant(self.caller, self.is_admin)


@dataclass(frozen=True, slots=True)
class Reference:
    """Names a registration.

    Attributes:
        revision: The one that is expected, or that was there; None for any.
    """

    kind: Kind
    name: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """Groups to put under a name.

    Attributes:
        documents: OpenAPI documents as they were sent, by place of the group and version.
    """

    name: str
    groups: tuple[PlacedGroup, ...]
    owner: str = ""
    lease: OwnerLease | None = None
    expected: int | None = None
    documents: Mapping[int, Mapping[str, bytes]] = field(
        default_factory=dict[int, Mapping[str, bytes]]
    )


@dataclass(frozen=True, slots=True)
class Manifest:
    """Text as it stands in a file.

    Attributes:
        file: What to call it; empty for its place.
        list_name: The name for a discovery list in it.
    """

    content: bytes
    file: str = ""
    list_name: str = ""


@dataclass(frozen=True, slots=True)
class Application:
    """Manifests to take."""

    manifests: tuple[Manifest, ...]
    owner: str = ""
    lease: OwnerLease | None = None
    expected: tuple[Reference, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Which registrations to list; what is empty does not matter.

    Attributes:
        after: Kind and name of the last one of the page before.
        with_documents: Whether OpenAPI documents are sent, so that they count for a page.
    """

    kinds: frozenset[Kind] = frozenset()
    names: frozenset[str] = frozenset()
    owner: str = ""
    size: int = 0
    after: tuple[Kind, str] | None = None
    with_documents: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """A registration as it is.

    Attributes:
        revision: 0 when it is only as if it had been written.
        stale_since: RFC 3339; None while its owner is alive, empty when that is not known.
    """

    kind: Kind
    name: str
    revision: int
    record: Record
    stale_since: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Registrations, by kind and name.

    Attributes:
        next_after: What `Query.after` is for the next page; None when this is the last one.
    """

    registered: tuple[Registered, ...]
    next_after: tuple[Kind, str] | None


class Outcome(StrEnum):
    """What was done."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one registration."""

    registered: Registered
    outcome: Outcome
