"""Recorded releases are as they answered, and the facts of the others agree with recordings."""

import json

import pytest
from apidiscovery_client.model import GroupVersion, Resource, Snapshot
from apidiscovery_client.snapshots import releases as told
from apidiscovery_client.snapshots.releases import release
from apidiscovery_releases import Release, releases


def lines(found: Snapshot) -> dict[tuple[GroupVersion, str], tuple[object, ...]]:
    """Return the fields of an unaggregated list, by group-version and name of the line."""
    return {
        **{(one.gv, one.name): _line(one) for one in found.resources},
        **{
            (one.gv, f"{one.name}/{below.name}"): (
                below.response_kind and below.response_kind.kind,
                sorted(below.verbs),
            )
            for one in found.resources
            for below in one.subresources
        },
    }


def _line(resource: Resource) -> tuple[object, ...]:
    names = (list(resource.short_names), list(resource.categories))
    kind, verbs = resource.kind, sorted(resource.verbs)
    return (kind, verbs, resource.is_namespaced, *names, resource.storage_version_hash)


def recorded(name: str) -> dict[tuple[GroupVersion, str], tuple[object, ...]]:
    found: dict[tuple[GroupVersion, str], tuple[object, ...]] = {}
    answered = Release.read(name)
    for path in answered.list_paths:
        listed = json.loads(answered.plain(path))
        group, _, version = listed["groupVersion"].rpartition("/")
        for line in listed["resources"]:
            told_of: tuple[object, ...] = (line["kind"], sorted(line["verbs"]))
            if "/" not in line["name"]:
                words = (line.get("shortNames", []), line.get("categories", []))
                told_of += (line["namespaced"], *words, line.get("storageVersionHash", ""))
            found[GroupVersion(group, version), line["name"]] = told_of
    return found


@pytest.mark.parametrize("name", releases())
def test_a_recorded_release_has_the_resources_of_its_lists(name: str) -> None:
    assert lines(release(name)) == recorded(name)


@pytest.mark.parametrize("name", releases())
def test_groups_and_versions_are_in_the_recorded_order(name: str) -> None:
    listed = json.loads(Release.read(name).plain("/apis"))["groups"]
    wanted = [(one["name"], [v["version"] for v in one["versions"]]) for one in listed]
    groups = [(one.name, [v.name for v in one.versions]) for one in release(name).groups[1:]]
    assert groups == wanted
    assert release(name).groups[0].name == ""
    assert not any(group.extra for group in release(name).groups)
    assert not release(name).troubled


@pytest.mark.parametrize("name", releases())
def test_facts_agree_with_what_was_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "releases", lambda: ())
    wanted = {line: found[:5] for line, found in recorded(name).items()}
    assert {line: found[:5] for line, found in lines(release(name)).items()} == wanted


@pytest.mark.parametrize("name", releases())
def test_all_versions_adds_what_is_off_and_changes_no_line_and_no_order(name: str) -> None:
    usual, every = lines(release(name)), lines(release(name, all_versions=True))
    assert usual.items() <= every.items()
    more = every.keys() - usual.keys()
    is_gated = ("v1", "pods/resize")
    assert all("alpha" in gv.version or "beta" in gv.version or (str(gv), line) == is_gated
               for gv, line in more)  # fmt: skip
    assert more
    order = [group.name for group in release(name).groups]
    every_group = [group.name for group in release(name, all_versions=True).groups]
    assert [group for group in every_group if group in order] == order


@pytest.mark.parametrize(("name", "is_there"), [("1.30", True), ("1.31", False), ("1.32", False)])
def test_networking_v1alpha1_ends_with_1_30(name: str, *, is_there: bool) -> None:
    gv = GroupVersion("networking.k8s.io", "v1alpha1")
    assert (release(name, all_versions=True).version(gv) is not None) == is_there


@pytest.mark.parametrize("name", ["1.25", "1.26", "1.27", "1.28"])
def test_clustercidrs_have_their_short_name(name: str) -> None:
    found = {one.name: one for one in release(name, all_versions=True).resources}
    assert found["clustercidrs"].short_names == ("cc",)


@pytest.mark.parametrize(
    ("name", "is_on", "is_known"),
    [("1.31", False, False), ("1.32", False, True), ("1.33", True, True)],
)
def test_resize_of_pods_begins_with_its_gate(name: str, *, is_on: bool, is_known: bool) -> None:
    line = (GroupVersion("", "v1"), "pods/resize")
    assert (line in lines(release(name))) == is_on
    assert (line in lines(release(name, all_versions=True))) == is_known
