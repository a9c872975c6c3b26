"""What is published, as it is to be kept: everything in it looked at."""

from collections.abc import Sequence
from dataclasses import replace

from apidiscovery_service.errors import FieldViolation
from apidiscovery_service.openapi.validation import InvalidDocuments
from apidiscovery_service.sources.registrations import published
from apidiscovery_service.sources.registrations.openapi_documents import CarriedDocument, carried
from apidiscovery_service.sources.registrations.published import PlacedGroup
from apidiscovery_service.sources.registrations.record import as_list, as_object
from apidiscovery_service.sources.registrations.requests import Publication
from apidiscovery_service.store import MAX_VALUE_BYTES


def checked(publication: Publication) -> tuple[list[PlacedGroup], list[FieldViolation]]:
    """Return groups with the documents that they carry, and what is wrong with the one or other.

    It takes about 0.1 s for each MB of documents. Paths are such as `groups[0].group.versions` and
    `groups[0].openapiV3["v1"]`; a message about a document begins with the place in it.
    """
    violations = published.violations(publication.groups)
    kept: list[PlacedGroup] = []
    for place, placed in enumerate(publication.groups):
        sound: dict[str, CarriedDocument] = {}
        for version, document in sorted(publication.documents.get(place, {}).items()):
            outcome = _document(place, placed, version, document)
            if isinstance(outcome, CarriedDocument):
                sound[version] = outcome
            else:
                violations += outcome
        kept.append(replace(placed, documents=sound))
    return kept, violations + _too_large(kept)


def _document(
    place: int, placed: PlacedGroup, version: str, document: bytes
) -> CarriedDocument | list[FieldViolation]:
    field = _field(place, version)
    versions = map(as_object, as_list(placed.group.get("versions")))
    if version not in [one.get("version") for one in versions]:
        return [FieldViolation(field, "the group has no such version")]
    try:
        return carried(document, placed.name, version)
    except InvalidDocuments as invalid:
        return [FieldViolation(field, str(error)) for error in invalid.errors]


def _too_large(groups: Sequence[PlacedGroup]) -> list[FieldViolation]:
    """Return a violation for each document if they do not fit into a value of the store."""
    sizes = {
        _field(place, version): len(document.text)
        for place, placed in enumerate(groups)
        for version, document in placed.documents.items()
    }
    total = sum(sizes.values())
    if total <= MAX_VALUE_BYTES:
        return []
    message = (
        f"too large to be kept: {{}} bytes once compressed, of {total} of all documents, "
        f"want at most {MAX_VALUE_BYTES} for the whole registration"
    )
    largest = sorted(sizes, key=lambda field: -sizes[field])
    return [FieldViolation(field, message.format(sizes[field])) for field in largest]


def _field(place: int, version: str) -> str:
    return f'groups[{place}].openapiV3["{version[:100]}"]'
