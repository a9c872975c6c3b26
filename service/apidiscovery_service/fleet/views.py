"""Views over clusters: all that any of them serves, and what all of them serve. Pure.

What merges, and in which order, is what kube-apiserver does with its peers (KEP-4020):
k8s.io/apiserver pkg/endpoints/discovery/aggregated/peer_aggregated_handler.go:mergeResources and
k8s.io/apimachinery pkg/util/sort/sort.go:MergePreservingRelativeOrder.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
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

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Member:
    """A cluster that a view is made of.

    Attributes:
        groups: What it serves, or last was known to serve; None where nothing is known.
    """

    name: str
    groups: tuple[Group, ...] | None


def union(members: Iterable[Member]) -> tuple[Group, ...]:
    """Return every group-version that any cluster serves, its resources merged.

    A version is `Stale` where it would be another without the clusters that are.
    """
    known = [_normal(each.groups) for each in _in_order(members) if each.groups is not None]
    merged = _merged_groups(known)
    fresh = _merged_groups([_current(groups) for groups in known])
    certain = {(group.name, v.version): v for group in fresh for v in group.versions}
    return tuple(
        Group(
            group.name,
            tuple(
                _as_fresh_as(version, certain.get((group.name, version.version)))
                for version in group.versions
            ),
        )
        for group in merged
    )


def common(members: Iterable[Member]) -> tuple[Group, ...]:
    """Return what clients can use in every cluster: what all have, of the same kind and scope.

    Resources keep the verbs, subresources, short names and categories that all have. What a cluster
    of which nothing is known might deny is `Stale`, never absent.
    """
    members = list(members)
    known = [_normal(each.groups) for each in _in_order(members) if each.groups is not None]
    is_sure = len(known) == len(members)
    groups: list[Group] = []
    for name in _names_in_all([[group.name for group in one] for one in known]):
        versions = [next(g.versions for g in one if g.name == name) for one in known]
        shared = [
            _common_version([next(v for v in one if v.version == version) for one in versions])
            for version in _names_in_all([[v.version for v in one] for one in versions])
        ]
        found = tuple(v if is_sure else _stale(v) for v in shared if v.resources)
        if found:
            groups.append(Group(name, found))
    return tuple(groups)


def relative_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return all names once, in an order that keeps that of each list; sorted where none does.

    Where the lists leave it open, names are in the order of the alphabet.
    """
    every = dict.fromkeys(name for one in lists for name in one)
    for one in lists:
        if len(one) == len(every):
            return list(one)
    graph = TopologicalSorter[str](dict.fromkeys(every, ()))
    for one in lists:
        for before, after in pairwise(one):
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


def _in_order(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda each: each.name)


def _normal(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return groups with a singular name for every kind, which servers before 1.27 do not tell.

    It is the one that client-go takes then. Source: client-go restmapper/discovery.go
    `NewDiscoveryRESTMapper`.
    """
    return tuple(
        Group(
            group.name,
            tuple(
                replace(version, resources=tuple(map(_with_singular, version.resources)))
                for version in group.versions
            ),
        )
        for group in groups
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


def _current(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return the groups without versions that are not current."""
    kept = (
        Group(group.name, tuple(v for v in group.versions if v.freshness != Freshness.STALE))
        for group in groups
    )
    return tuple(group for group in kept if group.versions)


def _as_fresh_as(version: Version, certain: Version | None) -> Version:
    is_certain = certain is not None and certain.resources == version.resources
    return replace(version, freshness=Freshness.CURRENT) if is_certain else _stale(version)


def _stale(version: Version) -> Version:
    return replace(version, freshness=Freshness.STALE)


# What any cluster serves.


def _merged_groups(lists: Sequence[tuple[Group, ...]]) -> tuple[Group, ...]:
    def merge(before: Group, after: Group) -> Group:
        return Group(before.name, _merged(before.versions, after.versions, _version_name, _both))

    found: dict[str, Group] = {}
    for groups in lists:
        for group in groups:
            known = found.get(group.name)
            found[group.name] = merge(known, group) if known else group
    order = relative_order([[group.name for group in groups] for groups in lists])
    return tuple(found[name] for name in order)


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
    subresources = {each.subresource: each for each in (*before.subresources, *after.subresources)}
    verbs = sorted({*(before.verbs or ()), *(after.verbs or ())})
    return replace(
        before,
        verbs=tuple(verbs) or None,
        subresources=tuple(subresources[name] for name in sorted(subresources)),
    )


# What all clusters serve.


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
    """Return what is in every list, in the order of the first."""
    return tuple(each for each in lists[0] if all(each in one for one in lists[1:]))
