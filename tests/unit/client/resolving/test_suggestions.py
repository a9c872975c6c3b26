"""The error for a name that is not served has the nearest names."""

import pytest
from ambiguous_cluster import ambiguous_groups, builtin_groups, real_groups, resource
from apidiscovery_client._errors import NotServed
from apidiscovery_client.resolving import Resolver
from apidiscovery_client.resolving.suggestions import edits_between, nearest
from apidiscovery_client.testing import group
from client_snapshots import snapshot
from hypothesis import given
from hypothesis import strategies as st

BUILTIN = Resolver(snapshot(*builtin_groups()))


def suggested(resolver: Resolver, text: str) -> tuple[str, ...]:
    with pytest.raises(NotServed) as raised:
        resolver.resolve(text)
    return raised.value.suggestions


@pytest.mark.parametrize(
    ("text", "suggestions"),
    [
        ("Depoyment", ("deployments",)),
        ("deploymnets", ("deployments",)),
        ("deployment.app.k8s.io", ("deployments.apps",)),
        ("deploymnet.apps", ("deployments.apps",)),
        ("deployments.v2.apps", ("deployments.apps",)),
        ("pod.apps", ("pods",)),
        ("pdos", ("pods",)),
        ("deploi", ("deployments",)),
        ("StatefullSet", ("statefulsets",)),
        ("apps/v1/Deploymnet", ("deployments.apps",)),
        ("apps/v2/Deployment", ("deployments.apps",)),
        ("podz/log", ("pods/log",)),
        ("pods/logs", ("pods/log",)),
        ("pods/evict", ()),
        ("somethingelse", ()),
        ("", ()),
    ],
)
def test_the_nearest_names_are_suggested(text: str, suggestions: tuple[str, ...]) -> None:
    assert suggested(BUILTIN, text) == suggestions


def test_the_text_of_the_error_has_the_suggestions() -> None:
    with pytest.raises(NotServed) as raised:
        BUILTIN.resolve("Depoyment")
    assert str(raised.value) == (
        'the server doesn\'t have a resource type "Depoyment", did you mean deployments?'
    )


def test_an_ambiguous_name_is_suggested_with_its_groups() -> None:
    resolver = Resolver(snapshot(*ambiguous_groups()))
    assert suggested(resolver, "Depoyment") == (
        "deployments",
        "deployments.apps",
        "deployments.clash.io",
    )


def test_fewer_edits_come_first_then_the_group_asked_for_then_the_order() -> None:
    groups = [
        group("a.io", v1=[resource("carses", "Carse")]),
        group("b.io", v1=[resource("carts", "Cart")]),
        group("c.io", v1=[resource("carts", "Cart")]),
    ]
    resolver = Resolver(snapshot(*groups))
    assert suggested(resolver, "carxs") == ("carts", "carts.c.io", "carses")
    assert suggested(resolver, "carxs.c.io") == ("carts.c.io", "carts.b.io", "carses.a.io")
    assert suggested(resolver, "carts.d.io") == ("carts.b.io", "carts.c.io")


def test_custom_resources_are_suggested() -> None:
    resolver = Resolver(snapshot(*real_groups()))
    assert suggested(resolver, "certifcate") == ("certificates",)


def test_a_kind_is_suggested_by_its_plural() -> None:
    resolver = Resolver(snapshot(*ambiguous_groups()))
    assert suggested(resolver, "Fency.odd.io") == ("fancythings.odd.io",)


def _edits_counted_plainly(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    found = min(
        _edits_counted_plainly(one[1:], other) + 1,
        _edits_counted_plainly(one, other[1:]) + 1,
        _edits_counted_plainly(one[1:], other[1:]) + (one[0] != other[0]),
    )
    if len(one) > 1 and one[:2] == other[1::-1][:2] and len(other) > 1:
        found = min(found, _edits_counted_plainly(one[2:], other[2:]) + 1)
    return found


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_edits_are_the_fewest_of_all_possible_ones(one: str, other: str) -> None:
    assert edits_between(one, other) == _edits_counted_plainly(one, other)


def test_of_a_few_names_the_nearest_come_first() -> None:
    assert nearest("stat", ["status", "stats", "state", "scale", "stat"]) == (
        "stat",
        "stats",
        "state",
    )
