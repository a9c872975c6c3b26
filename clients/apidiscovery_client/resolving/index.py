"""Every name under which the resources of a snapshot are known, and their order of preference."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apidiscovery_client.model import (
    CURRENT,
    Group,
    GroupVersion,
    Resource,
    Snapshot,
    Unknown,
    Version,
)

ALWAYS_FIRST = GroupVersion("", "v1")


@dataclass(frozen=True, slots=True)
class Table:
    """The kinds of one group-version.

    Attributes:
        rank: How late the group-version comes in the order of preference.
        kinds: The resource of each kind, also by the kind in lower case. As in client-go it is
            the last one, where several have the same kind.
    """

    rank: int
    version: Version
    kinds: dict[str, Resource]


class Index:
    """The names of a snapshot's resources; a resource without a kind has none.

    Names that client-go makes up, as `podlists` for each kind's list, are left out: no server
    serves them.

    Attributes:
        tables: Every group-version, the most preferred first.
        groups: The same by group.
        words: Resources by plural and singular name, each list in the server's order; where a
            server tells no singular name it is the kind in lower case.
        short_names: Resources by short name, in the server's order.
        odd_kinds: Resources by their kind in lower case, where that is neither of their names.
        categories: Resources by category, in the server's order.
        parents: Resources without a kind by plural name: they are not served themselves, their
            subresources are.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.tables = _tables(snapshot.groups)
        self.groups: defaultdict[str, list[Table]] = defaultdict(list)
        for gv, table in self.tables.items():
            self.groups[gv.group].append(table)
        self.words: defaultdict[str, list[Resource]] = defaultdict(list)
        self.short_names: defaultdict[str, list[Resource]] = defaultdict(list)
        self.odd_kinds: defaultdict[str, list[Resource]] = defaultdict(list)
        self.categories: defaultdict[str, list[Resource]] = defaultdict(list)
        self.parents: defaultdict[str, list[Resource]] = defaultdict(list)
        for version in _in_listed_order(snapshot.groups):
            self._add(self.tables[version.gv].kinds, version.resources)

    def _add(self, kinds: dict[str, Resource], resources: Iterable[Resource]) -> None:
        # Once for each of thousands of resources: local names, and no call where it can be helped.
        words, short_names, categories = self.words, self.short_names, self.categories
        for resource in resources:
            name, told = resource.name, resource.response_kind
            if told is None or not told.kind:
                self.parents[name].append(resource)
                continue
            lower = told.kind.lower()
            singular = resource.singular_name or lower
            kinds[lower] = kinds[told.kind] = resource
            words[name].append(resource)
            if singular != name:
                words[singular].append(resource)
            if lower not in (singular, name):
                self.odd_kinds[lower].append(resource)
            for short_name in resource.short_names:
                short_names[short_name].append(resource)
            for category in resource.categories:
                categories[category].append(resource)

    def rank(self, resource: Resource) -> int:
        """Return how late the resource's group-version comes in the order of preference."""
        return self.tables[resource.gv].rank

    def in_order(self, resources: Iterable[Resource]) -> list[Resource]:
        """Return resources with the most preferred first, in the server's order otherwise."""
        return sorted(resources, key=self.rank)

    def unknown(self) -> list[Table]:
        """Return the group-versions whose resources are not known, in order of preference."""
        return [
            table for table in self.tables.values() if isinstance(table.version.freshness, Unknown)
        ]


def in_preferred_order(group: Group) -> list[Version]:
    """Return a group's versions with the preferred one first and those that do not answer last.

    kubectl does not know the latter at all: of one group-resource it takes the version that
    answers. Source: client-go restmapper/discovery.go `NewDiscoveryRESTMapper`.
    """
    preferred = group.preferred_version
    return sorted(
        group.versions,
        key=lambda version: (version.freshness != CURRENT, version.name != preferred),
    )


def _tables(groups: Iterable[Group]) -> Mapping[GroupVersion, Table]:
    """Return every group-version in order of preference: v1 of the core group, then by group."""
    ordered = [version for group in groups for version in in_preferred_order(group)]
    ordered.sort(key=lambda version: version.gv != ALWAYS_FIRST)
    return {version.gv: Table(rank, version, {}) for rank, version in enumerate(ordered)}


def _in_listed_order(groups: Iterable[Group]) -> Iterable[Version]:
    """Yield versions as the server lists them, those that do not answer last in each group."""
    for group in groups:
        yield from sorted(group.versions, key=lambda version: version.freshness != CURRENT)
