"""Finds kinds and groups by their names."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

from apidiscovery_service.core.model import Group
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.scope import Scope

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
        versions: Those with the kind, in their order.
        cluster: One of the clusters that serve it; empty where it is merged.
    """

    group: str
    kind: str
    resource: str
    singular: str
    short_names: tuple[str, ...]
    versions: tuple[str, ...]
    cluster: str = ""

    @property
    def names(self) -> str:
        """All its names in lower case, a line for each."""
        names = self.kind, self.resource, self.singular, *self.short_names
        return "\n".join(names).lower()


# A kind with what names it in a group, and its names as `NamedKind.names` has them.
_Entry: TypeAlias = tuple[tuple[str, str, str], str, NamedKind]


@dataclass(frozen=True, slots=True)
class Part:
    """The names of a group."""

    group: Group
    cluster: str
    kinds: tuple[_Entry, ...]

    @classmethod
    def of(cls, group: Group, cluster: str) -> "Part":
        kinds = _kinds(group, cluster)
        return cls(
            group,
            cluster,
            tuple(((group.name, one.kind, one.resource), one.names, one) for one in kinds),
        )


@dataclass(frozen=True, slots=True)
class Names:
    """All names of some places.

    Attributes:
        kinds: With their names in lower case; in the order of groups, those merged first.
        groups: With one of the clusters that serve each; empty where it is merged.
        parts: Of which they are made, by identity of the group.
    """

    kinds: Iterable[tuple[str, NamedKind]]
    groups: Mapping[str, str]
    parts: Mapping[int, Part]

    @classmethod
    def of(
        cls,
        merged: Iterable[Group],
        clusters: Mapping[str, Iterable[Group]],
        former: "Names | None" = None,
    ) -> "Names":
        """Return the names of what is merged, and of clusters by name.

        Args:
            merged: What is merged.
            clusters: The groups of clusters.
            former: Names of a moment ago, whose groups are mostly the same.
        """
        kinds: dict[tuple[str, str, str], tuple[str, NamedKind]] = {}
        groups: dict[str, str] = {}
        known: Mapping[int, Part] = former.parts if former is not None else {}
        parts: dict[int, Part] = {}
        for cluster, served in (("", merged), *clusters.items()):
            for group in served:
                if id(group) in parts:  # clusters of one release share their groups
                    continue
                part = known.get(id(group))
                if part is None or part.cluster != cluster:
                    part = Part.of(group, cluster)
                parts[id(group)] = part
                groups.setdefault(group.name, cluster)
                for key, names, kind in part.kinds:
                    if key not in kinds:
                        kinds[key] = names, kind
        return cls(kinds.values(), groups, parts)

    def find_kinds(self, text: str) -> list[tuple[Match, NamedKind]]:
        """Return the kinds with a name that a text is, begins, or is a part of; the best first."""
        wanted = text.lower()
        found = [
            (match, place, kind)
            for place, (names, kind) in enumerate(self.kinds)
            if wanted in names and (match := _best(names.split("\n"), wanted)) is not None
        ]
        return [(match, kind) for match, _, kind in sorted(found, key=lambda each: each[:2])]

    def find_groups(self, text: str) -> list[str]:
        """Return the groups whose name a text is, begins, or is a part of; the best first."""
        wanted = text.lower()
        found = [
            (match, name)
            for name in self.groups
            if (match := _best((name.lower() or "core",), wanted)) is not None
        ]
        return [name for _, name in sorted(found)]


def _best(names: Iterable[str], wanted: str) -> Match | None:
    best: Match | None = None
    for name in names:
        if wanted in name:
            match = Match.PART
            if name.startswith(wanted):
                match = Match.EXACT if name == wanted else Match.PREFIX
            best = match if best is None else min(best, match)
    return best


def _kinds(group: Group, cluster: str) -> Iterator[NamedKind]:
    found: dict[tuple[str, str], NamedKind] = {}
    for version in group.versions:
        for resource in version.resources:
            if resource.is_made_up or resource.response_kind is None:
                continue
            key = resource.response_kind.kind, resource.resource
            known = found.get(key) or NamedKind(
                group.name,
                *key,
                resource.singular_resource,
                resource.short_names,
                (),
                cluster,
            )
            found[key] = replace(known, versions=(*known.versions, version.version))
    yield from found.values()


class NamesCache:
    """Keeps the names of the last few viewers, who mostly see the same. For the event loop."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Scope, tuple[object, Names]] = OrderedDict()

    def of(self, scope: Scope, snapshot: EncodedSnapshot) -> Names:
        """Return the names that are served now, and by clusters."""
        state = snapshot, scope.revision
        kept = self._kept.get(scope)
        if kept is None or kept[0] != state:
            merged = snapshot.snapshot
            groups = [p.group for p in (*merged.core.groups, *merged.named.groups)]
            clusters = {name: known.groups or () for name, known in scope.clusters.items()}
            former = kept[1] if kept else None
            kept = self._kept[scope] = state, Names.of(groups, clusters, former)
        self._kept.move_to_end(scope)
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return kept[1]
