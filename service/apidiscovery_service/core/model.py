"""Groups, their versions, resources and subresources, frozen and independent of any encoding.

`None` and the empty tuple differ only where Kubernetes distinguishes them on the wire (`verbs`).
Sources: k8s.io/api apidiscovery/v2/types.go, k8s.io/apimachinery meta/v1/types.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from weakref import WeakKeyDictionary, ref

CORE_GROUP = ""


class Scope(StrEnum):
    """Whether objects of a resource live in namespaces; equal to its text, in sets as well."""

    __hash__ = str.__hash__

    CLUSTER = "Cluster"
    NAMESPACED = "Namespaced"


class Freshness(StrEnum):
    """Whether a version entry is what its server serves now; equal to its text, in sets as well."""

    __hash__ = str.__hash__

    CURRENT = "Current"
    STALE = "Stale"


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """Names a schema. Empty `group` and `version` mean those of the enclosing version entry."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Subresource:
    """An endpoint below an object, such as `scale`.

    Attributes:
        response_kind: None if the server does not say.
        accepted_types: Kinds that it accepts besides `response_kind`, in the server's order.
        verbs: In the server's order; None is written as JSON `null`, empty as `[]`.
    """

    subresource: str
    response_kind: GroupVersionKind | None
    verbs: tuple[str, ...] | None
    accepted_types: tuple[GroupVersionKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object that is served.

    Attributes:
        resource: The plural name in URLs.
        scope: `Cluster` or `Namespaced`; text, since an upstream may send anything.
        verbs: In the server's order; None is written as JSON `null`, empty as `[]`.
        storage_version_hash: Only in unaggregated documents; empty when the resource is not
            persisted or its storage version is not known.
    """

    resource: str
    response_kind: GroupVersionKind | None
    scope: str
    singular_resource: str
    verbs: tuple[str, ...] | None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    storage_version_hash: str = ""

    @property
    def is_made_up(self) -> bool:
        """Whether it is listed only as the parent of its subresources.

        Source: k8s.io/apiserver pkg/endpoints/installer.go:ConvertGroupVersionIntoToDiscovery,
        which adds such parents; the unaggregated list has no line for them.
        """
        kind = self.response_kind
        return self.verbs is None and (kind is None or not kind.kind)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Version:
    """What one version of a group serves.

    Attributes:
        freshness: `Current`, `Stale` or, from an upstream, anything else; empty is not written.
        listed: The names of the lines of the unaggregated list, such as `pods/log`, if their
            order differs from that of the resources.
    """

    version: str
    resources: tuple[Resource, ...] = ()
    freshness: str = Freshness.CURRENT
    listed: tuple[str, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Whether it has never answered: it is stale, and no resource of it is known."""
        return self.freshness == Freshness.STALE and not self.resources


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Group:
    """An API group; `name` is empty for the core group. Versions are in order of preference."""

    name: str
    versions: tuple[Version, ...]


_versions: WeakKeyDictionary[Version, ref[Version]] = WeakKeyDictionary()
_groups: WeakKeyDictionary[Group, ref[Group]] = WeakKeyDictionary()


def shared(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return equal groups, each the same object in all results of this function.

    Servers of one release serve equal groups, so many servers take the memory of one. Poller,
    follower and registry share the groups of one server. Versions are shared between groups, too.
    A shared group is freed when nothing uses it.
    """
    return tuple(map(_shared_group, groups))


def _shared_group(group: Group) -> Group:
    group = Group(group.name, tuple(map(shared_version, group.versions)))
    return _groups.setdefault(group, ref(group))() or group


def shared_version(version: Version) -> Version:
    """Return an equal version, the same object in all results of this function; see `shared`."""
    return _versions.setdefault(version, ref(version))() or version


class Precedence(IntEnum):
    """The precedence of sources that offer the same group-version: the lowest number wins.

    Source: k8s.io/apiserver pkg/endpoints/discovery/aggregated/handler.go, the `...Source`
    constants. `CATALOG` is our own, so that manifests of the operator win over the packaged
    catalogue.
    """

    AGGREGATOR = 0
    BUILTIN = 100
    CATALOG = 150
    CRD = 200


LAST_RANK = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Offer:
    """One group-version as a source offers it.

    Attributes:
        group_priority: Groups are sorted by the greatest of their versions in use, descending.
        version_priority: Versions of a group are sorted by it, descending.
        group_rank: Breaks ties of group priorities, ascending, before names do; groups of a list
            whose order is kept are ranked by their index.
        version_rank: The same for versions of the group.
        list_place: Priority and rank of the group in the unaggregated list, if they differ there.
    """

    group: str
    version: Version
    group_priority: int
    version_priority: int
    group_rank: int = LAST_RANK
    version_rank: int = LAST_RANK
    list_place: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """All that one source offers; a later contribution of the same source replaces it.

    Attributes:
        source: Unique name of the source; breaks ties of precedence, ascending.
        offers: At most one of each group-version.
    """

    source: str
    precedence: Precedence
    offers: tuple[Offer, ...]
