"""Requests about registrations, their answers, errors and limits, apart from any transport."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from apidiscovery_service.access import LOCAL, Caller
from apidiscovery_service.errors import DiscoveryError, FieldViolation
from apidiscovery_service.kube.objects.formats import is_dns_subdomain
from apidiscovery_service.sources.registrations.published import PlacedGroup
from apidiscovery_service.sources.registrations.record import Record, RegistrationKind
from apidiscovery_service.store import StoreUnavailable

MAX_REFERENCES = 10_000

MIN_LEASE_S = 1.0
MAX_LEASE_S = 24 * 3600.0
MAX_REMOVAL_AFTER_S = 30 * 24 * 3600.0

# Of the name of a registration or owner.
_MAX_CHARACTERS = 253

# Returns why registrations of some API groups may not be changed; None if they may.
Permit: TypeAlias = Callable[[frozenset[str]], str | None]


def _anything(_api_groups: frozenset[str]) -> None:
    return None


# No group has this name, so only callers that may change every group may change it.
_EVERY_GROUP = frozenset("*")


@dataclass(frozen=True, slots=True)
class OwnerLease:
    """Time from the last renewal until an owner is stale, and from then until it is removed."""

    duration_s: float
    removal_after_s: float


@dataclass(frozen=True, slots=True)
class Requester:
    """The caller, and what they may change.

    Attributes:
        permit: Returns why registrations of groups may not be changed.
        is_admin: Whether they may use the owners of all users.
    """

    caller: Caller = LOCAL
    permit: Permit = _anything
    is_admin: bool = False

    @property
    def may_change_every_group(self) -> bool:
        """Whether they may change the registrations of every group."""
        return self.permit(_EVERY_GROUP) is None


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of a registration.

    Attributes:
        revision: The one that is expected, or that was there; None for any.
    """

    kind: RegistrationKind
    name: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """Groups to register under a name.

    Attributes:
        documents: OpenAPI documents as they were sent, by index of the group and version.
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
    """The text of a file.

    Attributes:
        file: Its name in errors; empty for its index.
        list_name: The name for a discovery list in it.
    """

    content: bytes
    file: str = ""
    list_name: str = ""


@dataclass(frozen=True, slots=True)
class Application:
    """Manifests to register."""

    manifests: tuple[Manifest, ...]
    owner: str = ""
    lease: OwnerLease | None = None
    expected: tuple[Reference, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Which registrations to list; empty fields select all.

    Attributes:
        after: Kind and name of the last one of the page before.
        with_documents: Whether OpenAPI documents are sent, and count for the size of a page.
    """

    kinds: frozenset[RegistrationKind] = frozenset()
    names: frozenset[str] = frozenset()
    owner: str = ""
    size: int = 0
    after: tuple[RegistrationKind, str] | None = None
    with_documents: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """A registration with its revision.

    Attributes:
        revision: 0 if it was not written.
        stale_since: RFC 3339; None while its owner is alive, empty when that is not known.
    """

    kind: RegistrationKind
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
    next_after: tuple[RegistrationKind, str] | None


class ApplyOutcome(StrEnum):
    """What applying a registration did."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of applying one registration."""

    registered: Registered
    outcome: ApplyOutcome


class RevisionMismatch(DiscoveryError):
    """Another revision of a registration is there than the caller expected.

    Attributes:
        revision: What is there; 0 for nothing.
    """

    def __init__(self, kind: RegistrationKind, name: str, expected: int, revision: int) -> None:
        seen = f"it is at revision {revision}" if revision else "it is not there"
        super().__init__(f"{kind}/{name}: expected revision {expected}, but {seen}")
        self.kind = kind
        self.name = name
        self.revision = revision


class Denied(DiscoveryError):
    """The caller may not do this."""


class NotServed(StoreUnavailable):
    """A change is in the store, but this process does not serve it yet."""

    reason = "late"
    public_text = (
        "the store has what was asked for, but this server does not serve it yet, for it has no"
        " news of the store; ask again, nothing is done twice"
    )


class NoSuchOwner(DiscoveryError):
    """There is no owner of that name, or none any more."""

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"there is no owner {owner!r}; what it had registered, if anything, was removed, and "
            "has to be published again"
        )
        self.owner = owner


class LimitExceeded(DiscoveryError):
    """The request asks for more than one request may."""


def wrong_name(name: str) -> str | None:
    """Return the reason why a name is not valid; None if it is a DNS subdomain."""
    if not name:
        return "required"
    if len(name) > _MAX_CHARACTERS:
        return f"want at most {_MAX_CHARACTERS} characters, got {len(name)}"
    if not is_dns_subdomain(name):
        return f"want a DNS subdomain in lower case, such as east.example.com, got {name!r}"
    return None


def publication_violations(publication: Publication) -> Iterator[FieldViolation]:
    """Yield the violations of a publication, apart from its groups."""
    if wrong := wrong_name(publication.name):
        yield FieldViolation("name", wrong)
    if not publication.groups:
        yield FieldViolation("groups", "want at least one group; what is not wanted is withdrawn")
    yield from owner_violations(publication.owner, publication.lease)


def owner_violations(owner: str, lease: OwnerLease | None) -> Iterator[FieldViolation]:
    """Yield the violations of the owner and lease of a request."""
    if owner and (wrong := wrong_name(owner)):
        yield FieldViolation("owner", wrong)
    if lease is None:
        return
    if not owner:
        yield FieldViolation("owner", "required, for there is a lease")
    if not MIN_LEASE_S <= lease.duration_s <= MAX_LEASE_S:
        message = f"want {MIN_LEASE_S:g} s to {MAX_LEASE_S:g} s, got {lease.duration_s:g} s"
        yield FieldViolation("lease.duration", message)
    if not 0 <= lease.removal_after_s <= MAX_REMOVAL_AFTER_S:
        message = f"want 0 s to {MAX_REMOVAL_AFTER_S:g} s, got {lease.removal_after_s:g} s"
        yield FieldViolation("lease.removal_after", message)


def withdrawal_violations(references: Sequence[Reference], owner: str) -> Iterator[FieldViolation]:
    """Yield the violations of a withdrawal.

    Raises:
        LimitExceeded: There are too many references.
    """
    if len(references) > MAX_REFERENCES:
        raise LimitExceeded(f"a request may withdraw {MAX_REFERENCES} registrations at most")
    for place, reference in enumerate(references):
        if not reference.name:
            yield FieldViolation(f"registrations[{place}].name", "required")
    if owner and (wrong := wrong_name(owner)):
        yield FieldViolation("owner", wrong)
    if not references and not owner:
        yield FieldViolation("registrations", "want at least one registration, or an owner")
