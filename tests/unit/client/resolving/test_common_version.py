"""The best version of a resource that all skewed servers serve."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from ambiguous_cluster import ambiguous_groups, resource
from apidiscovery_client._errors import AmbiguousResource, NoCommonVersion, NotServed
from apidiscovery_client.model import Freshness, Group, Snapshot, Stale, Unknown, Version
from apidiscovery_client.resolving import (
    CommonVersion,
    Serving,
    best_common_version,
    compare_versions,
)
from apidiscovery_client.testing import group
from client_snapshots import WHEN, snapshot
from hypothesis import given
from hypothesis import strategies as st

CARS = resource("cars", "Car", "ca")
STALE = Stale(WHEN, "no route to host")
UNKNOWN = Unknown(WHEN, "refused")


def server(*versions: str, lacks: Sequence[str] = (), **troubles: Freshness) -> Snapshot:
    """Return a server of cars in these versions, the most preferred first, some in trouble."""
    made = group("a.io", **{one: [] if one in lacks else [CARS] for one in versions})
    return snapshot(Group("a.io", tuple(_troubled(one, troubles) for one in made.versions)))


def _troubled(version: Version, troubles: Mapping[str, Freshness]) -> Version:
    freshness = troubles.get(version.name, version.freshness)
    resources = () if isinstance(freshness, Unknown) else version.resources
    return replace(version, freshness=freshness, resources=resources)


def common(*snapshots: Snapshot) -> CommonVersion:
    return best_common_version("cars", {f"s{place}": one for place, one in enumerate(snapshots)})


@pytest.mark.parametrize(
    ("servers", "version", "worst_rank"),
    [
        ([["v1"]], "v1", 0),
        ([["v1", "v1beta1"], ["v1", "v1beta1"]], "v1", 0),
        ([["v2", "v1"], ["v1"]], "v1", 1),
        ([["v1beta1", "v1"], ["v1", "v1beta1"]], "v1", 1),
        ([["v3", "v2", "v1"], ["v1", "v2", "v3"]], "v2", 1),
        ([["v1", "v2"], ["v1", "v2"]], "v1", 0),
        ([["v1alpha1", "v1beta1"], ["v1beta1", "v1alpha1"]], "v1beta1", 1),
        ([["x", "y"], ["y", "x"]], "x", 1),
        ([["v2", "v1"], ["v1", "v1beta1"], ["v1beta1", "v1"]], "v1", 1),
    ],
)
def test_the_version_with_the_least_worst_rank_is_taken_then_the_greatest(
    servers: list[list[str]], version: str, worst_rank: int
) -> None:
    found = common(*(server(*versions) for versions in servers))
    assert (found.version, found.worst_rank) == (version, worst_rank)
    assert found.is_certain
    assert found.unsure == {}
    assert (found.group, found.resource, found.kind) == ("a.io", "cars", "Car")


def test_the_table_has_each_version_for_each_server() -> None:
    found = common(server("v2", "v1"), server("v1", v1=STALE))
    table = {one.server: {said.version: said for said in one.versions} for one in found.servers}
    assert {
        name: {key: said.serving for key, said in row.items()} for name, row in table.items()
    } == {
        "s0": {"v2": Serving.SERVED, "v1": Serving.SERVED},
        "s1": {"v2": Serving.NOT_SERVED, "v1": Serving.STALE},
    }
    assert [table["s0"][key].rank for key in ("v2", "v1")] == [0, 1]


def test_a_stale_version_counts_and_is_reported() -> None:
    found = common(server("v1"), server("v1", v1=STALE))
    assert found.version == "v1"
    assert not found.is_certain
    assert found.unsure == {"s1": "no route to host"}


def test_a_version_that_answers_is_preferred_to_a_stale_one() -> None:
    stale = server("v1", "v1beta1", v1=STALE)
    found = common(stale, stale)
    assert found.version == "v1beta1"
    assert found.is_certain
    assert set(found.unsure) == {"s0", "s1"}


def test_a_better_version_that_is_unknown_on_a_server_is_reported() -> None:
    found = common(server("v1", "v1beta1"), server("v1", "v1beta1", v1=UNKNOWN))
    assert found.version == "v1beta1"
    assert found.unsure == {"s1": "refused"}
    assert found.servers[1].versions[0].serving is Serving.UNKNOWN


def test_where_only_the_unknown_could_be_common_the_error_says_so() -> None:
    with pytest.raises(NoCommonVersion) as raised:
        common(server("v1", "v1beta1"), server("v1", v1=UNKNOWN))
    error = raised.value
    assert error.wanted == "cars.a.io"
    assert error.served == {"s0": ("v1", "v1beta1"), "s1": ()}
    assert error.possible == ("v1",)
    assert error.unsure == {"s1": "refused"}
    assert str(error) == (
        "no version of cars.a.io is served everywhere (s0: v1 v1beta1, s1: none); "
        "it may be v1, but it is not known of s1 (refused)"
    )


def test_without_any_common_version_the_error_has_what_each_serves() -> None:
    with pytest.raises(NoCommonVersion) as raised:
        common(server("v2", "v3"), server("v1"))
    assert raised.value.served == {"s0": ("v2", "v3"), "s1": ("v1",)}
    assert raised.value.possible == ()
    assert str(raised.value) == ("no version of cars.a.io is served everywhere (s0: v2 v3, s1: v1)")


def test_a_server_without_the_group_does_not_serve_it() -> None:
    with pytest.raises(NoCommonVersion) as raised:
        common(server("v1"), snapshot())
    assert raised.value.served == {"s0": ("v1",), "s1": ()}
    assert raised.value.possible == ()


@pytest.mark.parametrize(
    ("doubtful", "reason"),
    [
        (replace(snapshot(), failures={"/apis": "503"}), "503"),
        (replace(snapshot(), freshness=STALE), "no route to host"),
        (server("v1", lacks=["v1"], v1=STALE), "no route to host"),
    ],
)
def test_a_server_that_cannot_say_is_not_counted_as_not_serving(
    doubtful: Snapshot, reason: str
) -> None:
    with pytest.raises(NoCommonVersion) as raised:
        common(server("v1"), doubtful)
    assert raised.value.possible == ("v1",)
    assert raised.value.unsure == {"s1": reason}


def test_a_missing_core_document_says_nothing_of_groups() -> None:
    with pytest.raises(NoCommonVersion) as raised:
        common(server("v1"), replace(snapshot(), failures={"/api": "503"}))
    assert raised.value.possible == ()


def test_when_a_server_did_not_answer_all_it_serves_is_stale() -> None:
    found = common(server("v1"), replace(server("v1"), freshness=STALE))
    assert found.servers[1].versions[0].serving is Serving.STALE
    assert found.unsure == {"s1": "no route to host"}


def test_a_version_of_the_group_without_the_resource_does_not_serve_it() -> None:
    found = common(server("v2", "v1", lacks=["v2"]), server("v2", "v1"))
    assert (found.version, found.worst_rank) == ("v1", 1)
    assert found.servers[0].versions[0].serving is Serving.NOT_SERVED


def test_a_version_in_the_text_is_ignored() -> None:
    servers = {"new": server("v2", "v1"), "old": server("v1")}
    assert best_common_version("cars.v2.a.io", servers).version == "v1"
    assert best_common_version("a.io/v2/Car", servers).version == "v1"
    assert best_common_version("ca", servers).version == "v1"


def test_a_text_that_means_another_resource_elsewhere_is_ambiguous() -> None:
    other = snapshot(group("b.io", v1=[CARS]))
    with pytest.raises(AmbiguousResource) as raised:
        common(server("v1"), other)
    assert raised.value.candidates == ("cars.a.io", "cars.b.io")


def test_what_no_server_has_is_not_served_with_suggestions_and_doubts_of_all() -> None:
    doubtful = replace(server("v1"), failures={"/apis": "503"})
    with pytest.raises(NotServed) as raised:
        best_common_version("carz", {"a": server("v1"), "b": doubtful})
    assert raised.value.suggestions == ("cars",)
    assert raised.value.unsure == {"b /apis": "503"}


def test_without_servers_there_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        best_common_version("cars", {})


def test_the_core_group_has_common_versions_too() -> None:
    known = snapshot(*ambiguous_groups())
    found = best_common_version("pods", {"a": known, "b": known})
    assert (found.group, found.version) == ("", "v2")


KNOWN = ["v1", "v2", "v1beta1"]


def _server(versions: list[str], troubles: dict[str, Freshness]) -> Snapshot:
    return server(*versions, lacks=(), **troubles)


SERVERS = st.builds(
    _server,
    st.lists(st.sampled_from(KNOWN), unique=True, min_size=1),
    st.dictionaries(st.sampled_from(KNOWN), st.sampled_from([STALE, UNKNOWN])),
)


@given(st.lists(SERVERS, min_size=1, max_size=4))
def test_what_is_chosen_is_there_everywhere_and_nothing_less_bad_is(
    servers: list[Snapshot],
) -> None:
    try:
        found = common(*servers)
    except (NoCommonVersion, NotServed):
        return
    columns = list(zip(*(one.versions for one in found.servers), strict=True))
    there = [column for column in columns if all(said.is_there for said in column)]
    worst = {column[0].version: max(said.rank for said in column) for column in there}
    assert worst[found.version] == found.worst_rank == min(worst.values())


@given(st.lists(SERVERS, min_size=1, max_size=4))
def test_the_order_of_servers_does_not_matter(servers: list[Snapshot]) -> None:
    def outcome(some: list[Snapshot]) -> object:
        try:
            return common(*some).version
        except (NoCommonVersion, NotServed) as error:
            return type(error)

    assert outcome(servers) == outcome(servers[::-1])


def test_versions_may_have_thousands_of_digits() -> None:
    versions = ["v1", "v1alpha" + "0" * 5000 + "1", "v1beta" + "9" * 5000]
    assert [compare_versions(one, other) > 0 for one, other in pairwise(versions)] == [True, True]


@given(st.text("v12alphbet", max_size=8), st.text("v12alphbet", max_size=8))
def test_comparing_is_antisymmetric(one: str, other: str) -> None:
    assert compare_versions(one, other) == -compare_versions(other, one)
    assert (compare_versions(one, other) == 0) == (one == other)
