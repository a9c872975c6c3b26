"""How far API servers agree, as whoever waits is told."""

from collections.abc import Mapping

from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.agreement import Entry, Status
from apidiscovery_service.storage_versions.progress import Progress, Target, is_done, progress
from apidiscovery_service.storage_versions.status_fields import with_status
from hypothesis import given
from hypothesis import strategies as st

servers = st.sampled_from("abcdef")
versions = st.sampled_from(["apps/v1", "apps/v2", "apps/v3"])


def saying(name: str, writes: Mapping[str, str]) -> Object:
    """Return an object in which each server writes a version."""
    entries = tuple(Entry(server, version, (version,)) for server, version in writes.items())
    return with_status({"metadata": {"name": name}, "spec": {}}, Status(entries))


def one(target: Target, writes: Mapping[str, str]) -> Progress:
    value = saying(target.name, writes)
    (found,) = progress([target], {target.name: value}, ())
    assert found.object in (None, value)
    return found


def test_all_that_write_the_version_agree() -> None:
    found = one(Target("apps.jobs", "apps/v1"), {"b": "apps/v1", "a": "apps/v1"})
    assert (found.agreed, found.agreeing, found.lagging) == (True, ("a", "b"), ())
    assert is_done([found])


def test_who_writes_another_version_lags() -> None:
    found = one(Target("apps.jobs", "apps/v2"), {"b": "apps/v2", "a": "apps/v1"})
    assert (found.agreed, found.agreeing, found.lagging) == (False, ("b",), ("a",))


def test_all_may_lag_though_they_agree() -> None:
    found = one(Target("apps.jobs", "apps/v2"), {"b": "apps/v1", "a": "apps/v1"})
    assert (found.agreed, found.agreeing, found.lagging) == (False, (), ("a", "b"))


def test_if_any_version_will_do_the_one_that_most_write_is_waited_for() -> None:
    writes = {"a": "apps/v2", "b": "apps/v1", "c": "apps/v2"}
    found = one(Target("apps.jobs"), writes)
    assert (found.agreed, found.agreeing, found.lagging) == (False, ("a", "c"), ("b",))


def test_of_versions_that_as_many_write_the_first_by_name_is_waited_for() -> None:
    found = one(Target("apps.jobs"), {"a": "apps/v2", "b": "apps/v1"})
    assert (found.agreeing, found.lagging) == (("b",), ("a",))


def test_members_that_reported_nothing_are_told_with_each_target() -> None:
    jobs = saying("apps.jobs", {"a": "apps/v1"})
    targets = [Target("apps.jobs"), Target("apps.none")]
    found = progress(targets, {"apps.jobs": jobs}, ("c", "d"))
    assert [each.unreported for each in found] == [("c", "d")] * 2
    assert [each.agreed for each in found] == [True, False]


def test_an_object_without_entries_is_waited_for_like_one_that_is_not_there() -> None:
    absent = progress([Target("apps.jobs")], {}, ("a",))
    empty = progress([Target("apps.jobs")], {"apps.jobs": saying("apps.jobs", {})}, ("a",))
    expected = Progress("apps.jobs", None, agreed=False, unreported=("a",))
    assert absent == empty == (expected,)
    assert not is_done(absent)


def test_it_is_done_when_every_target_is_reached() -> None:
    objects = {"x.a": saying("x.a", {"s": "x/v1"}), "x.b": saying("x.b", {"s": "x/v2"})}
    assert is_done(progress([Target("x.b"), Target("x.a", "x/v1")], objects, ()))
    assert not is_done(progress([Target("x.b"), Target("x.a", "x/v2")], objects, ()))
    assert is_done(progress([], objects, ()))


@given(st.dictionaries(servers, versions, min_size=1), versions | st.just(""))
def test_each_server_that_has_reported_agrees_or_lags(writes: dict[str, str], wanted: str) -> None:
    found = one(Target("apps.jobs", wanted), writes)
    assert sorted([*found.agreeing, *found.lagging]) == sorted(writes)
    assert found.agreed == (set(writes.values()) == {wanted or next(iter(writes.values()))})
    assert {writes[server] for server in found.agreeing} <= {wanted} or not wanted
