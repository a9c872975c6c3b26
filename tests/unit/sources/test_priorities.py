"""Priorities of built-in groups, and lists that keep their own order."""

from itertools import pairwise

import pytest
from apidiscovery_service.core.model import Contribution, Offer, Precedence, Version
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.sources.priorities import BUILT_IN_GROUPS, ordered_offers
from groups import contributions
from hypothesis import given
from hypothesis import strategies as st

# kube-apiserver's table. Where it has no value, that which keeps Kubernetes' own order of versions:
# of resource.k8s.io v1, which stands first there.
TABLE: dict[str, tuple[int, dict[str, int]]] = {
    "apiregistration.k8s.io": (20001, {"v1": 0}),
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15}),
    "authentication.k8s.io": (17700, {"v1": 15}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v2": 30, "v1": 15}),
    "batch": (17400, {"v1": 15}),
    "certificates.k8s.io": (17300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "networking.k8s.io": (17200, {"v1": 15, "v1beta1": 9}),
    "policy": (17100, {"v1": 15}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "admissionregistration.k8s.io": (16700, {"v1": 15, "v1beta1": 12, "v1alpha1": 9}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "scheduling.k8s.io": (16600, {"v1": 15}),
    "coordination.k8s.io": (16500, {"v1": 15, "v1beta1": 13, "v1alpha2": 12}),
    "node.k8s.io": (16300, {"v1": 15}),
    "discovery.k8s.io": (16200, {"v1": 15}),
    "resource.k8s.io": (16200, {"v1": 15, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21}),
    "internal.apiserver.k8s.io": (16000, {"v1alpha1": 9}),
    "storagemigration.k8s.io": (15800, {"v1beta1": 9}),
}

CATALOGUE = kubernetes_catalog().offers


def test_every_group_of_the_catalogue_is_in_the_table() -> None:
    assert {o.group for o in CATALOGUE} <= TABLE.keys() <= BUILT_IN_GROUPS


@pytest.mark.parametrize("offer", CATALOGUE, ids=lambda o: f"{o.group}-{o.version.version}")
def test_a_priority_of_the_catalogue_is_that_of_the_table(offer: Offer) -> None:
    group_priority, versions = TABLE[offer.group]
    assert offer.group_priority == group_priority
    if offer.version.version in versions:
        assert offer.version_priority == versions[offer.version.version]


LISTS = st.lists(
    st.tuples(
        st.sampled_from([*TABLE, "a.example", "b.example", "z.example"]),
        st.lists(
            st.sampled_from(["v1", "v2", "v1beta1", "v1alpha1", "v10", "foo"]).map(Version),
            min_size=1,
            max_size=4,
            unique=True,
        ).map(tuple),
    ),
    max_size=8,
    unique_by=lambda group: group[0],
)


@given(LISTS, st.lists(contributions(st.sampled_from(["b", "c"])), max_size=3))
def test_a_list_keeps_its_order_whatever_it_is_merged_with(
    groups: list[tuple[str, tuple[Version, ...]]], others: list[Contribution]
) -> None:
    """Nothing of the others wins over it or has a group in common with it."""
    names = {name for name, _ in groups}
    apart = [
        Contribution(c.source, Precedence.CRD, tuple(o for o in c.offers if o.group not in names))
        for c in others
    ]
    listed = Contribution("a", Precedence.BUILTIN, tuple(ordered_offers(groups)))
    snapshot = Registry().publish(listed, *apart)
    order = [name for name, _ in groups if name]
    assert [g.name for g in snapshot.named.groups if g.name in names] == order
    for name, versions in groups:
        document = snapshot.named if name else snapshot.core
        assert document.by_name[name].group.versions == versions
    by_aggregator = [name for name in order if name != "apiregistration.k8s.io"]
    listed_names = [g.name for g in snapshot.named.listed if g.name in by_aggregator]
    assert listed_names == by_aggregator


@given(LISTS)
def test_no_priority_is_lower_than_that_of_the_table(
    groups: list[tuple[str, tuple[Version, ...]]],
) -> None:
    made = ordered_offers(groups)
    assert [(o.group, o.version) for o in made] == [(n, v) for n, vs in groups for v in vs]
    assert all(o.group_priority >= TABLE.get(o.group, (1000, {}))[0] for o in made)
    assert all(a.group_priority >= b.group_priority for a, b in pairwise(made))
    for a, b in pairwise(made):
        assert a.group != b.group or a.version_priority >= b.version_priority


def test_a_group_without_a_row_has_the_defaults() -> None:
    (offer,) = ordered_offers([("a.example", (Version("v1"),))], 7)
    assert (offer.group_priority, offer.version_priority) == (1000, 15)
    assert (offer.group_rank, offer.version_rank) == (7, 0)


def test_a_group_is_raised_to_the_greatest_after_it() -> None:
    versions: tuple[Version, ...] = (Version("v1"),)
    groups = [(name, versions) for name in ("a.example", "apps", "batch")]
    assert [o.group_priority for o in ordered_offers(groups)] == [17800, 17800, 17400]
