"""Views over clusters: union and common, compared with sets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from apidiscovery_service.core.model import (
    Freshness,
    Group,
    GroupVersionKind,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_service.fleet.group_forms import Member
from apidiscovery_service.fleet.view_groups import Merger, ViewKind, common, relative_order, union
from hypothesis import given
from hypothesis import strategies as st

PODS = Resource("pods", GroupVersionKind("", "", "Pod"), "Namespaced", "pod", ("get", "list"))


def member(name: str, *resources: Resource, freshness: str = Freshness.CURRENT) -> Member:
    return Member(name, (Group("", (Version("v1", resources, freshness),)),))


def only(groups: tuple[Group, ...]) -> Version:
    ((version,),) = (group.versions for group in groups)
    return version


def test_the_union_has_what_either_has() -> None:
    log = Subresource("log", GroupVersionKind("", "", "Pod"), ("get",))
    east = member("east", replace(PODS, verbs=("get", "watch"), subresources=(log,)))
    north = member("north", PODS, replace(PODS, resource="nodes"))

    version = only(union([north, east]))

    assert [each.resource for each in version.resources] == ["pods", "nodes"]
    assert version.resources[0].verbs == ("get", "list", "watch")
    assert version.resources[0].subresources == (log,)


def test_common_has_what_all_have() -> None:
    log = Subresource("log", GroupVersionKind("", "", "Pod"), ("get",))
    east = member("east", replace(PODS, short_names=("po", "p"), subresources=(log,)))
    north = member("north", replace(PODS, verbs=("list",), short_names=("po",)))

    (pods,) = only(common([north, east])).resources

    assert pods.verbs == ("list",)
    assert pods.short_names == ("po",)
    assert pods.subresources == ()


def test_another_kind_or_scope_is_not_common() -> None:
    other = replace(PODS, scope="Cluster")

    assert common([member("east", PODS), member("north", other)]) == ()


def test_a_cluster_that_never_answered_makes_common_stale_and_takes_nothing_away() -> None:
    sure = common([member("east", PODS), member("north", PODS)])
    unsure = common([member("east", PODS), member("north", PODS), Member("west", None)])

    assert only(sure).freshness == Freshness.CURRENT
    assert only(unsure) == replace(only(sure), freshness=Freshness.STALE)


def test_a_stale_cluster_makes_only_its_own_versions_of_the_union_stale() -> None:
    west = member("west", PODS, freshness=Freshness.STALE)
    nodes = replace(PODS, resource="nodes")

    assert only(union([member("east", PODS), west])).freshness == Freshness.CURRENT
    assert only(union([member("east", nodes), west])).freshness == Freshness.STALE
    assert only(union([west])).freshness == Freshness.STALE


def test_a_singular_name_that_is_not_told_is_the_kind() -> None:
    old = member("east", replace(PODS, singular_resource=""))

    assert only(union([old])).resources[0].singular_resource == "pod"
    assert only(common([old, member("north", PODS)])).resources == (PODS,)


def test_order_is_that_of_each_list_and_else_of_the_alphabet() -> None:
    assert relative_order([["b", "a"], ["b", "c"]]) == ["b", "a", "c"]
    assert relative_order([["z"], ["a"]]) == ["a", "z"]
    assert relative_order([["x", "y"], ["y", "x", "a"]]) == ["y", "x", "a"]
    assert relative_order([["x", "y", "b"], ["y", "x", "a"]]) == ["a", "b", "x", "y"]


Key = tuple[str, str, str]
Way = tuple[GroupVersionKind, tuple[str, ...], bool]

_KINDS = [GroupVersionKind("", "", kind) for kind in ("Pod", "Node")]
_VERBS = [("get",), ("list", "get"), ("get", "watch")]
# A cluster: where it serves which resource, and how.
_places = st.tuples(
    st.sampled_from(["apps", "batch"]),
    st.sampled_from(["v1", "v2"]),
    st.sampled_from(["pods", "nodes"]),
)
_ways = st.tuples(st.sampled_from(_KINDS), st.sampled_from(_VERBS), st.booleans())
_served = st.one_of(st.none(), st.dictionaries(_places, _ways, max_size=4))


def cluster(name: str, served: dict[Key, Way] | None) -> Member:
    if served is None:
        return Member(name, None)
    groups: dict[str, dict[str, Version]] = {}
    for (group, version, resource), (kind, verbs, is_stale) in served.items():
        versions = groups.setdefault(group, {})
        before = versions.get(version, Version(version))
        freshness = Freshness.STALE if is_stale else before.freshness
        found = Resource(resource, kind, "Namespaced", "one", verbs)
        versions[version] = Version(version, (*before.resources, found), freshness)
    return Member(name, tuple(Group(name, tuple(each.values())) for name, each in groups.items()))


fleets = st.lists(_served, min_size=1, max_size=3).map(
    lambda each: [cluster(f"cluster-{place}", served) for place, served in enumerate(each)]
)


@given(st.lists(st.tuples(st.sampled_from("abc"), _served, st.booleans()), max_size=8))
def test_a_view_of_changing_clusters_is_one_that_is_made_at_once(
    steps: list[tuple[str, dict[Key, Way] | None, bool]],
) -> None:
    mergers = {kind: Merger(kind) for kind in ViewKind}
    members: dict[str, Member] = {}
    for name, served, flag in steps:
        if served is None and flag:
            gone = [name] if members.pop(name, None) else []
            found = {kind: merger.merged((), gone) for kind, merger in mergers.items()}
        else:
            has_batch = any(group == "batch" for group, _, _ in served or ())
            unknown = () if served is None or has_batch else ("batch",)
            members[name] = replace(cluster(name, served), is_stale=flag, unknown=unknown)
            found = {kind: merger.merged([members[name]]) for kind, merger in mergers.items()}
        assert found[ViewKind.UNION] == union(members.values())
        assert found[ViewKind.COMMON] == common(members.values())


def names(found: tuple[Group, ...]) -> dict[Key, Resource]:
    return {
        (group.name, version.version, resource.resource): resource
        for group in found
        for version in group.versions
        for resource in version.resources
    }


@given(fleets)
def test_the_union_names_what_any_cluster_names(fleet: list[Member]) -> None:
    each = [names(member.groups or ()) for member in fleet]
    made = names(union(fleet))

    assert made.keys() == set().union(*each)
    for key, resource in made.items():
        told = {verb for one in each if key in one for verb in one[key].verbs or ()}
        assert set(resource.verbs or ()) == told


@given(fleets)
def test_common_names_what_every_known_cluster_names_alike(fleet: list[Member]) -> None:
    known = [names(member.groups) for member in fleet if member.groups is not None]
    made = names(common(fleet))

    assert made.keys() == {key for key in known[0] if _is_common(key, known)} if known else not made


def _is_common(key: Key, clusters: Sequence[Mapping[Key, Resource]]) -> bool:
    if any(key not in cluster for cluster in clusters):
        return False
    found = [cluster[key] for cluster in clusters]
    shared = [verb for verb in found[0].verbs or () if all(verb in (r.verbs or ()) for r in found)]
    return bool(shared) and len({(each.response_kind, each.scope) for each in found}) == 1


@given(fleets)
def test_the_order_of_clusters_changes_nothing(fleet: list[Member]) -> None:
    for view in (union, common):
        assert len({view(order) for order in permutations(fleet)}) == 1
