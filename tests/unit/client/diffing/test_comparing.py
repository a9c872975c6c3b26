"""Each rule of a comparison: what it finds, and when it finds nothing."""

import time
from dataclasses import replace
from typing import Any

import pytest
from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client.diffing import Finding, Report, Rule, Severity, compare
from apidiscovery_client.model import (
    Group,
    GroupVersionKind,
    Resource,
    Snapshot,
    Stale,
    Subresource,
    Unknown,
    Version,
)
from apidiscovery_client.resolving import Resolver
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.testing import group, resource
from client_snapshots import WHEN, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshot_samples import snapshots

WIDGETS = resource("widgets", "Widget")
_PLURALS = ("widgets", "gadgets", "parts")
_WORDS = st.lists(st.sampled_from(["w", "g", "p", "all"]), max_size=2, unique=True)


def small_snapshots() -> st.SearchStrategy[Snapshot]:
    """Draw snapshots with names from few, so that two of them have much in common."""
    names = st.lists(st.sampled_from(["a.example", "b.example"]), unique=True)
    groups = names.flatmap(lambda found: st.tuples(*map(_groups, found)))
    return groups.map(lambda found: snapshot(*found))


def _groups(name: str) -> st.SearchStrategy[Group]:
    versions = st.dictionaries(st.sampled_from(["v1", "v1beta1"]), _resources(), max_size=2)
    return versions.map(lambda found: group(name, **found))


def _resources() -> st.SearchStrategy[list[Resource]]:
    one = st.builds(
        resource,
        st.sampled_from(_PLURALS),
        st.sampled_from(["Widget", "Gadget"]),
        namespaced=st.booleans(),
        short_names=_WORDS,
        categories=_WORDS,
        verbs=st.lists(st.sampled_from(["get", "list"]), unique=True),
        subresources=st.lists(st.sampled_from(["status", "scale"]), unique=True),
    )
    return st.lists(one, max_size=2, unique_by=lambda found: found.name)


def told(report: Report) -> list[tuple[str, str]]:
    return [(found.rule.value, found.subject) for found in report.findings]


def by_rule(report: Report, rule: Rule) -> dict[str, Finding]:
    return {found.subject: found for found in report.findings if found.rule == rule}


def between(before: Resource, after: Resource) -> Report:
    """Compare two snapshots of one group with one resource."""
    return compare(
        snapshot(group("g.example", v1=[before])), snapshot(group("g.example", v1=[after]))
    )


# --------------------------------------------------------------------------------------------------
# Resources.


def widgets(**more: Any) -> Resource:  # noqa: ANN401 - as `resource`
    return resource("widgets", "Widget", **more)


_GIZMOS = resource("widgets", "Gizmo", singular_name="widget")
_IN_V1, _IN_GROUP = "widgets.v1.g.example", "widgets.g.example"
_ONE_HASH, _OTHER_HASH = (replace(WIDGETS, storage_version_hash=text) for text in ("one", "two"))


@pytest.mark.parametrize(
    ("before", "after", "rule", "subject"),
    [
        (WIDGETS, _GIZMOS, Rule.KIND_CHANGED, _IN_V1),
        (WIDGETS, widgets(namespaced=False), Rule.SCOPE_CHANGED, _IN_V1),
        (widgets(verbs=["get", "list"]), widgets(verbs=["get"]), Rule.VERB_REMOVED, _IN_V1),
        (widgets(verbs=["get"]), widgets(verbs=["get", "list"]), Rule.VERB_ADDED, _IN_V1),
        (widgets(subresources=["s"]), WIDGETS, Rule.SUBRESOURCE_REMOVED, f"{_IN_V1}/s"),
        (WIDGETS, widgets(subresources=["s"]), Rule.SUBRESOURCE_ADDED, f"{_IN_V1}/s"),
        (widgets(short_names=["w"]), WIDGETS, Rule.SHORT_NAME_REMOVED, _IN_GROUP),
        (WIDGETS, widgets(short_names=["w"]), Rule.SHORT_NAME_ADDED, _IN_GROUP),
        (widgets(categories=["all"]), WIDGETS, Rule.CATEGORY_REMOVED, _IN_GROUP),
        (WIDGETS, widgets(categories=["all"]), Rule.CATEGORY_ADDED, _IN_GROUP),
        (_ONE_HASH, _OTHER_HASH, Rule.STORAGE_VERSION_CHANGED, _IN_V1),
    ],
    ids=lambda value: value.value if isinstance(value, Rule) else "",
)
def test_difference_of_a_resource_is_found(
    before: Resource, after: Resource, rule: Rule, subject: str
) -> None:
    assert list(by_rule(between(before, after), rule)) == [subject]


def test_hash_that_one_side_lacks_is_no_difference() -> None:
    assert between(_ONE_HASH, WIDGETS).is_same


def test_order_of_verbs_is_no_difference() -> None:
    assert between(widgets(verbs=["get", "list"]), widgets(verbs=["list", "get"])).is_same


@pytest.mark.parametrize(
    ("after", "rule"),
    [
        (GroupVersionKind("policy", "v1", "Eviction"), Rule.KIND_VERSION_CHANGED),
        (GroupVersionKind("other", "v1beta1", "Eviction"), Rule.KIND_CHANGED),
        (GroupVersionKind("policy", "v1beta1", "Other"), Rule.KIND_CHANGED),
    ],
)
def test_kind_of_a_subresource_breaks_unless_only_its_version_is_another(
    after: GroupVersionKind, rule: Rule
) -> None:
    was = Subresource("eviction", GroupVersionKind("policy", "v1beta1", "Eviction"), ("create",))
    now = replace(was, response_kind=after)
    report = between(widgets(subresources=[was]), widgets(subresources=[now]))
    assert told(report) == [(rule.value, "widgets.v1.g.example/eviction")]


@pytest.mark.parametrize(
    ("kind", "rules"), [("Eviction", []), ("Other", [Rule.KIND_CHANGED.value])]
)
def test_kind_of_a_subresource_without_group_and_version_is_of_any(
    kind: str, rules: list[str]
) -> None:
    explicit = Subresource("eviction", GroupVersionKind("policy", "v1", "Eviction"), ("create",))
    bare = replace(explicit, response_kind=GroupVersionKind("", "", kind))
    for was, now in ((explicit, bare), (bare, explicit)):
        report = between(widgets(subresources=[was]), widgets(subresources=[now]))
        assert [rule for rule, _ in told(report)] == rules


# --------------------------------------------------------------------------------------------------
# Groups and versions.


def test_removed_version_moves_to_the_preferred_one_that_has_the_kind() -> None:
    before = snapshot(group("g.example", v2=[WIDGETS], v1=[WIDGETS], v1beta1=[WIDGETS]))
    after = snapshot(group("g.example", v2=[WIDGETS], v1=[WIDGETS]))
    (found,) = compare(before, after).findings
    assert found == Finding(
        Rule.VERSION_REMOVED,
        "g.example/v1beta1",
        "removed: Widget moves to g.example/v2",
        moves_to=("g.example/v2",),
    )


def test_kind_of_another_group_is_no_move_outside_of_kubernetes() -> None:
    before = snapshot(group("a.example", v1=[WIDGETS]), group("b.example", v1=[WIDGETS]))
    report = compare(before, snapshot(group("b.example", v1=[WIDGETS])))
    assert by_rule(report, Rule.GROUP_REMOVED)["a.example"].moves_to == ()


def test_removed_resource_of_a_version_that_stays_is_told() -> None:
    gadgets = resource("gadgets", "Gadget")
    before = snapshot(group("g.example", v1=[WIDGETS, gadgets]))
    report = compare(before, snapshot(group("g.example", v1=[WIDGETS])))
    assert told(report) == [("resource-removed", "gadgets.v1.g.example")]
    assert report.findings[0].message == "removed: Gadget is not served any more"


def test_what_is_added_breaks_nothing() -> None:
    before = snapshot(group("g.example", v1=[WIDGETS]))
    after = snapshot(
        group("g.example", v1=[WIDGETS, resource("gadgets", "Gadget")], v1beta1=[WIDGETS]),
        group("h.example", v1=[resource("parts", "Part")]),
    )
    report = compare(before, after)
    assert told(report) == [
        ("resource-added", "gadgets.v1.g.example"),
        ("version-added", "g.example/v1beta1"),
        ("group-added", "h.example"),
    ]
    assert not report.breaking
    assert not report.is_same


def test_flipped_preference_is_told_and_breaks_nothing() -> None:
    before = snapshot(group("g.example", v1=[WIDGETS], v2=[WIDGETS]))
    after = snapshot(group("g.example", v2=[WIDGETS], v1=[WIDGETS]))
    (found,) = compare(before, after).findings
    assert (found.rule, found.before, found.after) == (Rule.PREFERRED_VERSION_CHANGED, "v1", "v2")
    assert found.severity == Severity.INFO


def test_preference_is_not_told_when_the_preferred_version_is_removed() -> None:
    before = snapshot(group("g.example", v1=[WIDGETS], v2=[WIDGETS]))
    report = compare(before, snapshot(group("g.example", v2=[WIDGETS])))
    assert told(report) == [("version-removed", "g.example/v1")]


# --------------------------------------------------------------------------------------------------
# Names.


def test_short_name_that_a_new_group_takes_is_stolen() -> None:
    old = group("z.example", v1=[widgets(short_names=["w"])])
    new = group("a.example", v1=[resource("wheels", "Wheel", short_names=["w"])])
    report = compare(snapshot(old), snapshot(new, old))
    (found,) = report.breaking
    assert (found.rule, found.subject) == (Rule.SHORT_NAME_STOLEN, "w")
    assert (found.before, found.after) == ("widgets.z.example", "wheels.a.example")


def test_plain_name_resolves_elsewhere_when_groups_change_places() -> None:
    one, other = group("a.example", v1=[WIDGETS]), group("b.example", v1=[WIDGETS])
    report = compare(snapshot(one, other), snapshot(other, one))
    assert told(report) == [
        ("name-resolves-elsewhere", "widgets"),
        ("name-resolves-elsewhere", "widget"),
    ]
    assert report.breaking == report.findings


def test_names_are_not_compared_where_sides_are_parts() -> None:
    one, other = group("a.example", v1=[WIDGETS]), group("b.example", v1=[WIDGETS])
    report = compare(snapshot(one, other), snapshot(other, one), resolves=False)
    assert report.findings == ()


def test_name_that_now_means_another_kind_breaks_though_its_resource_is_gone() -> None:
    before = snapshot(group("a.example", v1=[WIDGETS]))
    after = snapshot(group("b.example", v1=[resource("widgets", "Gizmo")]))
    assert by_rule(compare(before, after), Rule.NAME_RESOLVES_ELSEWHERE).keys() == {"widgets"}


def test_singular_name_that_leads_nowhere_is_told_once() -> None:
    report = between(WIDGETS, resource("widgets", "Gizmo"))
    assert told(report) == [("kind-changed", "widgets.v1.g.example"), ("name-removed", "widget")]


# --------------------------------------------------------------------------------------------------
# What is not known.


def with_freshness(version: Version, freshness: Stale | Unknown) -> Version:
    resources = version.resources if isinstance(freshness, Stale) else ()
    return replace(version, freshness=freshness, resources=resources)


@pytest.mark.parametrize(
    ("freshness", "word"),
    [(Stale(WHEN, "no answer"), "stale"), (Unknown(WHEN, "no answer"), "unknown")],
)
def test_version_that_the_second_side_does_not_know_is_not_removed(
    freshness: Stale | Unknown, word: str
) -> None:
    known = group("g.example", v1=[widgets(short_names=["w"])])
    troubled = replace(known, versions=(with_freshness(known.versions[0], freshness),))
    report = compare(snapshot(known), snapshot(troubled))
    assert told(report) == [("freshness-changed", "g.example/v1")]
    assert f"is {word} (no answer)" in report.findings[0].message
    assert [doubt.subject for doubt in report.doubts] == ["g.example/v1"]
    assert not report.breaking


def test_version_that_was_stale_and_is_gone_is_a_doubt() -> None:
    known = group("g.example", v1=[WIDGETS])
    stale = replace(known, versions=(with_freshness(known.versions[0], Stale(WHEN, "no answer")),))
    report = compare(snapshot(stale), snapshot())
    assert not report.breaking
    assert [doubt.subject for doubt in report.doubts] == ["g.example/v1"]


def test_part_that_one_side_could_not_tell_is_a_difference_but_no_removal() -> None:
    core = group("", v1=[resource("pods", "Pod", short_names=["po"])])
    named = group("g.example", v1=[WIDGETS])
    report = compare(snapshot(core, named), snapshot(named, api="refused"))
    assert told(report) == [("part-unknown", "/api")]
    assert not report.is_same
    assert not report.breaking


def test_part_that_neither_side_could_tell_is_no_difference() -> None:
    side = snapshot(group("g.example", v1=[WIDGETS]), api="refused")
    report = compare(side, side)
    assert report.is_same
    assert [doubt.subject for doubt in report.doubts] == ["/api"]


def test_groups_that_no_release_has_are_not_compared_with_a_release() -> None:
    cluster = release("1.30")
    crds = group("g.example", v1=[resource("deployments", "Thing", short_names=["po"])])
    cluster = replace(cluster, groups=(crds, *cluster.groups), server="https://one.example.com")
    report = compare(cluster, release("1.30"))
    assert report.is_same
    assert [doubt.subject for doubt in report.doubts] == ["g.example"]


def test_server_that_did_not_answer_is_told() -> None:
    side = snapshot(group("g.example", v1=[WIDGETS]))
    report = compare(side, replace(side, freshness=Stale(WHEN, "refused")))
    assert told(report) == [("freshness-changed", "the whole")]


# --------------------------------------------------------------------------------------------------
# Known upgrades.


def breaking(before: str, after: str) -> dict[str, Finding]:
    report = compare(release(before), release(after))
    return {found.subject: found for found in report.breaking}


def test_1_22_removes_ingresses_and_crds_of_v1beta1() -> None:
    found = breaking("1.21", "1.22")
    assert found["extensions"].rule == Rule.GROUP_REMOVED
    assert found["extensions"].moves_to == ("networking.k8s.io/v1",)
    assert found["networking.k8s.io/v1beta1"].moves_to == ("networking.k8s.io/v1",)
    assert found["apiextensions.k8s.io/v1beta1"].moves_to == ("apiextensions.k8s.io/v1",)
    assert found["csidrivers.v1beta1.storage.k8s.io"].rule == Rule.RESOURCE_REMOVED
    assert "pods.v1./eviction" not in found


def test_1_25_removes_pod_security_policies_for_good() -> None:
    found = breaking("1.24", "1.25")
    assert found["policy/v1beta1"].message == (
        "removed: PodDisruptionBudget moves to policy/v1; PodSecurityPolicy is not served any more"
    )
    assert found["batch/v1beta1"].moves_to == ("batch/v1",)


def test_1_16_moves_deployments_to_apps() -> None:
    report = compare(release("1.15"), release("1.16"))
    removed = by_rule(report, Rule.RESOURCE_REMOVED)
    assert removed["deployments.v1beta1.extensions"].moves_to == ("apps/v1",)
    moved = by_rule(report, Rule.NAME_MOVED)
    assert moved["deploy"].after == "deployments.apps"
    assert moved["deploy"].severity == Severity.INFO


def test_1_20_prefers_the_other_ingresses() -> None:
    found = breaking("1.19", "1.20")
    assert found["ingresses"].rule == Rule.NAME_RESOLVES_ELSEWHERE
    assert found["ing"].rule == Rule.SHORT_NAME_STOLEN


# --------------------------------------------------------------------------------------------------
# Anything.

_OPPOSITES = {
    Rule.GROUP_REMOVED: Rule.GROUP_ADDED,
    Rule.VERSION_REMOVED: Rule.VERSION_ADDED,
    Rule.RESOURCE_REMOVED: Rule.RESOURCE_ADDED,
    Rule.VERB_REMOVED: Rule.VERB_ADDED,
    Rule.SUBRESOURCE_REMOVED: Rule.SUBRESOURCE_ADDED,
    Rule.SHORT_NAME_REMOVED: Rule.SHORT_NAME_ADDED,
    Rule.CATEGORY_REMOVED: Rule.CATEGORY_ADDED,
}


@settings(max_examples=30)
@given(snapshots(), snapshots())
def test_any_two_have_one_report_and_each_is_the_same_as_itself(
    before: Snapshot, after: Snapshot
) -> None:
    assert compare(before, before).is_same
    assert compare(before, after) == compare(before, after)


@given(small_snapshots(), small_snapshots())
def test_what_is_removed_one_way_is_added_the_other_way(before: Snapshot, after: Snapshot) -> None:
    there, back = compare(before, after), compare(after, before)
    for removed, added in _OPPOSITES.items():
        words = {(found.subject, found.before) for found in there.findings if found.rule == removed}
        assert words == {(found.subject, found.after) for found in back.findings
                         if found.rule == added}  # fmt: skip


@given(small_snapshots(), small_snapshots())
def test_every_name_still_leads_to_its_resource_when_nothing_breaks(
    before: Snapshot, after: Snapshot
) -> None:
    if compare(before, after).breaking:
        return
    was, now = Resolver(before), Resolver(after)
    for found in before.resources:
        for name in (found.name, found.singular_name, found.kind, *found.short_names):
            try:
                wanted = was.resolve(name).resource
            except DiscoveryError:
                continue
            assert now.resolve(name).resource.gvr.group_resource == wanted.gvr.group_resource


@given(small_snapshots())
def test_more_of_everything_breaks_nothing(side: Snapshot) -> None:
    more = replace(side, groups=(*side.groups, group("z.example", v1=[resource("zs", "Z")])))
    assert not compare(side, more).breaking
    assert not compare(side, more).is_same


# --------------------------------------------------------------------------------------------------
# Size.


@pytest.mark.parametrize("name", ["{}.example", "{}.moved.example"])
def test_thousands_of_groups_do_not_make_it_slow(name: str) -> None:
    def many(form: str) -> Snapshot:
        names = [form.format(f"g{number}") for number in range(3_000)]
        return snapshot(*(group(one, v1=[WIDGETS]) for one in names))

    before, after = many("{}.example"), many(name)
    started = time.process_time()
    compare(before, after)
    assert time.process_time() - started < 5  # a second, where no group is looked for in a list
