"""What a server serves, as frozen facts: a snapshot of groups, versions and resources.

Everything is in the server's order, which is its order of preference. Fields are as in
`apidiscovery.k8s.io/v2`; properties derive the rest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias
from urllib.parse import quote

DiscoveryPath: TypeAlias = Literal["/api", "/apis"]

CORE_PATH: DiscoveryPath = "/api"
GROUPS_PATH: DiscoveryPath = "/apis"
PATHS = (CORE_PATH, GROUPS_PATH)  # of the two documents, also the keys of `Snapshot.failures`

NAMESPACED = "Namespaced"
NO_EXTRAS: Mapping[str, object] = {}
NO_FAILURES: Mapping[str, str] = {}


def _no_extras() -> Mapping[str, object]:
    return NO_EXTRAS


def _no_failures() -> Mapping[str, str]:
    return NO_FAILURES


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="replace")


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """Names a version of a group; the core group is the empty string.

    >>> str(GroupVersion("apps", "v1")), str(GroupVersion("", "v1"))
    ('apps/v1', 'v1')
    """

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Return the path of its unaggregated document, quoted."""
        group, version = _quoted(self.group), _quoted(self.version)
        return f"/apis/{group}/{version}" if self.group else f"/api/{version}"


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """Names a kind; the text is that of apimachinery `GroupVersionKind.String`."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """Names a resource; the text is that of apimachinery `GroupVersionResource.String`."""

    group: str
    version: str
    resource: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Resource={self.resource}"

    @property
    def group_resource(self) -> str:
        """Return the resource with its group, such as `deployments.apps`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class Current:
    """The information is that of the server's last answer."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The information is of an earlier time; the server cannot say whether it still holds.

    Attributes:
        since: When this client first noticed.
        reason: One line for people.
        retained: Whether this client kept what an earlier answer said, because the last had
            nothing; otherwise the server itself says that its answer is an old one.
    """

    since: datetime
    reason: str
    retained: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The group-version is served, but its resources have never been known here.

    Attributes:
        since: When this client first noticed.
        reason: One line for people.
    """

    since: datetime
    reason: str


Freshness: TypeAlias = Current | Stale | Unknown

CURRENT = Current()


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource of objects, such as `scale`.

    Attributes:
        name: Without the name of the resource.
        response_kind: As in `Resource`.
        accepted_types: Kinds that may be sent, where they differ from the response kind.
        extra: Fields of the document that this package does not know, by name.
    """

    name: str
    response_kind: GroupVersionKind | None
    verbs: tuple[str, ...]
    accepted_types: tuple[GroupVersionKind, ...] = ()
    extra: Mapping[str, object] = field(default_factory=_no_extras, hash=False, repr=False)


@dataclass(frozen=True, slots=True)
class Resource:
    """Objects of one kind as one group-version serves them.

    Attributes:
        gv: The group-version that serves it.
        name: The plural, as in paths.
        scope: `Namespaced`, `Cluster`, or whatever else a server says.
        response_kind: As in the document: group and version may be empty, which means those of
            `gv`; None where a server names no kind.
        storage_version_hash: Only from unaggregated documents.
        extra: Fields of the document that this package does not know, by name.
    """

    gv: GroupVersion
    name: str
    singular_name: str
    scope: str
    response_kind: GroupVersionKind | None
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    storage_version_hash: str = ""
    extra: Mapping[str, object] = field(default_factory=_no_extras, hash=False, repr=False)

    def __repr__(self) -> str:
        return f"<Resource {self.gv} {self.name}: {self.kind}, {self.scope}>"

    @property
    def kind(self) -> str:
        """Return the kind's name; empty where the server names none."""
        return self.response_kind.kind if self.response_kind else ""

    @property
    def gvk(self) -> GroupVersionKind:
        """Return the kind with its group and version, by default those of the group-version."""
        told = self.response_kind
        if told is None or not (told.group or told.version):
            return GroupVersionKind(self.gv.group, self.gv.version, self.kind)
        return told

    @property
    def gvr(self) -> GroupVersionResource:
        """Return the full name of the resource."""
        return GroupVersionResource(self.gv.group, self.gv.version, self.name)

    @property
    def is_namespaced(self) -> bool:
        """Whether objects are in namespaces; any other scope is that of the cluster."""
        return self.scope == NAMESPACED

    @property
    def path(self) -> str:
        """Return the path of the collection over all namespaces, quoted."""
        return f"{self.gv.path}/{_quoted(self.name)}"

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name."""
        return next((found for found in self.subresources if found.name == name), None)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a group.

    Attributes:
        resources: In the server's order; with `Stale` the last known ones.
        stated_freshness: As in the document, `Current`, `Stale` or another word; empty where it
            has none, as in unaggregated ones.
        extra: Fields of the document that this package does not know, by name.
    """

    gv: GroupVersion
    resources: tuple[Resource, ...] = ()
    freshness: Freshness = CURRENT
    stated_freshness: str = ""
    extra: Mapping[str, object] = field(default_factory=_no_extras, hash=False, repr=False)

    def __repr__(self) -> str:
        return f"<Version {self.gv}: {len(self.resources)} resources, {self.freshness}>"

    @property
    def name(self) -> str:
        """Return the version alone, such as `v1`."""
        return self.gv.version


@dataclass(frozen=True, slots=True)
class Group:
    """A group and its versions.

    Attributes:
        name: Empty for the core group.
        versions: The most preferred first.
        stated_preference: The preferred version of an unaggregated document; empty otherwise.
        extra: Fields of the document that this package does not know, by name.
    """

    name: str
    versions: tuple[Version, ...]
    stated_preference: str = ""
    extra: Mapping[str, object] = field(default_factory=_no_extras, hash=False, repr=False)

    def __repr__(self) -> str:
        versions = ", ".join(version.name for version in self.versions)
        return f"<Group {self.name!r}: {versions or 'no versions'}>"

    @property
    def preferred_version(self) -> str:
        """Return the version that the server prefers; empty for a group without versions.

        Source: client-go discovery/aggregated_discovery.go `convertAPIGroup`: the first that is
        not stale. Where all are stale, the first.
        """
        if self.stated_preference:
            return self.stated_preference
        current = (found for found in self.versions if found.freshness == CURRENT)
        chosen = next(current, self.versions[0] if self.versions else None)
        return chosen.name if chosen else ""

    def version(self, name: str) -> Version | None:
        """Return the version of that name."""
        return next((found for found in self.versions if found.name == name), None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one server serves, at one time.

    Attributes:
        groups: The core group first, then the others in the server's order.
        server: Its source: a URL, the address of a gRPC server, or the name of a file.
        checked_at: The time of the server's last answer.
        failures: Why `/api` or `/apis` is missing, by path: a name that is not found in such a
            snapshot may be served nevertheless.
        freshness: Of the whole: `Stale` when the server did not answer the last request, or said
            that its answer is an old one.
    """

    groups: tuple[Group, ...]
    server: str
    checked_at: datetime
    failures: Mapping[str, str] = field(default_factory=_no_failures, hash=False)
    freshness: Freshness = CURRENT

    def __repr__(self) -> str:
        return f"<Snapshot of {self.server}: {len(self.groups)} groups, {self.freshness}>"

    @property
    def versions(self) -> Iterator[Version]:
        """Yield every version of every group, in order of preference."""
        return (version for group in self.groups for version in group.versions)

    @property
    def resources(self) -> Iterator[Resource]:
        """Yield every resource of every version, in order of preference."""
        return (resource for version in self.versions for resource in version.resources)

    @property
    def troubled(self) -> tuple[Version, ...]:
        """Return the versions that are not current, in order of preference."""
        return tuple(version for version in self.versions if version.freshness != CURRENT)

    def group(self, name: str) -> Group | None:
        """Return the group of that name, the core group for the empty string."""
        return next((found for found in self.groups if found.name == name), None)

    def version(self, gv: GroupVersion) -> Version | None:
        """Return that version of that group."""
        group = self.group(gv.group)
        return group.version(gv.version) if group else None


def groups_by_path(groups: tuple[Group, ...]) -> dict[DiscoveryPath, tuple[Group, ...]]:
    """Return the groups in their order, by the path of their document; both paths are there."""
    return {
        CORE_PATH: tuple(group for group in groups if not group.name),
        GROUPS_PATH: tuple(group for group in groups if group.name),
    }


def path_of(group: str) -> DiscoveryPath:
    """Return the path of the document that lists a group."""
    return GROUPS_PATH if group else CORE_PATH
