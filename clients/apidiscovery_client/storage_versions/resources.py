"""What an API server stores, and in which versions."""

from collections.abc import Iterator
from dataclasses import dataclass

from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.service.v1 import storage_version_pb2


@dataclass(frozen=True, slots=True)
class GroupResource:
    """A resource, whatever its version.

    Attributes:
        group: Empty for the core group.
        resource: Plural, in lower case.
    """

    group: str
    resource: str

    def __str__(self) -> str:
        """Return `resource.group`, as apimachinery runtime/schema `GroupResource.String` does."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """A resource of a version; `group` is empty for the core group."""

    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResource:
    """What an API server does with a resource that it stores.

    Attributes:
        group: Empty for the core group.
        resource: Plural, in lower case.
        encoding_version: In which it writes: `group/version`, `version` alone for the core group.
        decodable_versions: Which it can read, in the order of their registration, and among them
            `encoding_version`.
        served_versions: Which it serves; each one of the decodable.
        equivalents: Where the same objects are served too.

    Raises:
        ValueError: It has no name, or writes or serves a version that it does not read.
        TypeError: Its versions are a string.
    """

    group: str
    resource: str
    encoding_version: str
    decodable_versions: tuple[str, ...]
    served_versions: tuple[str, ...] = ()
    equivalents: tuple[GroupVersionResource, ...] = ()

    def __post_init__(self) -> None:
        if not self.resource:
            raise ValueError(f"a resource of group {self.group!r} has no name")
        for versions in (self.decodable_versions, self.served_versions):
            if isinstance(versions, str):
                raise TypeError(f"{self.group_resource}: {versions!r} is to be a tuple of versions")
        for version in (self.encoding_version, *self.served_versions):
            if version not in self.decodable_versions:
                readable = ", ".join(self.decodable_versions)
                raise ValueError(
                    f"{self.group_resource}: a server that does not read {version!r}, only"
                    f" {readable!r}, can neither write nor serve it"
                )

    @property
    def group_resource(self) -> GroupResource:
        """Return by which name it is reported."""
        return GroupResource(self.group, self.resource)

    def names(self) -> Iterator[GroupResource]:
        """Yield under which names its objects can be written: its own, then the equivalents."""
        yield self.group_resource
        for equivalent in self.equivalents:
            yield GroupResource(equivalent.group, equivalent.resource)

    def message(self) -> storage_version_pb2.ReportedResource:
        """Return what is sent in a report."""
        return storage_version_pb2.ReportedResource(
            group=self.group,
            resource=self.resource,
            encoding_version=self.encoding_version,
            decodable_versions=self.decodable_versions,
            served_versions=self.served_versions,
            equivalents=[
                meta_pb2.GroupVersionResource(group=e.group, version=e.version, resource=e.resource)
                for e in self.equivalents
            ],
        )
