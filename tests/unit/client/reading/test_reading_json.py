"""JSON documents become the model by client-go's rules, or are refused; none is taken for empty."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest
from apidiscovery_client._reading import (
    ParsedDocument,
    UnreadableError,
    read_document,
    read_resources,
)
from apidiscovery_client.model import (
    CURRENT,
    DiscoveryPath,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Stale,
    Subresource,
    Unknown,
    Version,
)
from fake_api_server import aggregated, builtin, document, legacy
from hypothesis import given, strategies
from media_types import aggregated_type

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NO_KIND = GroupVersionKind("", "", "")
WIDGET: Mapping[str, object] = {
    "resource": "widgets",
    "responseKind": {"group": "", "version": "", "kind": "Widget"},
    "scope": "Namespaced",
    "singularResource": "widget",
    "verbs": ["get", "list"],
}
V1 = GroupVersion("example.io", "v1")


def group(*versions: object, **more: object) -> Group:
    answer = aggregated({"metadata": {"name": "example.io"}, "versions": versions, **more})
    half = read_document("/apis", answer.content_type, answer.body, NOW)
    assert half.is_aggregated
    return half.groups[0]


def widget(**changes: object) -> Resource:
    return group({"version": "v1", "resources": [{**WIDGET, **changes}]}).versions[0].resources[0]


def folded(*entries: object) -> tuple[Resource, ...]:
    answer = document({"kind": "APIResourceList", "groupVersion": str(V1), "resources": entries})
    return read_resources(V1, answer.content_type, answer.body)


def test_aggregated_resource() -> None:
    scale = {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "acceptedTypes": [{"group": "", "version": "v1", "kind": "Binding"}],
        "verbs": ["get"],
    }
    assert widget(shortNames=["w"], categories=["all"], subresources=[scale]) == Resource(
        gv=V1,
        name="widgets",
        singular_name="widget",
        scope="Namespaced",
        response_kind=GroupVersionKind("", "", "Widget"),
        verbs=("get", "list"),
        short_names=("w",),
        categories=("all",),
        subresources=(
            Subresource(
                "scale",
                GroupVersionKind("autoscaling", "v1", "Scale"),
                ("get",),
                (GroupVersionKind("", "v1", "Binding"),),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("kind", "read"), [(None, None), ({}, NO_KIND), ({"group": "", "kind": ""}, NO_KIND)]
)
def test_absent_kind_is_none_and_an_empty_one_is_not(
    kind: object, read: GroupVersionKind | None
) -> None:
    assert widget(responseKind=kind).response_kind == read


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster", "", "x"])
def test_scope_is_kept_as_stated(scope: str) -> None:
    assert widget(scope=scope).scope == scope
    assert widget(scope=scope).is_namespaced is (scope == "Namespaced")


def test_freshness_is_that_of_the_document() -> None:
    read = group(
        {"version": "v1", "freshness": "Stale", "resources": [WIDGET]},
        {"version": "v2", "freshness": "Stale"},
        {"version": "v1beta1", "freshness": "Unheard"},
        {"version": "v1alpha1", "freshness": "Current"},
        {"version": "v0"},
    )
    reason = "stale GroupVersion discovery: example.io"
    assert [version.freshness for version in read.versions] == [
        Stale(NOW, f"{reason}/v1"),
        Unknown(NOW, f"{reason}/v2"),
        *[CURRENT] * 3,
    ]
    stated = ["Stale", "Stale", "Unheard", "Current", ""]
    assert [version.stated_freshness for version in read.versions] == stated
    assert read.preferred_version == "v1beta1"


def test_fields_that_are_not_known_are_kept() -> None:
    status: Mapping[str, object] = {"subresource": "status", "new": 1}
    widgets = {**WIDGET, "subresources": [status], "x": None}
    version: Mapping[str, object] = {"version": "v1", "resources": [widgets]}
    read = group({**version, "reason": {"a": [1]}}, metadata={"name": "a", "labels": {}}, hash="h")
    resource = read.versions[0].resources[0]
    assert read.extra == {"metadata": {"labels": {}}, "hash": "h"}
    assert read.versions[0].extra == {"reason": {"a": [1]}}
    assert (resource.extra, resource.subresources[0].extra) == ({"x": None}, {"new": 1})
    assert folded({"name": "as", "new": 2})[0].extra == {"new": 2}


def test_creation_timestamp_of_older_releases_is_nothing_new() -> None:
    assert group(metadata={"name": "a", "creationTimestamp": None}) == Group("a", ())


def test_both_aggregated_versions_say_the_same() -> None:
    for path in ("/api", "/apis"):
        new, old = builtin()[path], builtin("v2beta1")[path]
        assert read_document(path, new.content_type, new.body, NOW) == read_document(
            path, old.content_type, old.body, NOW
        )


def test_unaggregated_groups_are_unknown_until_their_documents_are_read() -> None:
    routes = legacy()
    unread = Unknown(NOW, "its resources have not been read")
    core = Group("", (Version(GroupVersion("", "v1"), freshness=unread),), stated_preference="v1")
    assert read_document("/api", None, routes["/api"].body, NOW) == ParsedDocument(
        (core,), is_aggregated=False
    )
    groups = read_document("/apis", None, routes["/apis"].body, NOW).groups
    assert groups[0].preferred_version == "v1"
    assert [str(version.gv) for version in groups[0].versions] == [
        "apiregistration.k8s.io/v1",
        "apiregistration.k8s.io/v1beta1",
    ]


def test_storage_version_hash_is_read() -> None:
    apps = read_resources(GroupVersion("apps", "v1"), None, legacy()["/apis/apps/v1"].body)
    assert {resource.name: resource.storage_version_hash for resource in apps}[
        "deployments"
    ] == "8aSe+NMegvE="


def test_orphans_get_a_parent_of_no_kind_after_all_others() -> None:
    read = folded(
        {"name": "as/b/c", "namespaced": True, "kind": "B", "verbs": ["get"]},
        {"name": "zs", "kind": "Z", "verbs": ["list"]},
        {"name": "as/d", "namespaced": True, "verbs": ["get"]},
    )
    assert [resource.name for resource in read] == ["zs", "as"]
    assert read[1] == Resource(
        V1, "as", "", "Namespaced", NO_KIND, (),
        subresources=(
            Subresource("b/c", GroupVersionKind("", "", "B"), ("get",)),
            Subresource("d", NO_KIND, ("get",)),
        ),
    )  # fmt: skip


def test_of_two_resources_of_one_name_the_later_has_the_subresources() -> None:
    read = folded({"name": "as"}, {"name": "as", "kind": "A"}, {"name": "as/b"})
    assert [(resource.kind, len(resource.subresources)) for resource in read] == [("", 0), ("A", 1)]


def test_scope_of_a_subresource_is_its_resources() -> None:
    read = folded({"name": "as", "namespaced": False}, {"name": "as/b", "namespaced": True})
    assert [(resource.scope, len(resource.subresources)) for resource in read] == [("Cluster", 1)]


def test_aggregated_document_is_not_one_of_a_group_version() -> None:
    with pytest.raises(UnreadableError, match="is not of one group-version"):
        read_resources(V1, aggregated_type(), aggregated().body)


def test_core_group_may_have_no_versions() -> None:
    body = document({"kind": "APIVersions", "versions": []}).body
    assert read_document("/api", None, body, NOW) == ParsedDocument((), is_aggregated=False)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "the body is not JSON: ", id="empty"),
        pytest.param(b"{", "the body is not JSON: ", id="cut off"),
        pytest.param(b"\xff", "the body is not JSON: ", id="not UTF-8"),
        pytest.param(b"[" * 10**5, "the body is nested too deeply", id="deep"),
        pytest.param(b"[]", "the document is an array, not an object", id="array"),
        pytest.param(b"{}", "promises APIGroupList, but the body is of no kind", id="no kind"),
        pytest.param(
            b'{"kind":"Status","apiVersion":"v1"}', "but the body is Status v1", id="Status"
        ),
        pytest.param(b'{"kind":"APIGroupList"}', "groups is missing", id="no groups"),
        pytest.param(
            b'{"kind":"APIGroupList","groups":[{"name":"a","versions":[{"version":1}]}]}',
            "groups[0].versions[0].version is a number, not a string",
            id="wrong type",
        ),
        pytest.param(
            b'{"kind":"APIGroupList","groups":[{"versions":[]}]}',
            "groups[0].name is missing or empty",
            id="no name",
        ),
        pytest.param(
            b'{"kind":"APIGroupList","groups":[7]}',
            "groups[0] is a number, not an object",
            id="wrong element",
        ),
        pytest.param(
            b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}',
            "promises APIGroupList, but the body is APIGroupDiscoveryList apidiscovery.k8s.io/v2",
            id="parameters lost on the way",
        ),
    ],
)
def test_wrong_plain_body_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_document("/apis", "application/json", body, NOW)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "APIGroupList"}, "but the body is APIGroupList apidiscovery.k8s.io/v2"),
        ({"apiVersion": "apidiscovery.k8s.io/v2beta1"}, "/v2, but the body is"),
        ({"items": 0}, "items is a number, not an array"),
        ({"items": [{"metadata": 1}]}, "items[0].metadata is a number, not an object"),
        ({"items": [{"versions": [{"version": "v1", "resources": [{**WIDGET, "verbs": [None]}]}]}]},
         "items[0].versions[0].resources[0].verbs[0] is null, not a string"),
    ],
)  # fmt: skip
def test_wrong_aggregated_body_is_refused(changes: Mapping[str, object], message: str) -> None:
    body = json.loads(aggregated().body) | changes
    with pytest.raises(UnreadableError) as caught:
        read_document("/apis", aggregated_type(), json.dumps(body).encode(), NOW)
    assert message in str(caught.value)


def test_absent_items_are_not_an_empty_list() -> None:
    body = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"}'
    with pytest.raises(UnreadableError, match=r"^items is missing$"):
        read_document("/apis", aggregated_type(), body, NOW)


FIELDS = strategies.sampled_from(
    [
        "metadata", "name", "versions", "version", "preferredVersion", "freshness", "resources",
        "resource", "responseKind", "kind", "scope", "verbs", "shortNames", "categories",
        "subresources", "subresource", "group", "namespaced",
    ]
)  # fmt: skip
JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(FIELDS, inner),
    max_leaves=20,
)


@given(JSON, strategies.sampled_from(["items", "groups", "versions", "resources"]))
def test_any_json_is_either_read_or_refused(value: object, field: str) -> None:
    kinds = {"items": "APIGroupDiscoveryList", "groups": "APIGroupList", "versions": "APIVersions"}
    kind = kinds.get(field, "APIResourceList")
    document = {"kind": kind, "apiVersion": "apidiscovery.k8s.io/v2", field: value}
    content_type = aggregated_type() if field == "items" else "application/json"
    body = json.dumps(document).encode()
    try:
        if field == "resources":
            read: Sequence[object] = read_resources(V1, content_type, body)
        else:
            path: DiscoveryPath = "/api" if field == "versions" else "/apis"
            read = read_document(path, content_type, body, NOW).groups
    except UnreadableError:
        return
    assert bool(read) == bool(value)


def test_names_from_a_server_cannot_leave_their_path() -> None:
    assert GroupVersion("../a", "?b").path == "/apis/..%2Fa/%3Fb"
    assert GroupVersion("\ud800", "v1").path == "/apis/%3F/v1"


def test_resources_of_another_group_version_are_refused() -> None:
    body = b'{"kind":"APIResourceList","groupVersion":"x/v1","resources":[]}'
    with pytest.raises(UnreadableError, match=r"of 'x/v1', not of example.io/v1"):
        read_resources(V1, "application/json", body)
