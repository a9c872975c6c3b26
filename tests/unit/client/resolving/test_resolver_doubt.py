"""Stale, unknown and missing parts are reported; strict returns nothing doubtful."""

from dataclasses import replace

import pytest
from ambiguous_cluster import ambiguous_groups, builtin_groups, resource
from apidiscovery_client._errors import (
    AmbiguousResource,
    NotServed,
    StaleGroup,
    UncertainResource,
)
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    Group,
    GroupVersion,
    Snapshot,
    Stale,
    Unknown,
    Version,
)
from apidiscovery_client.resolving import Resolver, full_name
from apidiscovery_client.testing import group
from client_snapshots import WHEN, snapshot

STALE = Stale(WHEN, "no route to host", retained=True)
UNKNOWN = Unknown(WHEN, "no route to host")
CARS = resource("cars", "Car", "ca")
VANS = resource("vans", "Van", "ca")
CORE = group("", v1=[resource("pods", "Pod", "po")])


def troubled(of: Group, freshness: Freshness, *names: str) -> Group:
    """Return a group of which these versions, or all, are no longer current."""
    versions = [
        replace(one, freshness=freshness) if not names or one.name in names else one
        for one in of.versions
    ]
    return Group(of.name, tuple(versions))


def unknown(name: str, *versions: str) -> Group:
    """Return a group of which no resources are known."""
    return Group(name, tuple(Version(GroupVersion(name, one), (), UNKNOWN) for one in versions))


def strict(known: Snapshot, text: str) -> str:
    return full_name(Resolver(known).resolve(text, strict=True).resource)


AMBIGUOUS = snapshot(*ambiguous_groups())


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("deploy", ("deployments.v1.early.io", "deployments.v1.apps")),
        ("deployments",
         ("deployments.v1.early.io", "deployments.v1.apps", "deployments.v1.clash.io")),
        ("pods", ("pods.v1.", "pods.v1.clash.io")),
        ("pods.v1.", ("pods.v1.", "pods.v1.clash.io")),
        ("wd.example",
         ("widgets.v1.example.com", "widgets.v1.example", "widgets.v1.example.com.other")),
        ("things", ("things.v1.example.com", "stuffs.v1.acme.io", "things.v1.example")),
        ("foos", ("bars.v1.twins.io", "foos.v1.twins.io")),
        ("twins.io/v1/Foo", ("bars.v1.twins.io", "foos.v1.twins.io")),
        ("rodent", ("voles.v1.twins.io", "rats.v1.twins.io")),
        ("dup.acme.io", ("kinks.v1.acme.io", "gadgets.v1beta1.acme.io")),
    ],
)  # fmt: skip
def test_strict_refuses_a_text_of_several_meanings(text: str, candidates: tuple[str, ...]) -> None:
    with pytest.raises(AmbiguousResource) as raised:
        Resolver(AMBIGUOUS).resolve(text, strict=True)
    assert raised.value.candidates == candidates


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("apps/v1/Deployment", "deployments.v1.apps"),
        ("early.io/v1/deployments", "deployments.v1.early.io"),
        ("deployments.v1.apps", "deployments.v1.apps"),
        ("deploy.apps", "deployments.v1.apps"),
        ("v1/Pod", "pods.v1."),
        ("twins.io/v1/foos", "foos.v1.twins.io"),
        ("widgets.v1alpha1.acme.io", "widgets.v1alpha1.acme.io"),
        ("oldies", "oldies.v1beta1.acme.io"),
        ("solo", "oldies.v1beta1.acme.io"),
        ("fancythings", "fancythings.v1.odd.io"),
    ],
)
def test_strict_accepts_a_text_of_one_meaning_in_whatever_versions(text: str, name: str) -> None:
    assert strict(AMBIGUOUS, text) == name


def test_strict_refuses_a_kind_of_several_groups_unless_one_is_named() -> None:
    resolver = Resolver(AMBIGUOUS)
    with pytest.raises(AmbiguousResource) as raised:
        resolver.resolve_kind("Gadget", strict=True)
    assert raised.value.candidates[:2] == ("gadgets.v1beta1.acme.io", "gadgets.v1.example.com")
    assert resolver.resolve_kind("Gadget", "acme.io", strict=True).resource.gv.group == "acme.io"
    with pytest.raises(AmbiguousResource):
        resolver.resolve_kind("Foo", "twins.io", strict=True)


def test_a_stale_resource_is_returned_as_stale_and_refused_when_strict() -> None:
    known = snapshot(CORE, troubled(group("a.io", v1=[CARS]), STALE))
    found = Resolver(known).resolve("cars")
    assert (full_name(found.resource), found.freshness) == ("cars.v1.a.io", STALE)
    with pytest.raises(StaleGroup) as raised:
        strict(known, "cars")
    assert raised.value.group_version == "a.io/v1"
    assert (raised.value.since, raised.value.reason) == (WHEN, "no route to host")


def test_a_text_means_the_same_while_its_group_is_stale() -> None:
    first, second = group("a.io", v1=[CARS]), group("b.io", v1=[CARS])
    for state in (first, troubled(first, STALE)):
        found = Resolver(snapshot(CORE, state, second)).resolve("cars")
        assert full_name(found.resource) == "cars.v1.a.io"


def test_of_one_group_a_version_that_answers_comes_before_one_that_does_not() -> None:
    both = group("a.io", v1=[CARS], v1beta1=[CARS])
    known = snapshot(troubled(both, STALE, "v1"))
    assert strict(known, "cars") == "cars.v1beta1.a.io"
    assert strict(snapshot(both), "cars") == "cars.v1.a.io"


def test_when_the_server_did_not_answer_all_is_stale() -> None:
    known = replace(snapshot(CORE), freshness=STALE)
    assert Resolver(known).resolve("pods").freshness == STALE
    with pytest.raises(StaleGroup):
        strict(known, "v1/Pod")
    with pytest.raises(NotServed) as raised:
        Resolver(known).resolve("cars")
    assert raised.value.unsure == {"https://one.example.com": "no route to host"}


@pytest.mark.parametrize(
    ("text", "unsure"),
    [
        ("bikes", {"b.io", "c.io/v2", "/apis"}),
        ("bikes.b", {"b.io", "/apis"}),
        ("bikes.c.io", {"c.io/v2", "/apis"}),
        ("bikes.v2.c.io", {"c.io/v2", "/apis"}),
        ("bikes.v3.c.io", {"/apis"}),
        ("c.io/v2/Bike", {"c.io/v2", "/apis"}),
        ("c.io/v1/Bike", {"/apis"}),
        ("v1/Bike", set[str]()),
    ],
)
def test_the_error_names_where_the_resource_may_still_be(text: str, unsure: set[str]) -> None:
    known = replace(
        snapshot(CORE, unknown("b.io", "v1"), unknown("c.io", "v2")), failures={"/apis": "503"}
    )
    with pytest.raises(NotServed) as raised:
        Resolver(known).resolve(text)
    expected = {"b.io/v1" if name == "b.io" else name for name in unsure}
    assert set(raised.value.unsure) == expected
    assert set(raised.value.unsure.values()) <= {"503", "no route to host"}


def test_without_the_core_document_nothing_of_the_core_group_is_certain() -> None:
    known = replace(snapshot(group("a.io", v1=[CARS])), failures={"/api": "timeout"})
    for text in ("pods", "v1/Pod", "pods.v1."):
        with pytest.raises(NotServed) as raised:
            Resolver(known).resolve(text)
        assert raised.value.unsure == {"/api": "timeout"}
    with pytest.raises(NotServed) as raised:
        Resolver(known).resolve("pods.b.io")
    assert raised.value.unsure == {}
    with pytest.raises(UncertainResource) as uncertain:
        strict(known, "cars")
    assert uncertain.value.unsure == {"/api": "timeout"}
    assert strict(known, "cars.a.io") == "cars.v1.a.io"


@pytest.mark.parametrize(
    ("text", "is_certain"),
    [
        ("pods", True),
        ("po", False),
        ("cars", False),
        ("cars.b", False),
        ("cars.b.io", True),
        ("cars.v1.b.io", True),
        ("b.io/v1/Car", True),
        ("ca", False),
        ("ca.b.io", True),
        ("cars.v1.", False),
        ("cars.v2.b.io", True),
    ],
)
def test_strict_refuses_what_an_unknown_group_version_may_match_better(
    text: str, *, is_certain: bool
) -> None:
    known = snapshot(CORE, unknown("b.ia", "v1"), group("b.io", v1=[CARS], v2=[CARS]))
    assert Resolver(known).resolve(text).freshness == CURRENT
    if is_certain:
        strict(known, text)
        return
    with pytest.raises(UncertainResource) as raised:
        strict(known, text)
    assert raised.value.unsure == {"b.ia/v1": "no route to host"}
    assert "better match" in str(raised.value)


def test_a_later_unknown_group_may_only_hide_a_better_short_name() -> None:
    known = snapshot(CORE, group("b.io", v1=[CARS]), unknown("c.io", "v1"))
    assert strict(known, "cars") == "cars.v1.b.io"
    with pytest.raises(UncertainResource):
        strict(known, "ca")


def test_an_unknown_version_that_is_never_preferred_hides_nothing() -> None:
    half = Group("b.io", (*unknown("b.io", "v2").versions, *group("b.io", v1=[CARS]).versions))
    assert strict(snapshot(half), "cars") == "cars.v1.b.io"


def test_strict_for_a_kind_heeds_only_its_group_and_versions() -> None:
    known = snapshot(CORE, unknown("b.ia", "v1"), group("b.io", v1=[CARS]))
    resolver = Resolver(known)
    assert resolver.resolve_kind("Car", "b.io", strict=True).resource.name == "cars"
    with pytest.raises(UncertainResource):
        resolver.resolve_kind("Car", strict=True)
    assert resolver.resolve_kind("Pod", "", strict=True).resource.name == "pods"


@pytest.mark.parametrize(
    ("where", "versions", "is_certain"),
    [
        ("b.io", None, True),
        ("b.io", "v1", True),
        ("b.io", ["v1", "v2"], True),
        ("b.io", ["v2", "v1"], False),
        ("b.io", ["v3", "v1"], True),
        (None, "v1", False),
        (None, ["v1beta1", "v1"], False),
        ("", None, True),
    ],
)
def test_strict_for_a_kind_heeds_the_versions_that_are_asked_for_first(
    where: str | None, versions: str | list[str] | None, *, is_certain: bool
) -> None:
    known = snapshot(
        group("", v1=[CARS] if where == "" else []),
        unknown("a.io", "v1"),
        Group("b.io", (*group("b.io", v1=[CARS]).versions, *unknown("b.io", "v2").versions)),
    )
    resolver = Resolver(replace(known, failures={"/apis": "503"}) if where == "" else known)
    if is_certain:
        resolver.resolve_kind("Car", where, versions, strict=True)
        return
    with pytest.raises(UncertainResource):
        resolver.resolve_kind("Car", where, versions, strict=True)


def test_missing_groups_do_not_make_the_core_group_uncertain() -> None:
    known = replace(snapshot(CORE), failures={"/apis": "503"})
    assert strict(known, "pods") == "pods.v1."
    assert strict(known, "v1/Pod") == "pods.v1."
    with pytest.raises(UncertainResource):
        strict(known, "po")


def test_real_servers_have_unambiguous_names_but_for_events() -> None:
    known = snapshot(*builtin_groups())
    refused: set[str] = set()
    for one in known.resources:
        try:
            strict(known, one.name)
        except AmbiguousResource:
            refused.add(one.name)
    assert refused == {"events"}


def test_two_short_names_of_one_group_are_ambiguous_when_strict() -> None:
    known = snapshot(group("a.io", v1=[CARS, VANS]))
    assert full_name(Resolver(known).resolve("ca.a.io").resource) == "cars.v1.a.io"
    with pytest.raises(AmbiguousResource):
        strict(known, "ca.a.io")
