"""Kinds by their names: those of a group, and all that a viewer sees, to be listed and searched."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from apidiscovery_service.core.model import Group, Resource
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.recent import Recent

_MAX_KEPT = 8


class Match(IntEnum):
    """How a name matches, the best first."""

    EXACT = 0
    PREFIX = 1
    PART = 2


@dataclass(frozen=True, slots=True)
class NamedKind:
    """A kind that is served somewhere.

    Attributes:
        group: Its group; empty for the core group.
        kind: Its name.
        resource: As its most preferred version has it.
        versions: Those with the kind, in their order.
        cluster: One of the clusters that serve it; empty where it is merged.
        names: All its names in lower case.
    """

    group: str
    kind: str
    resource: Resource
    versions: tuple[str, ...]
    cluster: str
    names: tuple[str, ...]


def kinds_of(group: Group, cluster: str = "") -> list[NamedKind]:
    """Return the kinds of a group by name."""
    found: dict[tuple[str, str], tuple[Resource, list[str]]] = {}
    for version in group.versions:
        for resource in version.resources:
            if not resource.is_made_up and resource.response_kind is not None:
                key = resource.response_kind.kind, resource.resource
                found.setdefault(key, (resource, []))[1].append(version.version)
    return [
        NamedKind(group.name, key[0], resource, tuple(versions), cluster, _names(key[0], resource))
        for key, (resource, versions) in sorted(found.items(), key=lambda item: item[0])
    ]


def _names(kind: str, resource: Resource) -> tuple[str, ...]:
    names = kind, resource.resource, resource.singular_resource, *resource.short_names
    return tuple(map(str.lower, names))


# The kinds of a group by its identity and the name of a cluster; it holds the group, so that no
# other one gets this identity.
_Known: TypeAlias = dict[tuple[int, str], tuple[Group, list[NamedKind]]]


@dataclass(frozen=True, slots=True)
class Names:
    """All names of some places.

    Attributes:
        kinds: In the order of groups, those merged first.
        groups: With one of the clusters that serve each; empty where it is merged.
    """

    kinds: tuple[NamedKind, ...]
    groups: Mapping[str, str]
    _known: _Known

    @classmethod
    def of(
        cls,
        merged: Iterable[Group],
        clusters: Mapping[str, Iterable[Group]],
        former: "Names | None" = None,
    ) -> "Names":
        """Return the names of merged groups, and of those of clusters by name.

        Groups that `former` has are not read again: of 3,000 definitions mostly one changes.
        """
        kinds: dict[tuple[str, str, str], NamedKind] = {}
        groups: dict[str, str] = {}
        before: _Known = former._known if former else {}  # noqa: SLF001 - of this class
        known: _Known = {}
        seen: set[int] = set()  # clusters of one release share their groups
        for cluster, served in (("", merged), *clusters.items()):
            for group in served:
                if id(group) not in seen:
                    seen.add(id(group))
                    groups.setdefault(group.name, cluster)
                    key = id(group), cluster
                    found = before.get(key) or (group, kinds_of(group, cluster))
                    known[key] = found
                    for one in found[1]:
                        kinds.setdefault((one.group, one.kind, one.resource.resource), one)
        return cls(tuple(kinds.values()), groups, known)

    def find_kinds(self, text: str) -> list[tuple[Match, NamedKind]]:
        """Return kinds with a name that equals, begins with or contains a text, in this order."""
        wanted = text.lower()
        found = [
            (match, kind) for kind in self.kinds if (match := _best(kind.names, wanted)) is not None
        ]
        return sorted(found, key=lambda each: each[0])

    def find_groups(self, text: str) -> list[str]:
        """Return groups whose name equals, begins with or contains a text, in this order."""
        wanted = text.lower()
        found = [
            (match, name)
            for name in self.groups
            if (match := _best((name.lower() or "core",), wanted)) is not None
        ]
        return [name for _, name in sorted(found)]


def _best(names: Iterable[str], wanted: str) -> Match | None:
    found = [name for name in names if wanted in name]
    if wanted in found:
        return Match.EXACT
    if any(name.startswith(wanted) for name in found):
        return Match.PREFIX
    return Match.PART if found else None


class NamesCache:
    """Keeps the names of the last few viewers, who mostly see the same. For the event loop."""

    def __init__(self) -> None:
        self._kept: Recent[Scope, tuple[object, Names]] = Recent(_MAX_KEPT)

    async def of(self, scope: Scope, snapshot: EncodedSnapshot) -> Names:
        """Return the names that are served now, and by clusters; they are made in a thread."""
        state = snapshot, scope.revision
        kept = self._kept.get(scope)
        if kept is None or kept[0] != state:
            merged = snapshot.snapshot
            groups = [p.group for p in (*merged.core.groups, *merged.named.groups)]
            clusters = {name: known.groups or () for name, known in scope.clusters.items()}
            former = kept[1] if kept else None
            kept = state, await asyncio.to_thread(Names.of, groups, clusters, former)
            self._kept.put(scope, kept)
        return kept[1]
