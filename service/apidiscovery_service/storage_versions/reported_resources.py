"""What an API server says of its resources, and which entries that makes.

The order, what is left out and what can be decoded are those of k8s.io/apiserver
pkg/storageversion/manager.go: `UpdateStorageVersions`, `dedupResourceInfos` and
`decodableVersions`. The rules of fields are those of kubernetes/kubernetes
pkg/apis/apiserverinternal/validation/validation.go.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.objects import formats
from apidiscovery_service.storage_versions.agreement import Entry

MAX_RESOURCES = 5_000
MAX_VERSIONS = 100

# More would only be more of the same, and has to fit into an answer.
_MAX_VIOLATIONS = 50

_CORE = "core"


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """A resource in one version; `group` is empty for the core group."""

    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class ReportedResource:
    """What an API server does with a resource that it stores.

    Attributes:
        group: Empty for the core group.
        resource: The plural.
        encoding_version: The version in which it writes, `group/version`.
        decodable_versions: Those that it can read directly, in the order of their registration.
        served_versions: Those that it serves.
        equivalents: Where the same objects are served too.
    """

    group: str
    resource: str
    encoding_version: str
    decodable_versions: tuple[str, ...]
    served_versions: tuple[str, ...] = ()
    equivalents: tuple[GroupVersionResource, ...] = ()

    @property
    def name(self) -> str:
        """Of the StorageVersion: `group.resource`, with `core` for the core group."""
        return f"{self.group or _CORE}.{self.resource}"

    @property
    def all_decodable(self) -> tuple[str, ...]:
        """The versions that it can read, directly and then as equivalents, each once."""
        others = (f"{e.group}/{e.version}" if e.group else e.version for e in self.equivalents)
        return tuple(dict.fromkeys([*self.decodable_versions, *others]))

    @property
    def covered(self) -> set[tuple[str, str]]:
        """Groups and resources that are stored as one with this."""
        return {(self.group, self.resource), *((e.group, e.resource) for e in self.equivalents)}


def entries(api_server_id: str, resources: Sequence[ReportedResource]) -> dict[str, Entry]:
    """Return the entries of an API server by the names of the objects, in the order of a report.

    That is by group and resource. A resource that one before it covers, being its equivalent, has
    none. The same may be said twice.

    Raises:
        InvalidFields: Naming `resources` or fields below it, such as
            `resources[3].decodable_versions[0]`; the first fifty.
    """
    violations = tuple(islice(_violations(resources), _MAX_VIOLATIONS))
    if violations:
        raise InvalidFields(*violations)
    covered = set[tuple[str, str]]()
    made = dict[str, Entry]()
    for each in sorted(resources, key=lambda r: (r.group, r.resource)):
        if (each.group, each.resource) in covered:
            continue
        covered |= each.covered
        made[each.name] = Entry(
            api_server_id, each.encoding_version, each.all_decodable, each.served_versions
        )
    return made


def _violations(resources: Sequence[ReportedResource]) -> Iterator[FieldViolation]:
    if len(resources) > MAX_RESOURCES:
        yield FieldViolation(
            "resources", f"has {len(resources)} elements, must have no more than {MAX_RESOURCES}"
        )
        return
    first = dict[str, int]()
    for index, resource in enumerate(resources):
        place = f"resources[{index}]"
        same = first.setdefault(resource.name, index)
        if resources[same] != resource:
            yield FieldViolation(
                place, f"says of {resource.name} something else than resources[{same}]"
            )
        yield from _of_name(place, resource.group, resource.resource)
        yield from _of_versions(place, resource)
        yield from _of_equivalents(f"{place}.equivalents", resource.equivalents)


def _of_name(place: str, group: str, resource: str) -> Iterator[FieldViolation]:
    if group == _CORE:
        yield FieldViolation(f"{place}.group", "must be empty for the core group, not 'core'")
    elif group:
        yield from _malformed(f"{place}.group", group, formats.dns_subdomain(group))
    yield from _malformed(f"{place}.resource", resource, formats.dns1035_label(resource))


def _of_versions(place: str, resource: ReportedResource) -> Iterator[FieldViolation]:
    encoding = resource.encoding_version
    yield from _version(f"{place}.encoding_version", encoding)
    decodable_place = f"{place}.decodable_versions"
    yield from _set(decodable_place, resource.decodable_versions)
    if encoding not in resource.decodable_versions:
        yield FieldViolation(decodable_place, f"must include encoding_version {encoding!r}")
    served_place = f"{place}.served_versions"
    yield from _set(served_place, resource.served_versions)
    decodable = set(resource.all_decodable)
    for index, version in enumerate(resource.served_versions[:MAX_VERSIONS]):
        if version not in decodable:
            yield FieldViolation(
                f"{served_place}[{index}]", f"{version!r} must be one of the decodable versions"
            )


def _of_equivalents(
    place: str, equivalents: Sequence[GroupVersionResource]
) -> Iterator[FieldViolation]:
    if len(equivalents) > MAX_VERSIONS:
        yield _too_many(place, len(equivalents))
        return
    for index, each in enumerate(equivalents):
        yield from _of_name(f"{place}[{index}]", each.group, each.resource)
        errors = formats.dns1035_label(each.version)
        yield from _malformed(f"{place}[{index}].version", each.version, errors)


def _set(place: str, versions: Sequence[str]) -> Iterator[FieldViolation]:
    if len(versions) > MAX_VERSIONS:
        yield _too_many(place, len(versions))
        return
    first = dict[str, int]()
    for index, version in enumerate(versions):
        yield from _version(f"{place}[{index}]", version)
        if (same := first.setdefault(version, index)) != index:
            yield FieldViolation(f"{place}[{index}]", f"{version!r} is there at [{same}] already")


def _version(place: str, version: str) -> Iterator[FieldViolation]:
    yield from _malformed(place, version, formats.api_version(version))


def _malformed(place: str, value: str, errors: Sequence[str]) -> Iterator[FieldViolation]:
    if errors:
        yield FieldViolation(place, f"{value!r}: {'; '.join(errors)}")


def _too_many(place: str, count: int) -> FieldViolation:
    return FieldViolation(place, f"has {count} elements, must have no more than {MAX_VERSIONS}")
