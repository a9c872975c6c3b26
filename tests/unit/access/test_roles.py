"""Roles of callers, API groups of publishers, and clusters of readers."""

import pytest
from apidiscovery_service.access import Caller, Grant, Role
from apidiscovery_service.access.grants import Roles
from hypothesis import given
from hypothesis import strategies as st

ANN = Caller("ann", ("east", "west"))


def publisher(*patterns: str) -> Roles:
    return Roles([Grant(Role.PUBLISHER, frozenset({"ann"}), api_groups=patterns)])


def test_nothing_is_granted_by_default() -> None:
    assert Roles().role(ANN) is Role.NONE
    assert Roles().may_change(ANN, []) == "user 'ann' is not a publisher"


def test_the_highest_role_of_user_and_groups_counts() -> None:
    grants = [
        Grant(Role.READER, groups=frozenset({"east"})),
        Grant(Role.PUBLISHER, groups=frozenset({"west"}), api_groups=("a",)),
        Grant(Role.ADMIN, users=frozenset({"bob"})),
    ]
    assert Roles(grants).role(ANN) is Role.PUBLISHER
    assert Roles(grants).role(Caller("ann", ("east",))) is Role.READER
    assert Roles(grants).role(Caller("bob")) is Role.ADMIN
    # A group of that name is not the user of that name, and the reverse.
    assert Roles(grants).role(Caller("east", ("bob",))) is Role.NONE


@pytest.mark.parametrize(
    ("pattern", "group", "allowed"),
    [
        ("*", "", True),
        ("*", "a.example.com", True),
        ("", "", True),
        ("", "a", False),
        ("a.example.com", "a.example.com", True),
        ("a.example.com", "axexample.com", False),
        ("*.example.com", "example.com", False),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "a.example.com\n", False),
        ("*.example.com", "a.example.com.evil", False),
        ("a*z", "az", True),
        ("a?", "ab", False),
        ("[ab]", "a", False),
    ],
)
def test_patterns(pattern: str, group: str, allowed: bool) -> None:  # noqa: FBT001 - a table
    assert (publisher(pattern).may_change(ANN, [group]) is None) is allowed


def test_patterns_of_several_grants_add_up_and_each_group_must_match_one() -> None:
    grants = [
        Grant(Role.PUBLISHER, frozenset({"ann"}), api_groups=("a",)),
        Grant(Role.PUBLISHER, groups=frozenset({"east"}), api_groups=("b",)),
        Grant(Role.READER, groups=frozenset({"west"})),
    ]
    assert Roles(grants).may_change(ANN, ["a", "b"]) is None
    denied = Roles(grants).may_change(ANN, ["c", "a", "", "c"])
    assert denied == "user 'ann' may not change these API groups: '', 'c'"


def test_patterns_of_others_do_not_count() -> None:
    grants = [
        Grant(Role.PUBLISHER, frozenset({"ann"}), api_groups=("a",)),
        Grant(Role.PUBLISHER, frozenset({"bob"}), api_groups=("*",)),
    ]
    assert Roles(grants).may_change(ANN, ["b"]) is not None


@given(st.text("ab.*", max_size=6), st.text("ab.", max_size=6))
def test_a_pattern_matches_by_its_parts(pattern: str, group: str) -> None:
    """The rule in other words: the parts between the stars follow each other in the name."""
    first, *rest = pattern.split("*")
    expected = group == pattern
    if rest:
        *middle, last = rest
        left = group[len(first) :] if group.startswith(first) else None
        for part in middle:
            if left is not None:
                _, found, left = left.partition(part) if part else ("", "-", left)
                left = left if found else None
        expected = left is not None and left.endswith(last)
    assert (publisher(pattern).may_change(ANN, [group]) is None) is expected


def reader(user: str, *clusters: str) -> Grant:
    return Grant(Role.READER, frozenset({user}), clusters=clusters)


def test_clusters_of_several_grants_add_up() -> None:
    roles = Roles([reader("ann", "prod-*"), reader("ann", "east"), reader("bob")])
    assert roles.clusters(ANN) == ("east", "prod-*")
    assert roles.clusters(Caller("bob")) == ()
    assert roles.clusters(Caller("eve")) == ()
    everything = Grant(Role.READER, groups=frozenset({"east"}))
    assert Roles([reader("ann", "east"), everything]).clusters(ANN) == ("*",)


def test_all_may_read_a_cluster_only_if_each_grant_names_it() -> None:
    roles = Roles([reader("ann", "prod-*", "east"), reader("bob", "*")])
    assert roles.all_may_read("prod-1")
    assert roles.all_may_read("east")
    assert not roles.all_may_read("west")
    assert Roles().all_may_read("west")
