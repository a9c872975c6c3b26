"""An explanation has each rule that was tried, in order, and its result."""

from dataclasses import replace

import pytest
from ambiguous_cluster import ambiguous_groups, builtin_groups, resource
from apidiscovery_client._errors import AmbiguousResource, NotServed
from apidiscovery_client.model import Group, Stale
from apidiscovery_client.resolving import Reading, Resolver, Rule, Why, full_name
from apidiscovery_client.testing import group
from client_snapshots import WHEN, snapshot

AMBIGUOUS = Resolver(snapshot(*ambiguous_groups()))
BUILTIN = Resolver(snapshot(*builtin_groups()))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("po", """
1. "po", as a short name, in any group
   pods: it comes first in the server's order
   before pods.clash.io
2. "pods", as a plural or singular name, in any group
   pods.v1.: v1 of the core group comes before all others
   before pods.v2., pods.v1.clash.io
Warning: short name "po" could also match lower priority resource pods.clash.io
"po" is pods.v1., kind Pod
It could also mean pods.v1.clash.io
"""),
        ("wd.v1beta1.acme", """
1. "wd" in v1beta1 of acme, as a short name, in the group that the text names
   no match
2. "wd" in v1beta1 of acme, as a short name, in a group whose name begins as the text says
   widgets.acme.io: it is the only one
3. "widgets" in v1beta1 of acme.io, as a plural or singular name, in the version and group that \
the text names
   widgets.v1beta1.acme.io: it is the only one
"wd.v1beta1.acme" is widgets.v1beta1.acme.io, kind Widget
"""),
        ("foos", """
1. "foos", as a plural or singular name, in any group
   bars.v1.twins.io: it comes last of those with this kind in its group-version
   before foos.v1.twins.io
"foos" is bars.v1.twins.io, kind Foo
It could also mean foos.v1.twins.io
"""),
        ("apps/v1/Deployment", """
1. "Deployment" in apps/v1, as a kind or plural name after its whole group-version, as in \
apps/v1/Deployment
   deployments.v1.apps: it is the only one
"apps/v1/Deployment" is deployments.v1.apps, kind Deployment
"""),
        ("apps/v9/Deployment", """
1. "Deployment" in apps/v9, as a kind or plural name after its whole group-version, as in \
apps/v1/Deployment
   no match
Error: the server doesn't have a resource type "apps/v9/Deployment", did you mean \
deployments.apps or deployments.early.io or deployments.clash.io?
"""),
        ("deployments.apps/scale", """
1. "deployments" in apps, as a plural or singular name, in the group that the text names
   deployments.v1.apps: it is the only one
"deployments.apps/scale" is deployments.v1.apps/scale, kind Scale
"""),
        ("Fancy.v2.odd.io", """
1. "Fancy" in v2 of odd.io, as a short name, in the group that the text names
   no match
2. "Fancy" in v2 of odd.io, as a short name, in a group whose name begins as the text says
   no match
3. "Fancy" in v2 of odd.io, as a plural or singular name, in the version and group that the text \
names
   no match
4. "Fancy" in v2.odd.io, as a short name, in the group that the text names
   no match
5. "Fancy" in v2.odd.io, as a short name, in a group whose name begins as the text says
   no match
6. "Fancy" in v2.odd.io, as a plural or singular name, in a group whose name begins as the text says
   no match
7. "Fancy" in v2 of odd.io, as a kind, in the version and group that the text names
   fancythings.v2.odd.io: it is the only one
"Fancy.v2.odd.io" is fancythings.v2.odd.io, kind Fancy
"""),
    ],
)  # fmt: skip
def test_as_text_it_is_for_the_terminal(text: str, lines: str) -> None:
    assert str(AMBIGUOUS.explain(text)) == lines.strip("\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pods", Why.CORE),
        ("deployments", Why.GROUP_ORDER),
        ("widgets.acme.io", Why.PREFERRED),
        ("gadgets.acme.io", Why.VERSION_ORDER),
        ("oldies", Why.ONLY),
        ("foos", Why.LAST_OF_KIND),
        ("fancy.odd.io", Why.PREFERRED),
    ],
)
def test_the_last_step_tells_why_that_resource_was_chosen(text: str, why: Why) -> None:
    explanation = AMBIGUOUS.explain(text)
    assert explanation.steps[-1].why is why
    assert explanation.steps[-1].chosen is AMBIGUOUS.resolve(text).resource


def test_each_step_has_its_rule_reading_and_matches_for_programs() -> None:
    first, second = AMBIGUOUS.explain("dup.acme").steps[1:]
    assert (first.rule, first.reading) == (Rule.SHORT_NAME_GROUP_PREFIX, Reading("dup", "acme"))
    assert [full_name(one) for one in first.matched] == [
        "kinks.v1.acme.io",
        "gadgets.v1beta1.acme.io",
    ]
    assert (second.rule, second.reading) == (Rule.GROUP, Reading("kinks", "acme.io"))


def test_what_is_not_found_is_told_and_not_raised() -> None:
    explanation = BUILTIN.explain("pdo")
    assert isinstance(explanation.outcome, NotServed)
    assert [step.matched for step in explanation.steps] == [(), (), ()]
    assert [step.rule for step in explanation.steps] == [Rule.SHORT_NAME, Rule.NAME, Rule.KIND]
    assert "did you mean pods" in str(explanation).splitlines()[-1]


def test_a_category_of_several_is_told_with_all_of_them() -> None:
    explanation = AMBIGUOUS.explain("acme")
    assert isinstance(explanation.outcome, AmbiguousResource)
    assert explanation.steps[-1].rule is Rule.CATEGORY
    assert explanation.steps[-1].chosen is None
    assert "   several: widgets.v1.acme.io, gadgets.v1beta1.acme.io, " in str(explanation)


def test_a_stale_resource_is_told_with_since_when_and_why() -> None:
    (version,) = group("a.io", v1=[resource("cars", "Car")]).versions
    stale = replace(version, freshness=Stale(WHEN, "no route to host"))
    lines = str(Resolver(snapshot(Group("a.io", (stale,)))).explain("cars")).splitlines()
    assert lines[-1] == (
        "It is the last known state, stale since 2026-01-02T03:04:05+00:00: no route to host"
    )


@pytest.mark.parametrize("sentences", [Rule, Why])
def test_every_rule_and_reason_has_a_sentence_of_its_own(sentences: type[Rule | Why]) -> None:
    assert len(sentences) == len(sentences.__members__)  # which also has aliases
