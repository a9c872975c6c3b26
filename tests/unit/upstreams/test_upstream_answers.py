"""Documents of upstreams are read as by Go, within limits."""

import json
from collections.abc import Mapping

import pytest
from apidiscovery_service.core.group_document import group_value
from apidiscovery_service.core.model import Group, GroupVersionKind
from apidiscovery_service.sources.upstreams.discovery_answers import (
    Reading,
    read_aggregated,
    read_core_versions,
    read_group_list,
    read_resource_list,
)
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown
from apidiscovery_service.sources.upstreams.spec import UpstreamLimits, VersionFilter
from groups import GROUPS
from hypothesis import given, settings
from upstream_setup import group_list, item, resource_list


def _document(*items: object) -> bytes:
    return json.dumps({"kind": "APIGroupDiscoveryList", "items": items}).encode()


def _failure(body: bytes, limits: UpstreamLimits | None = None) -> UpstreamFailed:
    with pytest.raises(UpstreamFailed) as raised:
        read_aggregated(body, Reading(limits or UpstreamLimits()))
    return raised.value


@given(GROUPS)
@settings(max_examples=25)
def test_our_own_documents_are_read_back(group: Group) -> None:
    body = _document(group_value(group))
    (read,) = read_aggregated(body, Reading(is_record=True))
    assert json.loads(json.dumps(group_value(read))) == _without_repetition(group_value(group))


def _without_repetition(value: Mapping[str, object]) -> object:
    """Return the value of a group in which a repeated version counts once, the first."""
    read = json.loads(json.dumps(value))
    versions: dict[str, object] = {}
    for version in read.get("versions", []):
        versions.setdefault(version["version"], version)
    if versions:
        read["versions"] = list(versions.values())
    return read


def test_a_missing_response_kind_has_three_empty_strings() -> None:
    """client-go 0.26 panics otherwise."""
    bare = {"resource": "widgets", "scope": "Cluster", "subresources": [{"subresource": "status"}]}
    versions = [{"version": "v1", "resources": [bare]}]
    group = {"metadata": {"name": "a.example.com"}, "versions": versions}
    (read,) = read_aggregated(_document(group), Reading())
    resource = read.versions[0].resources[0]
    assert resource.response_kind == GroupVersionKind("", "", "")
    assert resource.subresources[0].response_kind == GroupVersionKind("", "", "")
    assert resource.verbs is None


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "a b", "-a", "a\n", "x" * 254, "\u00e4"])
def test_a_group_without_a_valid_name_is_left_out_with_a_warning(name: str) -> None:
    reading = Reading()
    read = read_aggregated(_document(item(name), item("good.example.com")), reading)
    assert [group.name for group in read] == ["good.example.com"]
    assert len(reading.warnings) == 1
    assert reading.warnings[0].isprintable()


@pytest.mark.parametrize("version", ["", "V1", "1", "v1/x", "v" * 64])
def test_a_version_without_a_valid_name_is_left_out_with_a_warning(version: str) -> None:
    reading = Reading()
    (read,) = read_aggregated(_document(item("a.example.com", version, "v2")), reading)
    assert [v.version for v in read.versions] == ["v2"]
    assert len(reading.warnings) == 1


def test_the_core_group_belongs_to_its_own_path_only() -> None:
    both = _document(item(""), item("a.example.com"))
    assert [g.name for g in read_aggregated(both, Reading(core=True))] == [""]
    assert [g.name for g in read_aggregated(both, Reading())] == ["a.example.com"]


@pytest.mark.parametrize(
    ("allow", "deny", "taken"),
    [
        ((), (), ["a.example.com/v1", "a.example.com/v2", "b.test/v1"]),
        (("*.example.com",), (), ["a.example.com/v1", "a.example.com/v2"]),
        (("a.example.com/v1", "b.*"), (), ["a.example.com/v1", "b.test/v1"]),
        ((), ("*/v1",), ["a.example.com/v2"]),
        (("*",), ("a.example.com",), ["b.test/v1"]),
        (("core",), (), []),
    ],
)
def test_patterns_select_groups_and_versions(
    allow: tuple[str, ...], deny: tuple[str, ...], taken: list[str]
) -> None:
    reading = Reading(filter=VersionFilter(allow, deny))
    body = _document(item("a.example.com", "v1", "v2"), item("b.test"))
    read = read_aggregated(body, reading)
    assert [f"{g.name}/{v.version}" for g in read for v in g.versions] == taken
    assert not reading.warnings


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"k8s\x00\n\x02v1",
        b'{"kind":"Status","items":[]}',
        b'{"kind":"APIGroupDiscoveryList","items":{}}',
        b'{"kind":"APIGroupDiscoveryList","items":[',
        b'{"kind":"APIGroupDiscoveryList","items":[{}],}',
        b'{"kind":"APIGroupDiscoveryList","items":[]} x',
        b'{"kind":"APIGroupDiscoveryList","items":[{"metadata":1}]}',
        b'{"items":[{"metadata":{"name":1}}]}',
        b'{"items":[{"versions":[{"version":1}]}]}',
        b'{"items":[{"versions":[{"version":"v1","resources":["x"]}]}]}',
        b'{"items":[{"versions":[{"resources":[{"verbs":"get"}]}]}]}',
        b'{"items":[{"versions":[{"resources":[{"verbs":[1]}]}]}]}',
        b'{"items":[{"versions":[{"resources":[{"responseKind":"x"}]}]}]}',
        b'{"items":[], "a": NaN}',
        b'{"items":[], a:1}',
    ],
)
def test_a_malformed_document_is_an_error(body: bytes) -> None:
    assert _failure(body).reason == Reason.MALFORMED


def test_unknown_fields_null_and_invalid_text_are_accepted() -> None:
    body = (
        b'{"x":[1,{"y":2}],"kind":"APIGroupDiscoveryList","metadata":null,"items":[{"metadata":'
        b'{"name":"a.example.com","uid":null},"z":{},"versions":[{"version":"v1","freshness":null,'
        b'"resources":[{"resource":"w\xff\\ud800","scope":null,"verbs":null,"n":1e400}]},'
        b'{"version":"v2","resources":null}]}, {"metadata":{"name":"b.test"},"versions":null}]}'
    )
    (read,) = read_aggregated(body, Reading())
    resource = read.versions[0].resources[0]
    assert resource.resource == "w\ufffd\ufffd"
    assert read.versions[1].resources == ()


def test_deep_nesting_is_refused() -> None:
    for deep in (b"[" * 500_000, b'{"a":' * 200_000):
        assert _failure(b'{"items":[],"x":' + deep).reason in (Reason.MALFORMED, Reason.TOO_LARGE)
    assert "nests too deeply" in str(_failure(b'{"items":[],"x":' + b"[" * 20_000))


def test_too_many_group_versions_are_refused() -> None:
    body = _document(*(item(f"g{i}.example.com", "v1", "v2") for i in range(6)))
    assert len(read_aggregated(body, Reading(UpstreamLimits(group_versions=12)))) == 6
    failure = _failure(body, UpstreamLimits(group_versions=11))
    assert (failure.reason, str(failure)) == (Reason.TOO_LARGE, "more than 11 group-versions")


def test_the_preferred_version_of_a_listed_group_comes_first() -> None:
    content = {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "apps",
                "versions": [{"version": "v1beta1"}, {"version": "v1"}, {"version": "v1beta1"}],
                "preferredVersion": {"version": "v1"},
            },
            {"name": "b.test", "versions": [{"version": "v1"}], "preferredVersion": None},
            {"name": "none.test"},
        ],
    }
    listed = read_group_list(json.dumps(content).encode(), Reading())
    assert [(group.name, group.versions) for group in listed] == [
        ("apps", ("v1", "v1beta1")),
        ("b.test", ("v1",)),
    ]


def test_lists_are_filtered_and_bounded() -> None:
    body = json.dumps(group_list("a.test/v1", "b.test/v1")).encode()
    (only,) = read_group_list(body, Reading(filter=VersionFilter(deny=("a.*",))))
    assert only.name == "b.test"
    with pytest.raises(UpstreamFailed, match="more than 1 group-versions"):
        read_group_list(body, Reading(UpstreamLimits(group_versions=1)))


def test_core_versions_are_one_group() -> None:
    core = Reading(core=True)
    (group,) = read_core_versions(b'{"kind":"APIVersions","versions":["v1","v2"]}', core)
    assert (group.name, group.versions) == ("", ("v1", "v2"))
    assert read_core_versions(b'{"kind":"APIVersions","versions":null}', core) == ()
    with pytest.raises(UpstreamFailed, match="want kind APIVersions"):
        read_core_versions(b'{"kind":"Status","versions":["v1"]}', core)


def test_a_scope_that_does_not_match_fails_the_version() -> None:
    content = resource_list("a.test/v1", "widgets", "widgets/status")
    resources = content["resources"]
    assert isinstance(resources, list)
    resources[1]["namespaced"] = True
    with pytest.raises(UpstreamFailed, match="widgets/status is Namespaced, but widgets is C"):
        read_resource_list("v1", json.dumps(content).encode())


def test_a_parent_that_is_not_listed_follows_the_others() -> None:
    content = resource_list("a.test/v1", "lost/a/b", "widgets", "lost/status", "widgets/scale")
    version = read_resource_list("v1", json.dumps(content).encode())
    assert [r.resource for r in version.resources] == ["widgets", "lost"]
    lost = version.resources[1]
    assert (lost.verbs, lost.response_kind) == (None, GroupVersionKind("", "", ""))
    assert [s.subresource for s in lost.subresources] == ["a/b", "status"]


def test_shown_text_is_one_bounded_line() -> None:
    text = shown("a\nb\x1b[31m\u202e" + "x" * 10_000)
    assert text.startswith("a b [31m ")
    assert len(text) <= 300
    assert text.isascii()
