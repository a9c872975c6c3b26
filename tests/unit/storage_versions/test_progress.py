"""The progress of API servers towards a version, as WaitForAgreement reports it."""

from collections.abc import Mapping

import pytest
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.model import ServerStorageVersion, Status, with_status
from apidiscovery_service.storage_versions.state import Progress, Target, is_done, progress
from hypothesis import given
from hypothesis import strategies as st

servers = st.sampled_from("abcdef")
versions = st.sampled_from(["apps/v1", "apps/v2", "apps/v3"])


def saying(name: str, writes: Mapping[str, str]) -> Object:
    """Return an object in which each server writes a version."""
    entries = tuple(
        ServerStorageVersion(server, version, (version,)) for server, version in writes.items()
    )
    return with_status({"metadata": {"name": name}, "spec": {}}, Status(entries))


def one(target: Target, writes: Mapping[str, str]) -> Progress:
    value = saying(target.name, writes)
    found = progress(target, value, ())
    assert found.object in (None, value)
    return found


@pytest.mark.parametrize(
    ("wanted", "writes", "agreeing", "lagging"),
    [
        pytest.param("apps/v1", {"b": "apps/v1", "a": "apps/v1"}, "ab", "", id="all"),
        pytest.param("apps/v2", {"b": "apps/v2", "a": "apps/v1"}, "b", "a", id="one"),
        pytest.param("apps/v2", {"b": "apps/v1", "a": "apps/v1"}, "", "ab", id="none"),
        pytest.param(
            *("", {"a": "apps/v2", "b": "apps/v1", "c": "apps/v2"}),
            *("ac", "b"),
            id="the most common without a target version",
        ),
        pytest.param(
            *("", {"a": "apps/v2", "b": "apps/v1"}),
            *("b", "a"),
            id="the first by name of equally common ones",
        ),
    ],
)
def test_servers_that_write_the_wanted_version_agree_and_the_others_lag(
    wanted: str, writes: dict[str, str], agreeing: str, lagging: str
) -> None:
    found = one(Target("apps.jobs", wanted), writes)
    assert (found.agreeing, found.lagging) == (tuple(agreeing), tuple(lagging))
    assert found.agreed is is_done([found]) is (not lagging)


def test_members_that_reported_nothing_are_named() -> None:
    value = saying("apps.jobs", {"a": "apps/v1"})
    found = progress(Target("apps.jobs"), value, ("c", "d"))
    assert (found.agreed, found.unreported) == (True, ("c", "d"))


def test_an_object_without_entries_counts_as_absent() -> None:
    target = Target("apps.jobs")
    absent = progress(target, None, ("a",))
    assert absent == Progress("apps.jobs", None, agreed=False, unreported=("a",))
    assert progress(target, saying("apps.jobs", {}), ("a",)) == absent


def test_it_is_done_when_every_target_has_agreed() -> None:
    reached = one(Target("x.b"), {"s": "x/v2"})
    missed = one(Target("x.a", "x/v2"), {"s": "x/v1"})
    assert is_done([reached])
    assert not is_done([reached, missed])
    assert is_done([])


@given(st.dictionaries(servers, versions, min_size=1), versions | st.just(""))
def test_each_server_that_has_reported_agrees_or_lags(writes: dict[str, str], wanted: str) -> None:
    found = one(Target("apps.jobs", wanted), writes)
    assert sorted([*found.agreeing, *found.lagging]) == sorted(writes)
    assert found.agreed == (set(writes.values()) == {wanted or next(iter(writes.values()))})
    assert {writes[server] for server in found.agreeing} <= {wanted} or not wanted
