"""Views over clusters: all that any of them serves, and what all of them serve. Pure.

What merges, and in which order, is what kube-apiserver does with its peers (KEP-4020):
k8s.io/apiserver pkg/endpoints/discovery/aggregated/peer_aggregated_handler.go:mergeResources and
k8s.io/apimachinery pkg/util/sort/sort.go:MergePreservingRelativeOrder.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TypeVar

from apidiscovery_service.core.model import (
    Freshness,
    Group,
    GroupVersionKind,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_service.fleet.group_forms import Forms, GroupForms, Member

T = TypeVar("T")


class ViewKind(StrEnum):
    """Which group-versions a view has."""

    UNION = "union"
    COMMON = "common"


def union(members: Iterable[Member]) -> tuple[Group, ...]:
    """Return every group-version that any cluster serves, its resources merged.

    A version is `Stale` where it would be another without the clusters that are.
    """
    return _of(ViewKind.UNION, members)


def common(members: Iterable[Member]) -> tuple[Group, ...]:
    """Return what clients can use in every cluster: what all have, of the same kind and scope.

    Resources keep the verbs, subresources, short names and categories that all have. What a cluster
    of which nothing is known might deny is `Stale`, never absent.
    """
    return _of(ViewKind.COMMON, members)


def _of(kind: ViewKind, members: Iterable[Member]) -> tuple[Group, ...]:
    return Merger(kind).merged(members)


class Merger:
    """Merges clusters into a view; only groups whose forms have changed are merged again.

    Args:
        kind: Union or common.
    """

    def __init__(self, kind: ViewKind) -> None:
        self._is_union = kind is ViewKind.UNION
        self._forms = GroupForms()
        self._lists: tuple[tuple[str, ...], ...] = ()
        self._names: tuple[str, ...] = ()
        # Each group with the forms it was merged from; None for a group with nothing in common.
        self._made: dict[str, tuple[Forms, Group | None]] = {}

    def merged(self, changed: Iterable[Member], gone: Iterable[str] = ()) -> tuple[Group, ...]:
        """Return the groups of the view.

        Args:
            changed: Clusters that are new or changed, in any order.
            gone: The names of removed ones.
        """
        touched = self._forms.update(changed, gone)
        lists = self._forms.lists()
        if lists != self._lists:
            self._lists = lists
            self._names = tuple(relative_order(lists) if self._is_union else _names_in_all(lists))
        wanted = dict.fromkeys(self._names)
        for name in self._made.keys() - wanted:
            del self._made[name]
        for name in wanted:
            if name in touched or name not in self._made:
                self._make(name)
        found = [made[1] for name in wanted if (made := self._made.get(name))]
        return tuple(self._stale_where_unsure(group for group in found if group is not None))

    def _make(self, name: str) -> None:
        forms = self._forms.of(name)
        if not forms:  # clusters may serve it, but none is known to
            self._made.pop(name, None)
            return
        made = self._made.get(name)
        if made is None or made[0] != forms:
            group = _union_of(forms) if self._is_union else _common_of(forms)
            self._made[name] = forms, group

    def _stale_where_unsure(self, groups: Iterable[Group]) -> Iterable[Group]:
        unsure = frozenset[str]() if self._is_union else self._forms.unknown()
        return (
            _all_stale(group) if unsure is None or group.name in unsure else group
            for group in groups
        )


def _union_of(forms: Forms) -> Group:
    """Return a group with all that any cluster serves."""
    # A cluster that serves what an earlier one does adds nothing.
    known = {each: _normal(each[0]) for each in dict.fromkeys(forms)}
    merged = _merged_groups(known.values())
    fresh = [
        current
        for (_, is_stale), group in known.items()
        if not is_stale and (current := _current(group)).versions
    ]
    certain = {v.version: v for v in _merged_groups(fresh).versions} if fresh else {}
    return Group(
        merged.name, tuple(_as_fresh_as(v, certain.get(v.version)) for v in merged.versions)
    )


def _common_of(forms: Forms) -> Group | None:
    """Return a group with all that every cluster serves; None for nothing."""
    groups = [(_normal(group), is_stale) for group, is_stale in dict.fromkeys(forms)]
    lists = [[version.version for version in group.versions] for group, _ in groups]
    found: list[Version] = []
    for name in _names_in_all(lists):
        versions = [
            (version, is_stale)
            for group, is_stale in groups
            for version in group.versions
            if version.version == name
        ]
        # One that has never answered denies nothing.
        known = [version for version, _ in versions if not version.is_unknown]
        if known and (common := _common_version(known)).resources:
            is_sure = len(known) == len(versions) and not any(stale for _, stale in versions)
            found.append(common if is_sure else _stale(common))
    return Group(forms[0][0].name, tuple(found)) if found else None


def relative_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return all names once, in an order that keeps that of each list; sorted where none does.

    Where the lists leave it open, names are in the order of the alphabet.
    """
    every = dict.fromkeys(name for one in lists for name in one)
    for one in lists:
        if len(one) == len(every):
            return list(one)
    graph = TopologicalSorter[str](dict.fromkeys(every, ()))
    for before, after in {pair for one in lists for pair in pairwise(one)}:
        graph.add(after, before)
    try:
        graph.prepare()
    except CycleError:
        return sorted(every)
    ordered: list[str] = []
    ready = list(graph.get_ready())
    heapq.heapify(ready)
    while ready:
        name = heapq.heappop(ready)
        ordered.append(name)
        graph.done(name)
        for each in graph.get_ready():
            heapq.heappush(ready, each)
    return ordered


def _normal(group: Group) -> Group:
    """Return a group with a singular name for every kind, which servers before 1.27 do not send.

    It is the one that client-go takes then. Source: client-go restmapper/discovery.go
    `NewDiscoveryRESTMapper`.
    """
    return Group(
        group.name,
        tuple(
            replace(version, resources=tuple(map(_with_singular, version.resources)))
            for version in group.versions
        ),
    )


def _with_singular(resource: Resource) -> Resource:
    kind = resource.response_kind
    if resource.singular_resource or kind is None:
        return resource
    return replace(resource, singular_resource=kind.kind.lower())


def _names_in_all(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the names that are in every list, in the order that the lists agree on."""
    in_all = set(lists[0]).intersection(*lists[1:]) if lists else set[str]()
    return [name for name in relative_order(lists) if name in in_all]


def _current(group: Group) -> Group:
    """Return a group without the versions that are not current."""
    return Group(group.name, tuple(v for v in group.versions if v.freshness != Freshness.STALE))


def _all_stale(group: Group) -> Group:
    return Group(group.name, tuple(map(_stale, group.versions)))


def _as_fresh_as(version: Version, certain: Version | None) -> Version:
    is_certain = certain is not None and certain.resources == version.resources
    return replace(version, freshness=Freshness.CURRENT) if is_certain else _stale(version)


def _stale(version: Version) -> Version:
    return replace(version, freshness=Freshness.STALE)


# Union.


def _merged_groups(groups: Iterable[Group]) -> Group:
    """Return groups of one name as one, each merged into those before it."""

    def merge(before: Group, after: Group) -> Group:
        return Group(before.name, _merged(before.versions, after.versions, _version_name, _both))

    return reduce(merge, groups)


def _merged(
    before: tuple[T, ...],
    after: tuple[T, ...],
    name_of: Callable[[T], str],
    merge: Callable[[T, T], T],
) -> tuple[T, ...]:
    """Return the items of both by name, those of the same name merged."""
    if before == after:
        return before
    found = {name_of(each): each for each in before}
    for each in after:
        name = name_of(each)
        found[name] = merge(found[name], each) if name in found else each
    order = relative_order([list(map(name_of, before)), list(map(name_of, after))])
    return tuple(found[name] for name in order)


def _version_name(version: Version) -> str:
    return version.version


def _resource_name(resource: Resource) -> str:
    return resource.resource


def _both(before: Version, after: Version) -> Version:
    resources = _merged(before.resources, after.resources, _resource_name, _either)
    return Version(before.version, resources, before.freshness)


def _either(before: Resource, after: Resource) -> Resource:
    """Return a resource with what either has; the earlier cluster says what it is.

    Verbs and subresources are sorted where they differ. Source: peer_aggregated_handler.go
    `mergeResourceCapabilities`.
    """
    if before == after:
        return before
    if before.storage_version_hash != after.storage_version_hash:
        before = replace(before, storage_version_hash="")
    subresources = {each.subresource: each for each in (*after.subresources, *before.subresources)}
    verbs = sorted({*(before.verbs or ()), *(after.verbs or ())})
    return replace(
        before,
        verbs=tuple(verbs) or None,
        subresources=tuple(subresources[name] for name in sorted(subresources)),
    )


# Common.


def _common_version(versions: Sequence[Version]) -> Version:
    by_name = [{each.resource: each for each in version.resources} for version in versions]
    shared = (
        _common_resource([resources[name] for resources in by_name])
        for name in _names_in_all([list(resources) for resources in by_name])
    )
    is_stale = any(version.freshness == Freshness.STALE for version in versions)
    return Version(
        versions[0].version,
        tuple(resource for resource in shared if resource is not None),
        Freshness.STALE if is_stale else Freshness.CURRENT,
    )


def _common_resource(resources: Sequence[Resource]) -> Resource | None:
    first = resources[0]
    if len({(each.response_kind, each.scope) for each in resources}) > 1:
        return None
    shared = replace(
        first,
        verbs=_in_all([each.verbs or () for each in resources]) or None,
        short_names=_in_all([each.short_names for each in resources]),
        categories=_in_all([each.categories for each in resources]),
        subresources=tuple(_common_subresources([each.subresources for each in resources])),
        storage_version_hash="",
    )
    return shared if shared.verbs or shared.subresources else None


def _common_subresources(lists: Sequence[tuple[Subresource, ...]]) -> Iterable[Subresource]:
    by_name = [{each.subresource: each for each in one} for one in lists]
    for name in _names_in_all([list(one) for one in by_name]):
        found = [one[name] for one in by_name]
        kinds: set[GroupVersionKind | None] = {each.response_kind for each in found}
        verbs = _in_all([each.verbs or () for each in found])
        if len(kinds) == 1 and verbs:
            types = _in_all([each.accepted_types for each in found])
            yield replace(found[0], verbs=verbs, accepted_types=types)


def _in_all(lists: Sequence[tuple[T, ...]]) -> tuple[T, ...]:
    """Return the items of every list, in the order of the first."""
    return tuple(each for each in lists[0] if all(each in one for one in lists[1:]))
