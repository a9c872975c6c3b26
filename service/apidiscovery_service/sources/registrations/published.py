"""Groups with their places, as a server publishes them or an applied discovery list brings them.

Their JSON form is a list of `{"group", "groupPriorityMinimum", "versionPriorities", "openapiV3"}`:
a group is an item of an APIGroupDiscoveryList, and follows its rules; all others may be absent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apidiscovery_service.core.model import Offer, Version
from apidiscovery_service.errors import FieldViolation
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.discovery_list import (
    InvalidField,
    Node,
    Path,
    path_text,
    read_list,
)
from apidiscovery_service.sources.priorities import ordered_offers
from apidiscovery_service.sources.registrations import openapi_documents as carried
from apidiscovery_service.sources.registrations.openapi_documents import CarriedDocument
from apidiscovery_service.sources.registrations.record import Object, as_list, as_object

# Source: k8s.io/kube-aggregator pkg/apis/apiregistration/validation/validation.go:
# ValidateAPIService.
MAX_GROUP_PRIORITY = 20_000
MAX_VERSION_PRIORITY = 1_000

# Enough to mend a document by; more would only be read by a machine.
MAX_VIOLATIONS = 100

# Stands in for what encloses the part that is looked at.
_ANY_VERSION: Object = {"version": "v1"}


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A group and its place.

    Attributes:
        group: An item of a discovery list as JSON.
        priority: groupPriorityMinimum; None for the default.
        version_priorities: One for each version; empty for the defaults.
        documents: OpenAPI documents by version, sound ones.
    """

    group: Object
    priority: int | None = None
    version_priorities: tuple[int, ...] = ()
    documents: Mapping[str, CarriedDocument] = field(default_factory=dict[str, CarriedDocument])

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
            fields["openapiV3"] = carried.to_json(placed.documents)
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
        carried.from_json(fields.get("openapiV3")),
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
        InvalidRecord: What is kept is no such document.
    """
    return {
        f"apis/{placed.name}/{version}" if placed.name else f"api/{version}": one.compressed()
        for placed in groups
        for version, one in placed.documents.items()
    }


def offers_of(groups: Sequence[PlacedGroup]) -> tuple[Offer, ...]:
    """Return what groups offer, in their order.

    A group without a priority has kube-apiserver's own or 1000, raised to the greatest after it,
    so that the order of the list is kept; its rank is its place. The same of its versions.

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
    """Return what is wrong with groups.

    Paths are such as `groups[0].group.versions[0].version`. What is wrong within one resource or
    version does not hide what is wrong in others.
    """
    found = [*_priority_violations(groups)]
    try:
        read_list(Node({"items": [placed.group for placed in groups]}))
    except InvalidField as error:
        nested = [
            violation
            for place, placed in enumerate(groups)
            for violation in _violations(("groups", place, "group"), placed.group)
        ]
        found += nested or [FieldViolation(path_text(_replaced(error.path)), str(error))]
    return found


def _replaced(path: Path) -> Path:
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


def _violations(path: Path, group: Object) -> list[FieldViolation]:
    """Return what is wrong with a group: in each version, else in the group around them."""
    found = [
        violation
        for place, version in enumerate(as_list(group.get("versions")))
        for violation in _version_violations((*path, "versions", place), version)
    ]
    wrong = _wrong({**group, "versions": [_ANY_VERSION]} if found else group, 2, path)
    return found if wrong is None else [*found, wrong]


def _version_violations(path: Path, version: JSONValue) -> list[FieldViolation]:
    """Return what is wrong with a version: in each resource, else in the version around them."""
    wrong = [
        _wrong(
            {"versions": [{**_ANY_VERSION, "resources": [resource]}]}, 6, (*path, "resources", n)
        )
        for n, resource in enumerate(as_list(as_object(version).get("resources")))
    ]
    around: JSONValue = {**as_object(version), "resources": []} if any(wrong) else version
    wrong.append(_wrong({"versions": [around]}, 4, path))
    return [violation for violation in wrong if violation is not None]


def _wrong(group: Object, depth: int, path: Path) -> FieldViolation | None:
    """Read a group by itself.

    Args:
        group: The group.
        depth: How much of a path in that document `path` takes the place of.
        path: Where the part stands that is looked at.
    """
    document: Object = {"items": [group]}
    try:
        read_list(Node(document))
    except InvalidField as error:
        return FieldViolation(path_text((*path, *error.path[depth:])), str(error))
    return None
