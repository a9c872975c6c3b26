"""A lease has expired when it has been seen unchanged for its duration."""

import math
from datetime import timedelta

import pytest
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions import leases
from apidiscovery_service.storage_versions.expiry import ObservedLeases
from hypothesis import given
from hypothesis import strategies as st
from storage_version_replicas import NOON

A = "apiserver-a"


def checks_until_the_end(observed: ObservedLeases, start: float) -> float:
    """Look whenever a look is due, and return when the lease had ended."""
    now = start
    while now < start + 1e6:
        now = observed.next_check
        for name, revision in observed.due(now):
            if observed.has_expired(name, revision):
                return now
    raise AssertionError("it never ends")


@given(st.integers(1, 86_400), st.floats(0, 1e6))
def test_a_lease_ends_when_it_has_been_seen_unchanged_for_its_duration(
    duration_s: int, start: float
) -> None:
    observed = ObservedLeases()
    observed.observe(A, 1, duration_s, start)
    assert checks_until_the_end(observed, start) == pytest.approx(start + duration_s)


def test_a_lease_is_due_after_a_third_of_its_duration() -> None:
    observed = ObservedLeases()
    observed.observe(A, 1, 30, 100.0)
    assert observed.due(109.9) == []
    assert observed.due(110.0) == [(A, 1)]


def test_observing_an_unchanged_lease_does_not_prolong_it() -> None:
    observed = ObservedLeases()
    observed.observe(A, 1, 30, 0.0)
    observed.observe(A, 1, 30, 9.0)
    assert observed.next_check == 10.0


def test_a_renewal_begins_the_time_anew_with_the_new_duration() -> None:
    observed = ObservedLeases()
    observed.observe(A, 1, 30, 0.0)
    assert not observed.has_expired(A, 1)
    observed.observe(A, 2, 60, 25.0)
    assert not observed.has_expired(A, 1)  # an old revision
    assert checks_until_the_end(observed, 25.0) == 85.0


def test_all_begin_anew_when_leases_could_not_be_seen() -> None:
    observed = ObservedLeases()
    observed.observe(A, 1, 30, 0.0)
    assert [observed.has_expired(A, 1) for _ in range(2)] == [False, False]
    observed.restart(29.0)
    assert checks_until_the_end(observed, 29.0) == 59.0


def test_the_longest_overdue_lease_is_checked_first() -> None:
    observed = ObservedLeases()
    observed.observe("b", 1, 60, 0.0)
    observed.observe("a", 2, 90, 0.0)
    observed.observe("c", 3, 9000, 0.0)
    assert observed.due(50.0) == [("b", 1), ("a", 2)]


def test_a_removed_lease_is_forgotten_but_not_a_later_one() -> None:
    observed = ObservedLeases()
    assert observed.next_check == math.inf
    observed.observe(A, 2, 30, 0.0)
    observed.forget(A, 1)
    assert observed.due(10.0) == [(A, 2)]
    observed.forget(A, 2)
    assert observed.due(10.0) == []
    observed.observe(A, 3, 30, 0.0)
    observed.forget(A, None)
    assert observed.next_check == math.inf
    assert not observed.has_expired(A, 3)


RENEWED: JSONValue = "2026-03-01T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("spec", "duration_s"),
    [
        pytest.param({"leaseDurationSeconds": 7, "renewTime": RENEWED}, 7, id="whole"),
        pytest.param({"renewTime": RENEWED}, 3600, id="no duration"),
        pytest.param({"leaseDurationSeconds": 7}, 3600, id="never renewed"),
        pytest.param({"leaseDurationSeconds": 7, "renewTime": None}, 3600, id="zero time"),
        pytest.param({"leaseDurationSeconds": 0, "renewTime": RENEWED}, 3600, id="zero duration"),
        pytest.param({"leaseDurationSeconds": -1, "renewTime": RENEWED}, 3600, id="negative"),
        pytest.param({}, 3600, id="nothing"),
    ],
)
def test_a_lease_that_does_not_tell_its_duration_lasts_an_hour(
    spec: Object, duration_s: int
) -> None:
    assert leases.duration_s({"metadata": {"name": A}, "spec": spec}) == duration_s


def test_the_count_of_transitions_stops_at_its_maximum() -> None:
    holding = leases.LeaseHolder(A, f"{A}_2", {}, 60)
    full = leases.created(leases.LeaseHolder(A, f"{A}_1", {}, 60), NOON)
    full = full | {"spec": {"leaseTransitions": 2**31 - 1}}
    spec = leases.renewed(full, holding, NOON + timedelta(seconds=1))["spec"]
    assert isinstance(spec, dict)
    assert spec["leaseTransitions"] == 2**31 - 1
