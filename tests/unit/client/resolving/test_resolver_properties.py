"""Properties of resolving on any server."""

import re

import pytest
from ambiguous_cluster import resource
from apidiscovery_client._errors import AmbiguousResource, DiscoveryError, NotServed
from apidiscovery_client.model import Group, Resource, Snapshot
from apidiscovery_client.resolving import Resolution, Resolver, full_name
from apidiscovery_client.testing import group
from client_snapshots import WHEN, snapshot
from hypothesis import given
from hypothesis import strategies as st

LETTERS = st.text("ab", min_size=1, max_size=3)
GROUPS = st.sampled_from(["", "a", "a.b", "b.a", "a.b.a", "v1.a"])
VERSIONS = ["v1", "v2", "v1beta1"]


@st.composite
def resources(draw: st.DrawFn) -> Resource:
    name = draw(LETTERS)
    kind = draw(LETTERS.map(str.capitalize))
    return resource(
        name + "s",
        kind,
        *draw(st.lists(LETTERS, max_size=2)),
        singular=draw(st.sampled_from([name, kind.lower(), ""])),
        categories=draw(st.lists(LETTERS, max_size=1)),
        verbs=draw(st.sampled_from([("get",), ("list",), ("get", "list")])),
    )


def _name(one: Resource) -> str:
    return one.name


def _kind(one: Resource) -> str:
    return one.kind


@st.composite
def clusters(draw: st.DrawFn, *, one_of_a_kind: bool = False) -> Snapshot:
    """Return a server whose groups and, in each version, plurals and maybe kinds are unique."""
    unique = (_name, _kind) if one_of_a_kind else (_name,)
    lists = st.lists(resources(), max_size=3, unique_by=unique)
    groups = [
        group(name, **{version: draw(lists) for version in draw(st.permutations(VERSIONS))[:2]})
        for name in draw(st.lists(GROUPS, unique=True, max_size=4))
    ]
    return snapshot(*groups)


@given(clusters())
def test_every_resource_is_found_by_its_whole_path(known: Snapshot) -> None:
    resolver = Resolver(known)
    for one in known.resources:
        found = resolver.resolve(f"{one.gv}/{one.name}", strict=True)
        assert found.resource is one


@given(clusters(one_of_a_kind=True))
def test_every_resource_is_found_by_its_kind_and_by_its_full_name(known: Snapshot) -> None:
    """The full name may also be the singular name of another resource."""
    resolver = Resolver(known)
    for one in known.resources:
        found = resolver.resolve_kind(one.kind, one.gv.group, one.gv.version, strict=True)
        assert found.resource is one
        sharing = [other for other in known.resources if other.gv == one.gv]
        is_clear = all(other is one or other.singular_name != one.name for other in sharing)
        if one.gv.group and is_clear:
            assert resolver.resolve(full_name(one)).resource is one


def texts() -> st.SearchStrategy[str]:
    names = st.tuples(LETTERS, st.sampled_from(["", "s"])).map("".join)
    parts = st.lists(st.one_of(names, GROUPS, st.sampled_from(VERSIONS)), min_size=1, max_size=3)
    return st.one_of(parts.map(".".join), parts.map("/".join), st.text(max_size=8))


def _all_named(known: Snapshot, text: str) -> set[tuple[str, str]]:
    """Return the group-resources that have a word for a name, counted naively."""
    return {
        (one.gv.group, one.name)
        for one in known.resources
        if text in (one.name, one.singular_name, one.kind.lower(), *one.short_names)
    }


@given(clusters(), LETTERS)
def test_strict_never_returns_where_two_resources_have_the_name(known: Snapshot, word: str) -> None:
    try:
        found = Resolver(known).resolve(word, strict=True).resource
    except (AmbiguousResource, NotServed):
        return
    assert _all_named(known, word) <= {(found.gv.group, found.name)}


@given(clusters(), texts(), st.sampled_from([None, "get", "list"]))
def test_strict_returns_the_same_or_raises(known: Snapshot, text: str, verb: str | None) -> None:
    resolver = Resolver(known)
    found, strict = (_resolved(resolver, text, verb, strict=one) for one in (False, True))
    if found:
        assert verb in (None, *found.resource.verbs)
    if strict:
        assert strict == found
        assert strict.candidates == (strict.resource,)


def _resolved(
    resolver: Resolver, text: str, verb: str | None, *, strict: bool
) -> Resolution | None:
    try:
        return resolver.resolve(text, verb=verb, strict=strict)
    except DiscoveryError:
        return None


@given(clusters(), texts())
def test_an_explanation_ends_as_resolving_does(known: Snapshot, text: str) -> None:
    resolver = Resolver(known)
    explanation = resolver.explain(text)
    outcome = explanation.outcome
    assert str(explanation)
    if isinstance(outcome, NotServed):
        assert len(outcome.suggestions) <= 3
        assert outcome.checked_at == WHEN
        assert all(resolver.resolve(suggestion) for suggestion in outcome.suggestions)
    if isinstance(outcome, DiscoveryError):
        with pytest.raises(type(outcome), match=re.escape(str(outcome))):
            resolver.resolve(text)
        return
    assert outcome == resolver.resolve(text)
    chosen = [step for step in explanation.steps if step.chosen]
    assert chosen[-1].chosen is outcome.resource
    assert all(step.chosen in step.matched for step in chosen)


@given(clusters(), LETTERS)
def test_the_first_group_that_has_a_plural_name_decides(known: Snapshot, word: str) -> None:
    having = [one for one in known.groups if _has(one, word)]
    core = [one for one in having if not one.name and _has(_only(one, "v1"), word)]
    if any(word in (one.name, one.singular_name) for one in known.resources):
        expected = (core or having)[0].name
        assert Resolver(known).resolve(word).resource.gv.group == expected


def _has(one: Group, word: str) -> bool:
    resources = [some for version in one.versions for some in version.resources]
    return any(word in (some.name, some.singular_name or some.kind.lower()) for some in resources)


def _only(one: Group, name: str) -> Group:
    return Group(one.name, tuple(version for version in one.versions if version.name == name))
