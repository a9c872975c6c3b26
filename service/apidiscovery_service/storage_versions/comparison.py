"""Compares storage version hashes of discovery with the versions that API servers report.

Discovery publishes the hash of the storage version that it assumes for a resource. The same hash
can be computed from the version that all servers report.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from apidiscovery_service.core.model import CORE_GROUP, Resource
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.model import status_of

# The core group in names of StorageVersions.
_CORE = "core"


class HashVerdict(Enum):
    """The result of a comparison of two hashes."""

    SAME = auto()
    DIFFERENT = auto()
    # There is no common version, or discovery publishes no hash.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class HashComparison:
    """The hashes of a resource in discovery and by the reports of its servers.

    Attributes:
        name: Name of the StorageVersion.
        discovery_hash: Empty when discovery publishes none.
        reported_hash: Empty when there is no common version, or the kind is unknown.
    """

    name: str
    discovery_hash: str
    reported_hash: str

    @property
    def verdict(self) -> HashVerdict:
        """Whether both hashes are equal; UNKNOWN when one is empty."""
        if not self.discovery_hash or not self.reported_hash:
            return HashVerdict.UNKNOWN
        is_same = self.discovery_hash == self.reported_hash
        return HashVerdict.SAME if is_same else HashVerdict.DIFFERENT


def compare(
    objects: Iterable[tuple[str, Object]], snapshot: Snapshot
) -> tuple[HashComparison, ...]:
    """Return a comparison for each object whose resource is in discovery, in their order.

    Args:
        objects: StorageVersions with their names.
        snapshot: The discovery documents served.
    """
    return tuple(
        _compared(name, value, served)
        for name, value in objects
        if (served := list(_served(name, snapshot)))
    )


def _served(name: str, snapshot: Snapshot) -> Iterator[Resource]:
    """Yield a resource in each version that serves it, in order of preference."""
    group, _, resource = name.rpartition(".")
    document, key = (snapshot.core, CORE_GROUP) if group == _CORE else (snapshot.named, group)
    if published := document.by_name.get(key):
        for version in published.group.versions:
            yield from (each for each in version.resources if each.resource == resource)


def _compared(name: str, value: Object, served: list[Resource]) -> HashComparison:
    hashes = (each.storage_version_hash for each in served if each.storage_version_hash)
    # All versions of a resource have the same kind.
    kinds = (each.response_kind.kind for each in served if each.response_kind)
    common = status_of(value).common_encoding_version
    return HashComparison(name, next(hashes, ""), _hash(common, next(kinds, "")))


def _hash(api_version: str | None, kind: str) -> str:
    if not api_version or not kind:
        return ""
    group, _, version = api_version.rpartition("/")
    return storage_version_hash(group, version, kind)
