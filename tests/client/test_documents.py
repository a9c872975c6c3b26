"""Documents become facts by client-go's rules, or are refused: never taken for empty ones."""

import contextlib
import json
from collections.abc import Mapping

import pytest
from apidiscovery_client._documents import (
    Group,
    GroupVersion,
    Half,
    Resource,
    UnreadableError,
    read_core,
    read_groups,
    read_resources,
)
from fake_api_server import aggregated, aggregated_type, builtin, document, legacy
from hypothesis import given, strategies

WIDGET: Mapping[str, object] = {
    "resource": "widgets",
    "responseKind": {"group": "", "version": "", "kind": "Widget"},
    "scope": "Namespaced",
    "singularResource": "widget",
    "verbs": ["get", "list"],
}
V1 = GroupVersion("example.io", "v1")


def half(*versions: object) -> Half:
    answer = aggregated({"metadata": {"name": "example.io"}, "versions": versions})
    return read_groups(answer.content_type, answer.body)


def widgets(**changes: object) -> tuple[Resource, ...]:
    read = half({"version": "v1", "resources": [{**WIDGET, **changes}]}).resources
    assert read is not None
    return read[V1]


def test_aggregated_resource() -> None:
    expected = Resource(
        name="widgets",
        singular_name="widget",
        namespaced=True,
        kind="Widget",
        verbs=("get", "list"),
        short_names=("w",),
        categories=("all",),
    )
    assert widgets(shortNames=["w"], categories=["all"]) == (expected,)


def test_subresource_has_its_parents_singular_name_and_scope_and_its_own_kind() -> None:
    scale = {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get"],
    }
    assert widgets(subresources=[scale])[1] == Resource(
        name="widgets/scale",
        singular_name="widget",
        namespaced=True,
        kind="Scale",
        verbs=("get",),
        group="autoscaling",
        version="v1",
    )


@pytest.mark.parametrize("kind", [None, {}, {"group": "", "version": "", "kind": ""}])
def test_resource_without_kind_is_left_out_but_not_its_subresources(kind: object) -> None:
    status = {"subresource": "status", "responseKind": {"kind": "Widget"}, "verbs": ["get"]}
    nameless: Mapping[str, object] = {"subresource": "other", "responseKind": kind, "verbs": []}
    read = widgets(responseKind=kind, subresources=[status, nameless])
    assert [resource.name for resource in read] == ["widgets/status"]


@pytest.mark.parametrize(
    ("scope", "namespaced"), [("Namespaced", True), ("Cluster", False), ("", False), ("x", False)]
)
def test_every_scope_but_namespaced_is_of_the_cluster(scope: str, namespaced: bool) -> None:  # noqa: FBT001
    assert widgets(scope=scope)[0].namespaced is namespaced


def test_stale_version_has_failed_and_the_first_other_is_preferred() -> None:
    read = half(
        {"version": "v1", "freshness": "Stale", "resources": [WIDGET]},
        {"version": "v1beta1", "freshness": "Unheard"},
        {"version": "v1alpha1", "freshness": "Current"},
    )
    assert read.groups == (Group("example.io", ("v1beta1", "v1alpha1"), "v1beta1"),)
    assert read.failures == {V1: "stale GroupVersion discovery: example.io/v1"}
    assert V1 not in (read.resources or {})


def test_group_with_only_stale_versions_stays() -> None:
    assert half({"version": "v1", "freshness": "Stale"}).groups == (Group("example.io", (), ""),)


def test_both_aggregated_versions_say_the_same() -> None:
    for path, read in (("/api", read_core), ("/apis", read_groups)):
        new, old = builtin()[path], builtin("v2beta1")[path]
        assert read(new.content_type, new.body) == read(old.content_type, old.body)


def test_unaggregated_documents() -> None:
    routes = legacy()
    assert read_core(None, routes["/api"].body) == Half((Group("", ("v1",), "v1"),))
    groups = read_groups(None, routes["/apis"].body)
    assert groups.resources is None
    assert groups.groups[0] == Group("apiregistration.k8s.io", ("v1", "v1beta1"), "v1")
    assert read_resources(None, routes["/apis/apps/v1"].body)[3] == Resource(
        name="deployments",
        singular_name="",
        namespaced=True,
        kind="Deployment",
        verbs=(
            *("create", "delete", "deletecollection", "get"),
            *("list", "patch", "update", "watch"),
        ),
        short_names=("deploy",),
        categories=("all",),
        storage_version_hash="8aSe+NMegvE=",
    )


def test_core_group_may_have_no_versions() -> None:
    assert read_core(None, document({"kind": "APIVersions", "versions": []}).body) == Half()


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
        read_groups("application/json", body)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "APIGroupList"}, "but the body is APIGroupList apidiscovery.k8s.io/v2"),
        ({"apiVersion": "apidiscovery.k8s.io/v2beta1"}, "/v2, but the body is"),
        ({"items": 0}, "items is a number, not an array"),
        ({"items": [{"metadata": 1}]}, "items[0].metadata is a number, not an object"),
        ({"items": [{"versions": [{"resources": [{**WIDGET, "verbs": [None]}]}]}]},
         "items[0].versions[0].resources[0].verbs[0] is null, not a string"),
    ],
)  # fmt: skip
def test_wrong_aggregated_body_is_refused(changes: Mapping[str, object], message: str) -> None:
    body = json.loads(aggregated().body) | changes
    with pytest.raises(UnreadableError) as caught:
        read_groups(aggregated_type(), json.dumps(body).encode())
    assert message in str(caught.value)


def test_absent_items_are_not_an_empty_list() -> None:
    body = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"}'
    with pytest.raises(UnreadableError, match=r"^items is missing$"):
        read_groups(aggregated_type(), body)


FIELDS = strategies.sampled_from(
    [
        "metadata",
        "name",
        "versions",
        "version",
        "preferredVersion",
        "freshness",
        "resources",
        "resource",
        "responseKind",
        "kind",
        "scope",
        "verbs",
        "shortNames",
        "categories",
        "subresources",
        "subresource",
        "group",
        "namespaced",
    ]
)
JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(FIELDS, inner),
)


@given(JSON, strategies.sampled_from(["items", "groups", "versions", "resources"]))
def test_any_json_is_either_read_or_refused(value: object, field: str) -> None:
    kinds = {"items": "APIGroupDiscoveryList", "groups": "APIGroupList", "versions": "APIVersions"}
    read = {"versions": read_core, "resources": read_resources}.get(field, read_groups)
    kind = kinds.get(field, "APIResourceList")
    body = {"kind": kind, "apiVersion": "apidiscovery.k8s.io/v2", field: value}
    content_type = aggregated_type() if field == "items" else "application/json"
    with contextlib.suppress(UnreadableError):
        read(content_type, json.dumps(body).encode())


def test_names_from_a_server_cannot_leave_their_path() -> None:
    assert GroupVersion("../a", "?b").path == "/apis/..%2Fa/%3Fb"
    assert GroupVersion("\ud800", "v1").path == "/apis/%3F/v1"
