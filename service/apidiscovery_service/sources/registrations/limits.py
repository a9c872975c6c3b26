"""What requests to change registrations may ask for."""

from collections.abc import Iterator, Sequence

from apidiscovery_service.errors import FieldViolation
from apidiscovery_service.sources.registrations.errors import LimitExceeded
from apidiscovery_service.sources.registrations.names import wrong_name
from apidiscovery_service.sources.registrations.owners import OwnerLease
from apidiscovery_service.sources.registrations.requests import Publication, Reference

MAX_REFERENCES = 10_000

MIN_LEASE_S = 1.0
MAX_LEASE_S = 24 * 3600.0
MAX_REMOVAL_AFTER_S = 30 * 24 * 3600.0


def publication_violations(publication: Publication) -> Iterator[FieldViolation]:
    """Yield what is wrong with a publication, its groups aside."""
    if wrong := wrong_name(publication.name):
        yield FieldViolation("name", wrong)
    if not publication.groups:
        yield FieldViolation("groups", "want at least one group; what is not wanted is withdrawn")
    yield from owner_violations(publication.owner, publication.lease)


def owner_violations(owner: str, lease: OwnerLease | None) -> Iterator[FieldViolation]:
    """Yield what is wrong with the owner that a request names, and with its lease."""
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
    """Yield what is wrong with a withdrawal.

    Raises:
        LimitExceeded: It is of too many.
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
