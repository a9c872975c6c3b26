"""Whether discovery and API servers speak of the same storage version of a resource.

Discovery publishes the hash of the version in which it takes a resource to be stored; from the
version that all servers report the same hash can be made.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from apidiscovery_service.core.model import CORE_GROUP, Resource
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.status_fields import status_of

# What stands for the core group in names.
_CORE = "core"


class HashVerdict(Enum):
    """Whether two hashes are of the same storage version."""

    SAME = auto()
    DIFFERENT = auto()
    # There is no version that all write, or discovery publishes no hash.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class HashComparison:
    """What discovery publishes of a resource, beside what its servers report.

    Attributes:
        name: Of the StorageVersion.
        discovery_hash: Empty when discovery publishes none.
        reported_hash: Empty when no version is common, or the kind is not known.
    """

    name: str
    discovery_hash: str
    reported_hash: str

    @property
    def verdict(self) -> HashVerdict:
        """Whether both are of the same version."""
        if not self.discovery_hash or not self.reported_hash:
            return HashVerdict.UNKNOWN
        is_same = self.discovery_hash == self.reported_hash
        return HashVerdict.SAME if is_same else HashVerdict.DIFFERENT


def compare(
    objects: Iterable[tuple[str, Object]], snapshot: Snapshot
) -> tuple[HashComparison, ...]:
    """Return a comparison for each object whose resource discovery knows.

    Args:
        objects: StorageVersions with their names; the comparisons are in their order.
        snapshot: What discovery serves.
    """
    return tuple(
        _compared(name, value, served)
        for name, value in objects
        if (served := list(_served(name, snapshot)))
    )


def _served(name: str, snapshot: Snapshot) -> Iterator[Resource]:
    """Yield a resource as each version has it, in order of preference."""
    group, _, resource = name.rpartition(".")
    document, key = (snapshot.core, CORE_GROUP) if group == _CORE else (snapshot.named, group)
    if published := document.by_name.get(key):
        for version in published.group.versions:
            yield from (each for each in version.resources if each.resource == resource)


def _compared(name: str, value: Object, served: list[Resource]) -> HashComparison:
    hashes = (each.storage_version_hash for each in served if each.storage_version_hash)
    # The versions of a resource have one kind.
    kinds = (each.response_kind.kind for each in served if each.response_kind)
    common = status_of(value).common_encoding_version
    return HashComparison(name, next(hashes, ""), _hash(common, next(kinds, "")))


def _hash(api_version: str | None, kind: str) -> str:
    if not api_version or not kind:
        return ""
    group, _, version = api_version.rpartition("/")
    return storage_version_hash(group, version, kind)
