"""Each rule by which a text leads to a resource, and what comes with it."""

import pytest
from ambiguous_cluster import ambiguous_groups, builtin_groups, resource
from apidiscovery_client._errors import AmbiguousResource, NotServed
from apidiscovery_client.model import CURRENT
from apidiscovery_client.resolving import Resolver, Rule, full_name
from apidiscovery_client.testing import group
from client_snapshots import snapshot

BUILTIN = Resolver(snapshot(*builtin_groups()))
AMBIGUOUS = Resolver(snapshot(*ambiguous_groups()))


def name_of(resolver: Resolver, text: str) -> str:
    """Return the full name of the resource, with its subresource."""
    found = resolver.resolve(text)
    below = f"/{found.subresource.name}" if found.subresource else ""
    return full_name(found.resource) + below


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        ("pods", "pods.v1.", Rule.NAME),
        ("POD", "pods.v1.", Rule.NAME),
        ("po", "pods.v1.", Rule.SHORT_NAME),
        ("deployments.apps", "deployments.v1.apps", Rule.GROUP),
        ("deployments.ap", "deployments.v1.apps", Rule.GROUP_PREFIX),
        ("deploy.apps", "deployments.v1.apps", Rule.SHORT_NAME_IN_GROUP),
        ("deploy.ap", "deployments.v1.apps", Rule.SHORT_NAME_GROUP_PREFIX),
        ("deployments.v1.apps", "deployments.v1.apps", Rule.VERSION_AND_GROUP),
        ("Deployment.v1.apps", "deployments.v1.apps", Rule.VERSION_AND_GROUP),
        ("pods.v1.", "pods.v1.", Rule.VERSION),
        ("hpa.v1.autoscaling", "horizontalpodautoscalers.v2.autoscaling", Rule.SHORT_NAME_IN_GROUP),
        ("apps/v1/Deployment", "deployments.v1.apps", Rule.EXACT),
        ("apps/v1/deployments", "deployments.v1.apps", Rule.EXACT),
        ("apps/v1/deployment", "deployments.v1.apps", Rule.EXACT),
        ("autoscaling/v1/horizontalpodautoscalers", "horizontalpodautoscalers.v1.autoscaling",
         Rule.EXACT),
        ("apps/v1, Kind=Deployment", "deployments.v1.apps", Rule.EXACT),
        ("apps/v1, Resource=deployments", "deployments.v1.apps", Rule.EXACT),
        ("/v1, Kind=Pod", "pods.v1.", Rule.EXACT),
        ("v1, Kind=Pod", "pods.v1.", Rule.EXACT),
        ("v1/Pod", "pods.v1.", Rule.EXACT),
        ("v1/pods", "pods.v1.", Rule.EXACT),
        ("v1/pods/log", "pods.v1./log", Rule.EXACT),
        ("pods/log", "pods.v1./log", Rule.NAME),
        ("po/exec", "pods.v1./exec", Rule.SHORT_NAME),
        ("deployments.apps/scale", "deployments.v1.apps/scale", Rule.GROUP),
        ("deployments.v1.apps/scale", "deployments.v1.apps/scale", Rule.VERSION_AND_GROUP),
        ("apps/v1/deployments/scale", "deployments.v1.apps/scale", Rule.EXACT),
        ("apps/v1/Deployment/status", "deployments.v1.apps/status", Rule.EXACT),
    ],
)  # fmt: skip
def test_a_text_leads_to_a_resource_by_one_rule(text: str, name: str, rule: Rule) -> None:
    assert name_of(BUILTIN, text) == name
    assert BUILTIN.resolve(text).rule is rule
    assert BUILTIN.resolve(text).freshness == CURRENT


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        ("Fancy.odd.io", "fancythings.v1.odd.io", Rule.KIND),
        ("fancy.v2.odd.io", "fancythings.v2.odd.io", Rule.VERSION_AND_KIND),
        ("solo", "oldies.v1beta1.acme.io", Rule.CATEGORY),
    ],
)
def test_a_kind_and_a_category_are_looked_for_last(text: str, name: str, rule: Rule) -> None:
    found = AMBIGUOUS.resolve(text)
    assert (full_name(found.resource), found.rule) == (name, rule)


@pytest.mark.parametrize(
    "text",
    ["", "/", "//", "///", "////", "pods/", "/pods", "pods/nothing", "v1/", "apps/v1/", "apps/v1",
     "apps/v2/Deployment", "apps/v1/DEPLOYMENT", "apps/v1/deployments/nothing", "a/b/c/d/e",
     "v1/po", "v1/pods/", "apps/v1/deployments/", "apps/v1, Kind=", ", Kind=Pod",
     "pods.v1./nothing", "\0", "podé", "depłoyments", "x" * 100_000,
     "." * 1000, "/" * 1000],
)  # fmt: skip
def test_nonsense_is_not_served(text: str) -> None:
    with pytest.raises(NotServed) as raised:
        BUILTIN.resolve(text)
    assert raised.value.wanted == text
    assert not raised.value.unsure


def test_the_first_of_a_clashing_short_name_is_taken_with_kubectls_warning() -> None:
    found = AMBIGUOUS.resolve("deploy")
    assert found.warnings == (
        'short name "deploy" could also match lower priority resource deployments.apps',
    )
    assert [full_name(one) for one in found.candidates] == [
        "deployments.v1.early.io",
        "deployments.v1.apps",
    ]


def test_v1_of_the_core_group_comes_first_wherever_it_is_listed() -> None:
    groups = (group("a.io", v1=[resource("cars", "Car")]), group("", v1=[resource("cars", "Car")]))
    assert name_of(Resolver(snapshot(*groups)), "cars") == "cars.v1."


def test_a_resource_without_a_kind_is_only_found_whole_or_for_a_subresource() -> None:
    parent = resource("nodes", "", below=["cpu"])
    resolver = Resolver(snapshot(group("metrics.io", v1=[parent])))
    assert name_of(resolver, "nodes/cpu") == "nodes.v1.metrics.io/cpu"
    assert resolver.resolve("nodes/cpu").rule is Rule.PARENT
    assert name_of(resolver, "metrics.io/v1/nodes") == "nodes.v1.metrics.io"
    with pytest.raises(NotServed):
        resolver.resolve("nodes")
    with pytest.raises(NotServed):
        resolver.resolve("nodes/memory")


def test_a_core_version_comes_before_a_resource_of_its_name() -> None:
    core = group("", v1=[resource("pods", "Pod")])
    odd = group("odd.io", v2=[resource("v1", "V1", singular="v1", below=["pods"])])
    assert name_of(Resolver(snapshot(core, odd)), "v1/pods") == "pods.v1."
    assert name_of(Resolver(snapshot(odd)), "v1/pods") == "v1.v2.odd.io/pods"


def test_with_a_verb_others_are_passed_over() -> None:
    groups = (
        group(
            "a.io",
            v1=[resource("cars", "Car", verbs=["create"])],
            v1beta1=[resource("cars", "Car", verbs=["create", "list"])],
        ),
        group("b.io", v1=[resource("cars", "Car", verbs=["list", "watch"])]),
    )
    resolver = Resolver(snapshot(*groups))
    chosen = {
        verb: full_name(resolver.resolve("cars", verb=verb).resource)
        for verb in ("create", "list", "watch")
    }
    assert chosen == {
        "create": "cars.v1.a.io",
        "list": "cars.v1beta1.a.io",
        "watch": "cars.v1.b.io",
    }
    with pytest.raises(NotServed, match='resource type "cars" with the verb "patch"'):
        resolver.resolve("cars", verb="patch")


def test_with_a_subresource_the_verb_is_that_of_the_subresource() -> None:
    assert BUILTIN.resolve("pods/eviction", verb="create").subresource
    with pytest.raises(NotServed, match='"pods/eviction" with the verb "list"'):
        BUILTIN.resolve("pods/eviction", verb="list")
    with pytest.raises(NotServed):
        BUILTIN.resolve("v1/pods", verb="connect")


def test_with_a_scope_others_are_passed_over() -> None:
    assert BUILTIN.resolve("nodes", namespaced=False).resource.name == "nodes"
    with pytest.raises(NotServed, match="outside of namespaces"):
        BUILTIN.resolve("pods", namespaced=False)
    with pytest.raises(NotServed, match='with the verb "list" in namespaces'):
        BUILTIN.resolve("nodes", verb="list", namespaced=True)


def test_many_narrowed_lookups_are_answered_alike() -> None:
    for number in range(50):
        with pytest.raises(NotServed):
            BUILTIN.resolve("pods", verb=f"verb{number}")
        assert name_of(BUILTIN, "pods") == "pods.v1."
    assert BUILTIN.resolve("pods", verb="list").resource.name == "pods"


@pytest.mark.parametrize(
    ("kind", "where", "versions", "name", "rule"),
    [
        ("Deployment", "apps", None, "deployments.v1.apps", Rule.KIND),
        ("deployment", "apps", None, "deployments.v1.apps", Rule.KIND),
        ("Pod", "", None, "pods.v1.", Rule.KIND),
        ("Pod", "", "v1", "pods.v1.", Rule.VERSION_AND_KIND),
        ("Widget", "acme.io", None, "widgets.v1.acme.io", Rule.KIND),
        ("Widget", "acme.io", "v1alpha1", "widgets.v1alpha1.acme.io", Rule.VERSION_AND_KIND),
        ("Widget", "acme.io", ("v9", "v1alpha1", "v1"), "widgets.v1alpha1.acme.io",
         Rule.VERSION_AND_KIND),
        ("Widget", "acme.io", ("", "__internal"), "widgets.v1.acme.io", Rule.KIND),
        ("Gadget", "acme.io", None, "gadgets.v1beta1.acme.io", Rule.KIND),
        ("Widget", None, None, "widgets.v1.acme.io", Rule.KIND_IN_ANY_GROUP),
        ("Widget", None, "v2", "widgets.v2.example", Rule.KIND_IN_ANY_GROUP),
        ("Foo", "twins.io", None, "bars.v1.twins.io", Rule.KIND),
    ],
)  # fmt: skip
def test_a_kind_leads_to_its_resource(
    kind: str,
    where: str | None,
    versions: str | tuple[str, ...] | None,
    name: str,
    rule: Rule | None,
) -> None:
    found = AMBIGUOUS.resolve_kind(kind, where, versions)
    assert full_name(found.resource) == name
    assert found.rule is rule


@pytest.mark.parametrize(
    ("kind", "where", "versions", "wanted"),
    [
        ("Deploymen", "apps", None, "Deploymen.apps"),
        ("Deployment", "app", None, "Deployment.app"),
        ("Deployment", "apps", "v2", "Deployment.v2.apps"),
        ("DEPLOYMENT", "apps", None, "DEPLOYMENT.apps"),
        ("Deployment", "", None, "Deployment"),
        ("Deployment", "apps", ["v2", "v3"], "Deployment.v2,v3.apps"),
    ],
)
def test_a_kind_that_is_not_served_is_told_with_suggestions(
    kind: str, where: str, versions: str | list[str] | None, wanted: str
) -> None:
    with pytest.raises(NotServed) as raised:
        BUILTIN.resolve_kind(kind, where, versions)
    assert raised.value.wanted == wanted
    assert raised.value.suggestions[0].startswith("deployments")


def test_a_category_has_the_preferred_version_of_each_resource_once() -> None:
    assert [full_name(one) for one in AMBIGUOUS.category("acme")] == [
        "widgets.v1.acme.io",
        "gadgets.v1beta1.acme.io",
        "widgets.v1.example.com",
        "gadgets.v1.example.com",
        "widgets.v1.example.com.other",
        "widgets.v2.ver.io",
        "widgets.v1.v1.ver.io",
        "widgets.v1.both.io",
        "gadgets.v1.both.io",
    ]


def test_a_category_that_nobody_has_is_not_served() -> None:
    with pytest.raises(NotServed) as raised:
        AMBIGUOUS.category("acne")
    assert raised.value.suggestions == ("acme",)


def test_a_category_of_several_resources_is_no_resource() -> None:
    with pytest.raises(AmbiguousResource) as raised:
        BUILTIN.resolve("api-extensions")
    assert raised.value.candidates[0] == "apiservices.v1.apiregistration.k8s.io"
    assert len(raised.value.candidates) > 2


def test_nothing_is_served_by_an_empty_server() -> None:
    resolver = Resolver(snapshot())
    for text in ("pods", "v1/Pod", "pods/log", "pods.v1.", "a.b"):
        with pytest.raises(NotServed) as raised:
            resolver.resolve(text)
        assert raised.value.suggestions == ()
