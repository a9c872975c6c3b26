"""The state of a fleet depends on its clusters now, and not on earlier ones or their order."""

from collections.abc import Sequence
from dataclasses import replace

from apidiscovery_formats import matrix
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Freshness, Group, Version
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.fleet.group_forms import Member
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.fleet.view_groups import common, union
from apidiscovery_service.kube.objects.selectors import parse_labels
from fleet_clusters import cluster, fleet_of, group
from hypothesis import given
from hypothesis import strategies as st

NAMES = ("east", "north", "west")
_freshness = st.sampled_from([Freshness.CURRENT, Freshness.STALE])
_kinds = st.lists(st.sampled_from(["Job", "Deploy", "Node"]), unique=True, max_size=2)


def _version(name: str, kinds: list[str], freshness: Freshness) -> Version:
    (version,) = group("any", *kinds, versions=(name,)).versions
    return replace(version, freshness=freshness)


_versions = st.lists(
    st.builds(_version, st.sampled_from(["v1", "v2"]), _kinds, _freshness),
    unique_by=lambda version: version.version,
    min_size=1,
    max_size=2,
)
_groups = st.lists(
    st.builds(Group, st.sampled_from(["apps", "batch"]), _versions.map(tuple)),
    unique_by=lambda each: each.name,
    max_size=2,
)


@st.composite
def _clusters(draw: st.DrawFn) -> Cluster:
    made = cluster(
        draw(st.sampled_from(NAMES)),
        *draw(_groups),
        state=draw(st.sampled_from(list(SourceState))),
        labels={"region": draw(st.sampled_from(["eu", "us"]))},
    )
    if draw(st.booleans()):
        made = replace(made, core=None)
    return replace(made, named=None, core=None) if draw(st.booleans()) else made


clusters = _clusters()
steps = st.lists(st.one_of(clusters, st.sampled_from(NAMES)), min_size=1, max_size=8)


@given(steps)
def test_what_is_made_step_by_step_is_what_is_made_at_once(history: list[Cluster | str]) -> None:
    fleet = Fleet()
    scope = fleet.scope(("east", "w*"))
    for step in history:
        if isinstance(step, str):
            fleet.update([], [step])
        else:
            fleet.update([step])
        everywhere = _seen(fleet.scope())
        assert everywhere == _seen(_fresh(fleet).scope())
        assert _seen(scope) == _seen(_fresh(fleet).scope(("east", "w*")))


@given(steps)
def test_replicas_that_learn_in_another_order_serve_the_same_bytes(
    history: list[Cluster | str],
) -> None:
    fleet = Fleet()
    for step in history:
        fleet.update(*(([], [step]) if isinstance(step, str) else ([step], [])))
    other = fleet_of(*reversed(list(fleet.clusters.values())))

    assert _seen(fleet.scope()) == _seen(other.scope())


@given(st.lists(clusters, unique_by=lambda each: each.name, max_size=3))
def test_the_matrix_is_what_the_cells_of_each_cluster_say(made: Sequence[Cluster]) -> None:
    found = fleet_of(*made).scope().matrix()
    told = [_alone(each) for each in sorted(made, key=lambda each: each.name)]

    assert found == matrix.make(told)


@given(st.lists(clusters, unique_by=lambda each: each.name, max_size=3))
def test_views_are_of_what_the_clusters_last_served(made: Sequence[Cluster]) -> None:
    scope = fleet_of(*made).scope()
    # What is common is what they last said: one that does not answer makes nothing of it stale.
    fresh = [
        Member(each.name, each.groups, False, ("",) if each.core is None else ())  # noqa: FBT003 - of a table
        for each in made
    ]
    members = [
        replace(member, is_stale=each.status.state is not SourceState.CURRENT)
        for each, member in zip(made, fresh, strict=True)
    ]
    assert _groups_of(scope, "union") == union(members)
    assert _groups_of(scope, "common") == common(fresh)


@given(st.lists(clusters, unique_by=lambda each: each.name, max_size=3))
def test_an_unknown_core_group_takes_nothing_away(made: Sequence[Cluster]) -> None:
    """What all others have stays, and is stale."""
    told = [each for each in made if each.named is not None]
    had = [each for each in told if each.core is not None]
    found = {each.name: each for each in _groups_of(fleet_of(*told).scope(), "common")}

    assert ("" in found) is bool(had)
    if len(had) < len(told) and had:
        assert {version.freshness for version in found[""].versions} == {Freshness.STALE}


def _alone(made: Cluster) -> matrix.Cluster:
    """Return a cluster of the matrix, told by a fleet that has no other."""
    scope = fleet_of(made).scope()
    (column,) = scope.columns()
    silent = {
        each.name: tuple(v.version for v in each.versions if _has_never_answered(v))
        for each in (*(made.core or ()), *(made.named or ()))
    }
    if made.core is None and made.named is not None:
        silent[""] = ("v1",)
    cells = {
        (row.group, row.resource): replace(cell, unknown=())
        for row in scope.matrix().rows
        for cell in row.cells
        if cell is not None
    }
    return matrix.Cluster(column, cells, {name: each for name, each in silent.items() if each})


def _has_never_answered(version: Version) -> bool:
    return version.freshness == Freshness.STALE and not version.resources


def _fresh(fleet: Fleet) -> Fleet:
    return fleet_of(*fleet.clusters.values())


def _seen(scope: Scope) -> object:
    europe = scope.selected(parse_labels("region=eu"))
    etags: list[object] = []
    for each in (scope, europe):
        for name in each.view_names():
            view = each.view(name)
            assert view is not None
            etags.append(view.snapshot.etags())
    return (scope.matrix(), scope.columns(), europe.matrix(), etags)


def _groups_of(scope: Scope, name: str) -> tuple[Group, ...]:
    view = scope.view(name)
    assert view is not None
    snapshot = view.snapshot
    return tuple(each.group for each in (*snapshot.core.groups, *snapshot.named.groups))
