"""Groups with their priorities and OpenAPI documents, as servers publish and lists contain them.

Their JSON form is a list of `{"group", "groupPriorityMinimum", "versionPriorities", "openapiV3"}`:
a group is an item of an APIGroupDiscoveryList, and follows its rules; all others may be absent.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import zstandard
from apidiscovery_formats.json_values import as_list, as_object
from apidiscovery_formats.openapi.keys import key_of

from apidiscovery_service.core.model import Offer, Version
from apidiscovery_service.errors import FieldViolation
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.validation import (
    DEFAULT_LIMITS,
    InvalidDocuments,
    concerning,
    validate,
)
from apidiscovery_service.sources.discovery_list import read_list
from apidiscovery_service.sources.fields import InvalidField, Node, Path, path_text
from apidiscovery_service.sources.priorities import ordered_offers
from apidiscovery_service.sources.registrations.record import InvalidRecord, Object
from apidiscovery_service.store import MAX_VALUE_BYTES

# Source: k8s.io/kube-aggregator pkg/apis/apiregistration/validation/validation.go:
# ValidateAPIService.
MAX_GROUP_PRIORITY = 20_000
MAX_VERSION_PRIORITY = 1_000

# Enough for a person to correct a document by.
MAX_VIOLATIONS = 100

# A seventh smaller than at level 3, which is worth having where a registration has 1 MiB; it takes
# ten times as long, 30 ms for a document of 1.7 MB. Higher levels take much longer for little.
_LEVEL: Final = 12


@dataclass(frozen=True, slots=True)
class PublishedDocument:
    """A valid OpenAPI document as it is stored: compressed, in base64.

    Attributes:
        hash: SHA-512 of its JSON in upper-case hexadecimal.
        size: Bytes of its JSON.
        text: The JSON compressed by zstd, in base64.
    """

    hash: str
    size: int
    text: str

    def compressed(self) -> bytes:
        """Return the JSON compressed by zstd.

        Raises:
            InvalidRecord: The text is not that.
        """
        try:
            packed = base64.b64decode(self.text, validate=True)
            size = zstandard.frame_content_size(packed)
        except (ValueError, zstandard.ZstdError) as error:
            raise InvalidRecord(f"openapiV3: {error}") from None
        if not 0 < size <= DEFAULT_LIMITS.bytes:
            raise InvalidRecord("openapiV3: want a document compressed by zstd, with its size")
        return packed

    def json(self) -> bytes:
        """Return the JSON.

        Raises:
            InvalidRecord: The text is not such a document.
        """
        try:
            return zstandard.ZstdDecompressor().decompress(self.compressed())
        except zstandard.ZstdError as error:
            raise InvalidRecord(f"openapiV3: {error}") from None


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A group with its priorities and documents.

    Attributes:
        group: An item of a discovery list as JSON.
        priority: groupPriorityMinimum; None for the default.
        version_priorities: One for each version; empty for the defaults.
        documents: Valid OpenAPI documents by version.
    """

    group: Object
    priority: int | None = None
    version_priorities: tuple[int, ...] = ()
    documents: Mapping[str, PublishedDocument] = field(default_factory=dict[str, PublishedDocument])

    @property
    def name(self) -> str:
        """The name of the group, empty for the core group."""
        return str(as_object(self.group.get("metadata")).get("name") or "")


def to_json(groups: Sequence[PlacedGroup]) -> JSONValue:
    """Return the JSON form."""
    content: list[JSONValue] = []
    for placed in groups:
        fields: Object = {"group": placed.group}
        if placed.priority is not None:
            fields["groupPriorityMinimum"] = placed.priority
        if placed.version_priorities:
            fields["versionPriorities"] = list(placed.version_priorities)
        if placed.documents:
            # Older releases pass over this field, so the format of records is the same.
            fields["openapiV3"] = _documents_json(placed.documents)
        content.append(fields)
    return content


def from_json(content: JSONValue) -> list[PlacedGroup]:
    """Read the JSON form, as `to_json` wrote it."""
    return [_placed(as_object(fields)) for fields in as_list(content)]


def _placed(fields: Object) -> PlacedGroup:
    priority = fields.get("groupPriorityMinimum")
    listed = as_list(fields.get("versionPriorities"))
    return PlacedGroup(
        as_object(fields.get("group")),
        priority if isinstance(priority, int) else None,
        tuple(number for number in listed if isinstance(number, int)),
        _documents_from_json(fields.get("openapiV3")),
    )


def _documents_json(documents: Mapping[str, PublishedDocument]) -> JSONValue:
    return {
        version: {"hash": one.hash, "size": one.size, "zstd": one.text}
        for version, one in sorted(documents.items())
    }


def _documents_from_json(content: JSONValue) -> dict[str, PublishedDocument]:
    return {
        version: _document_from_json(as_object(fields))
        for version, fields in as_object(content).items()
    }


def _document_from_json(fields: Object) -> PublishedDocument:
    size = fields.get("size")
    return PublishedDocument(
        str(fields.get("hash") or ""),
        size if isinstance(size, int) else 0,
        str(fields.get("zstd") or ""),
    )


def of_list(document: Object) -> list[PlacedGroup]:
    """Return the groups of a valid discovery list; of their `metadata` only the name is kept."""
    return [_item(as_object(item)) for item in as_list(document.get("items"))]


def _item(item: Object) -> PlacedGroup:
    name = as_object(item.get("metadata")).get("name") or ""
    return PlacedGroup({"metadata": {"name": name}, "versions": item.get("versions")})


def documents_of(groups: Sequence[PlacedGroup]) -> dict[str, bytes]:
    """Return the OpenAPI documents of groups, compressed with zstd, by path of group-version.

    Raises:
        InvalidRecord: A document is not compressed by zstd.
    """
    return {
        key_of(placed.name, version): one.compressed()
        for placed in groups
        for version, one in placed.documents.items()
    }


def offers_of(groups: Sequence[PlacedGroup]) -> tuple[Offer, ...]:
    """Return what groups offer, in their order.

    A group without a priority has kube-apiserver's own or 1000, raised to the greatest after it,
    so that the order of the list is kept; its rank is its index. The same goes for its versions.

    Raises:
        InvalidField: A group is not valid, by the rules of a discovery list.
    """
    document: Object = {"items": [placed.group for placed in groups]}
    read = read_list(Node(document))
    of_groups: list[list[Offer]] = []
    greatest_after = 0
    for place in reversed(range(len(groups))):
        placed, (name, versions) = groups[place], read[place]
        of_group = _of_group(placed, name, versions, place)
        priority = placed.priority
        if priority is None:
            priority = max(of_group[0].group_priority, greatest_after)
        greatest_after = max(priority, greatest_after)
        of_groups.append([replace(offer, group_priority=priority) for offer in of_group])
    return tuple(offer for of_group in reversed(of_groups) for offer in of_group)


def _of_group(
    placed: PlacedGroup, name: str, versions: tuple[Version, ...], place: int
) -> list[Offer]:
    offers = ordered_offers([(name, versions)], place)
    if not placed.version_priorities:
        return offers
    return [
        replace(offer, version_priority=priority)
        for offer, priority in zip(offers, placed.version_priorities, strict=True)
    ]


def violations(groups: Sequence[PlacedGroup]) -> list[FieldViolation]:
    """Return the violations of groups.

    Paths are such as `groups[0].group.versions[0].version`. An error in one resource or version
    does not hide errors in others.
    """
    found = [*_priority_violations(groups)]
    try:
        read_list(Node({"items": [placed.group for placed in groups]}))
    except InvalidField as error:
        found += [
            FieldViolation(path_text(_in_groups(one.path)), str(one))
            for one in (error, *error.others)
        ]
    return found


def _in_groups(path: Path) -> Path:
    """Return a path into the list of items as one into the list of groups."""
    return ("groups", path[1], "group", *path[2:]) if len(path) > 1 else ("groups",)


def _priority_violations(groups: Sequence[PlacedGroup]) -> Iterator[FieldViolation]:
    for place, placed in enumerate(groups):
        path: Path = ("groups", place)
        if placed.priority is not None and not 1 <= placed.priority <= MAX_GROUP_PRIORITY:
            message = f"want 1 to {MAX_GROUP_PRIORITY}, got {placed.priority}"
            yield FieldViolation(path_text((*path, "groupPriorityMinimum")), message)
        for at, priority in enumerate(placed.version_priorities):
            if not 1 <= priority <= MAX_VERSION_PRIORITY:
                message = f"want 1 to {MAX_VERSION_PRIORITY}, got {priority}"
                yield FieldViolation(path_text((*path, "versionPriorities", at)), message)
        count, versions = len(placed.version_priorities), len(as_list(placed.group.get("versions")))
        if count not in (0, versions):
            message = f"want none, or one for each of {versions} versions, got {count}"
            yield FieldViolation(path_text((*path, "versionPriorities")), message)


def checked(
    groups: Sequence[PlacedGroup], documents: Mapping[int, Mapping[str, bytes]]
) -> tuple[list[PlacedGroup], list[FieldViolation]]:
    """Return groups with their valid documents, and the violations of groups and documents.

    It takes about 0.1 s for each MB of documents. Paths are such as `groups[0].group.versions` and
    `groups[0].openapiV3["v1"]`; a message about a document begins with the place in it.

    Args:
        groups: Without documents.
        documents: OpenAPI documents as they were sent, by index of the group and version.
    """
    wrong = violations(groups)
    complete: list[PlacedGroup] = []
    for place, placed in enumerate(groups):
        valid: dict[str, PublishedDocument] = {}
        for version, document in sorted(documents.get(place, {}).items()):
            outcome = _checked_document(place, placed, version, document)
            if isinstance(outcome, PublishedDocument):
                valid[version] = outcome
            else:
                wrong += outcome
        complete.append(replace(placed, documents=valid))
    return complete, wrong + _too_large(complete)


def _checked_document(
    place: int, placed: PlacedGroup, version: str, document: bytes
) -> PublishedDocument | list[FieldViolation]:
    field = _field(place, version)
    versions = map(as_object, as_list(placed.group.get("versions")))
    if version not in [one.get("version") for one in versions]:
        return [FieldViolation(field, "the group has no such version")]
    try:
        return _packed(document, placed.name, version)
    except InvalidDocuments as invalid:
        return [FieldViolation(field, str(error)) for error in invalid.errors]


def _too_large(groups: Sequence[PlacedGroup]) -> list[FieldViolation]:
    """Return a violation for each document if together they are too large for the store."""
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


def _packed(document: bytes, group: str, version: str) -> PublishedDocument:
    """Return a document of a group-version as it is stored.

    Raises:
        InvalidDocuments: It is not a valid document of this group-version.
    """
    canonical = validate(document)
    concerning(canonical, group, version)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(canonical)
    digest = hashlib.sha512(canonical).hexdigest().upper()
    return PublishedDocument(digest, len(canonical), base64.b64encode(packed).decode())
