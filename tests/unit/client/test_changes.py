"""Changes between two snapshots are complete, in order, and readable."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from apidiscovery_client.changes import (
    FreshnessChanged,
    GroupAdded,
    GroupRemoved,
    ResourceChanged,
    changes,
)
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Stale,
    Subresource,
    Unknown,
    Version,
)
from hypothesis import given
from hypothesis import strategies as st
from scripted_transport import group, resource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GV = GroupVersion("example.com", "v1")
AWAY = Stale(NOW, "away")


def snapshot(*groups: Group) -> Snapshot:
    return Snapshot(groups=groups, server="https://server", checked_at=NOW)


def told(before: Snapshot | None, after: Snapshot) -> list[str]:
    return [str(change) for change in changes(before, after)]


def of_resource(before: Resource, after: Resource) -> list[str]:
    return told(*(snapshot(Group(GV.group, (Version(GV, (one,)),))) for one in (before, after)))


# --------------------------------------------------------------------------------------------------
# Groups and versions.


def test_without_an_earlier_snapshot_all_groups_are_added() -> None:
    assert told(None, snapshot(group("", "v1"), group("a", "v2", "v1"), Group("b", ()))) == [
        "group core added: v1",
        "group a added: v2, v1",
        "group b added: no versions",
    ]


def test_the_same_is_no_change() -> None:
    before = snapshot(group("a"))
    assert changes(before, before) == ()
    assert changes(before, replace(before, checked_at=NOW.replace(year=2027))) == ()
    assert changes(before, snapshot(group("a"))) == ()


def test_groups_come_in_the_later_order_and_removed_ones_where_they_were() -> None:
    before = snapshot(*map(group, ["gone1", "a", "gone2", "gone3", "b", "gone4"]))
    after = snapshot(*map(group, ["new1", "a", "new2", "b", "new3"]))
    assert [
        (type(change), change.group.name)
        for change in changes(before, after)
        if isinstance(change, GroupAdded | GroupRemoved)
    ] == [
        (GroupRemoved, "gone1"),
        (GroupAdded, "new1"),
        (GroupRemoved, "gone2"),
        (GroupRemoved, "gone3"),
        (GroupAdded, "new2"),
        (GroupRemoved, "gone4"),
        (GroupAdded, "new3"),
    ]


def test_a_new_order_of_preference_is_a_change() -> None:
    before = snapshot(group(""), group("a"), group("b"), group("c", "v2", "v1"))
    after = snapshot(group(""), group("b"), group("a"), group("c", "v1", "v2"))
    assert told(before, after) == [
        "group c prefers v1, before: v2",
        "versions of c reordered: v1 comes where v2 was",
        "groups reordered: b comes where a was",
    ]


def test_versions_come_and_go() -> None:
    before = snapshot(group("a", "v1", "v1beta1"))
    after = snapshot(group("a", "v2", "v1", kinds=("Widget", "Gadget")))
    assert told(before, after) == [
        "group a prefers v2, before: v1",
        "version a/v2 added: 2 resources",
        "resource gadgets.v1.a added: Gadget",
        "version a/v1beta1 removed",
    ]


def test_a_path_that_failed_removes_no_groups() -> None:
    before = snapshot(group(""), group("a"))
    after = replace(snapshot(), failures={"/apis": "500"})
    assert told(before, after) == ["group core removed"]


def test_a_stated_preference_is_reported_once() -> None:
    old = Group("a", group("a", "v1", "v2").versions, stated_preference="v1")
    assert told(snapshot(old), snapshot(replace(old, stated_preference="v2"))) == [
        "group a prefers v2, before: v1"
    ]
    assert told(snapshot(old), snapshot(replace(old, stated_preference=""))) == [
        "group a changed: stated_preference"
    ]


# --------------------------------------------------------------------------------------------------
# Freshness.


def test_a_new_freshness_of_a_version_is_reported() -> None:
    version = Version(GV, (), CURRENT, "Current")
    stale = replace(version, freshness=AWAY, stated_freshness="Stale")
    unknown = replace(version, freshness=Unknown(NOW, "never\nseen"), stated_freshness="Stale")
    states = [snapshot(Group(GV.group, (one,))) for one in (version, stale, unknown, version)]
    lines = [told(before, after) for before, after in itertools.pairwise(states)]
    assert lines == [
        ["version example.com/v1 is stale: away"],
        ["version example.com/v1 is unknown: never\\x0aseen"],
        ["version example.com/v1 is current again"],
    ]
    # Which version is preferred may depend on it.
    [change] = changes(states[0], states[1])
    assert change == FreshnessChanged(GV, CURRENT, AWAY)


def test_an_outage_of_the_server_comes_first_and_only_at_its_begin_and_end() -> None:
    before = snapshot(group("a"))
    away = replace(snapshot(), freshness=AWAY)
    assert told(before, away) == ["server https://server is stale: away", "group a removed"]
    assert told(away, replace(away, freshness=Stale(NOW, "for another reason"))) == []
    assert told(away, snapshot()) == ["server https://server is current again"]
    assert told(None, away) == ["server https://server is stale: away"]


# --------------------------------------------------------------------------------------------------
# Resources.


def test_changes_of_a_resource_are_listed_by_field() -> None:
    before = resource(GV, "widgets", "Widget")
    scale = Subresource("scale", None, ("get",))
    before = replace(before, short_names=("wd",), subresources=(scale,))
    status = Subresource("status", None, ("get",))
    after = replace(
        before,
        scope="Cluster",
        verbs=("list", "watch"),
        short_names=(),
        singular_name="",
        subresources=(status, replace(scale, verbs=())),
        response_kind=None,
        extra={"new": 1},
    )
    assert of_resource(before, after) == [
        (
            "resource widgets.v1.example.com changed: singular name widget -> ''; "
            "scope Namespaced -> Cluster; response kind Widget -> none; verbs +watch -get; "
            "short names -wd; subresources +status ~scale; extra"
        )
    ]


def test_a_new_order_of_verbs_is_a_change() -> None:
    before = resource(GV, "widgets", "Widget")
    [line] = of_resource(before, replace(before, verbs=("list", "get")))
    assert line.endswith("changed: verbs reordered")


def test_a_resource_of_the_core_group_is_named_without_a_group() -> None:
    before, after = snapshot(group("", kinds=())), snapshot(group("", kinds=("Pod",)))
    assert told(before, after) == ["resource pods.v1 added: Pod"]
    assert told(after, before) == ["resource pods.v1 removed"]


@pytest.mark.parametrize("kind", ["resources", "versions"])
def test_names_of_a_server_do_not_break_the_line(kind: str) -> None:
    name = "evil\r\n\x1b[2J\u2028"
    version = Version(GroupVersion("a", name), (resource(GroupVersion("a", "v1"), name, "X"),))
    other = Version(GroupVersion("a", "v1"))
    after = Group("a", (other, version) if kind == "versions" else (other,))
    for line in told(snapshot(Group("a", (other,))), snapshot(after)) + told(
        None, snapshot(Group(name, (version,)))
    ):
        assert line.isprintable()


def test_a_resource_may_change_its_kind() -> None:
    before = resource(GV, "widgets", "Widget")
    after = replace(before, response_kind=GroupVersionKind("", "", "Gadget"))
    [change] = changes(
        *(snapshot(Group(GV.group, (Version(GV, (one,)),))) for one in (before, after))
    )
    assert change == ResourceChanged(before, after, ("response_kind",))


# --------------------------------------------------------------------------------------------------
# Anything.

NAMES = st.sampled_from(["", "a", "b", "c"])
EXTRAS = st.sampled_from([{}, {"x": 1}])
SUBRESOURCES = st.builds(Subresource, NAMES, st.none(), st.just(()), extra=EXTRAS)
STATES: tuple[Freshness, ...] = (CURRENT, AWAY, replace(AWAY, retained=True), Unknown(NOW, "?"))
FRESHNESS = st.sampled_from(STATES)


@st.composite
def resources(draw: st.DrawFn, gv: GroupVersion) -> Resource:
    kinds = st.sampled_from([None, GroupVersionKind("", "", "A"), GroupVersionKind("x", "", "A")])
    texts = st.lists(NAMES, max_size=2).map(tuple)
    return Resource(
        gv=gv,
        name=draw(NAMES),
        singular_name=draw(NAMES),
        scope=draw(st.sampled_from(["Namespaced", "Cluster"])),
        response_kind=draw(kinds),
        verbs=draw(texts),
        short_names=draw(texts),
        categories=draw(texts),
        subresources=tuple(draw(st.lists(SUBRESOURCES, max_size=2))),
        storage_version_hash=draw(NAMES),
        extra=draw(EXTRAS),
    )


@st.composite
def versions(draw: st.DrawFn, name: str) -> Version:
    gv = GroupVersion(name, draw(st.sampled_from(["v1", "v2", "v3"])))
    return Version(
        gv,
        tuple(draw(st.lists(resources(gv), max_size=2))),
        draw(FRESHNESS),
        draw(st.sampled_from(["", "Current", "Stale"])),
        draw(EXTRAS),
    )


@st.composite
def groups(draw: st.DrawFn) -> Group:
    name = draw(NAMES)
    found = tuple(draw(st.lists(versions(name), max_size=2)))
    return Group(name, found, draw(st.sampled_from(["", "v1"])), draw(EXTRAS))


SNAPSHOTS = st.lists(groups(), max_size=2).map(lambda some: snapshot(*some))


@given(SNAPSHOTS, SNAPSHOTS)
def test_no_change_means_equal_groups_and_equal_groups_mean_no_change(
    before: Snapshot, after: Snapshot
) -> None:
    found = changes(before, after)
    assert (found == ()) == (before.groups == after.groups)
    assert found == changes(before, after)
    for change in found:
        assert str(change).isprintable()


@given(groups(), st.data())
def test_the_smallest_difference_is_a_change(one: Group, data: st.DataObject) -> None:
    other = data.draw(groups().map(lambda drawn: replace(drawn, name=one.name)))
    found = changes(snapshot(one), snapshot(other))
    assert (found == ()) == (one == other)
