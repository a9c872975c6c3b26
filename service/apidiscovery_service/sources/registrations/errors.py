"""Why a request is refused, besides fields that are wrong (`InvalidFields`)."""

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.sources.registrations.record import Kind
from apidiscovery_service.store import StoreUnavailable


class RevisionMismatch(DiscoveryError):
    """Another revision of a registration is there than the caller expected.

    Attributes:
        revision: What is there; 0 for nothing.
    """

    def __init__(self, kind: Kind, name: str, expected: int, revision: int) -> None:
        seen = f"it is at revision {revision}" if revision else "it is not there"
        super().__init__(f"{kind}/{name}: expected revision {expected}, but {seen}")
        self.kind = kind
        self.name = name
        self.revision = revision


class Denied(DiscoveryError):
    """The caller may not do this."""


class NotServed(StoreUnavailable):
    """What was asked for is in the store, but this process does not serve it yet."""

    reason = "late"
    told = (
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
