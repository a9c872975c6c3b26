"""Documents that are generated from discovery."""

from time import process_time
from typing import Any, cast

import orjson
import pytest
from apidiscovery_releases import newest
from apidiscovery_service.core.model import (
    CORE_GROUP,
    GroupVersionKind,
    Offer,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_service.openapi.generated import MARK, generated_document
from apidiscovery_service.sources.catalog import kubernetes_catalog
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_documents import dangling, errors, without_empty_defaults

ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CATALOGUE = kubernetes_catalog().offers


NONE: set[tuple[str, str]] = set()


def read_sound(text: bytes) -> dict[str, Any]:
    """Return a document that is valid, has no dangling reference and is compact."""
    document = cast("dict[str, Any]", orjson.loads(text))
    assert errors(document) == []
    assert dangling(document) == []
    assert not text.endswith(b"\n")
    return document


def widget(**fields: Any) -> Resource:  # noqa: ANN401 - each field has a type of its own
    """Return a resource of example.com/v1, with some fields as given."""
    kind = GroupVersionKind("", "", "Widget")
    of_widget: dict[str, Any] = {"scope": "Namespaced", "verbs": ALL} | fields
    return Resource("widgets", fields.get("response_kind", kind), of_widget["scope"], "widget",
                    of_widget["verbs"], subresources=fields.get("subresources", ()))  # fmt: skip


def made(
    *resources: Resource, group: str = "example.com", version: str = "v1", why: str = "for a test"
) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(
        generated_document(group, Version(version, resources), why)
    )
    return document


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the operations by path and method, but for that of the list of resources."""
    return {
        (path.removeprefix("/apis/example.com/v1"), method): item[method]
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters" and not path.endswith("/")
    }


@pytest.mark.parametrize("offer", CATALOGUE, ids=lambda o: f"{o.group}/{o.version.version}")
def test_every_resource_of_the_catalogue_has_its_paths_and_kinds(offer: Offer) -> None:
    document = made(*offer.version.resources, group=offer.group, version=offer.version.version)
    assert dangling(document) == []
    root = f"/apis/{offer.group}" if offer.group != CORE_GROUP else "/api"
    kinds = {
        (one["group"], one["version"], one["kind"])
        for schema in document["components"]["schemas"].values()
        for one in schema.get("x-kubernetes-group-version-kind", ())
    }
    for resource in offer.version.resources:
        space = "/namespaces/{namespace}" if resource.scope == "Namespaced" else ""
        path = f"{root}/{offer.version.version}{space}/{resource.resource}"
        assert path in document["paths"] or f"{path}/{{name}}" in document["paths"]
        for below in resource.subresources:
            assert f"{path}/{{name}}/{below.subresource}" in document["paths"]
        assert resource.response_kind is not None
        kind = resource.response_kind
        own = (kind.group or offer.group, kind.version or offer.version.version, kind.kind)
        assert own in kinds


def test_operations_are_those_of_the_verbs() -> None:
    every = operations(made(widget(subresources=(Subresource("scale", None, ("get", "patch")),))))
    everywhere, many, one = "/widgets", "/namespaces/{namespace}/widgets", "/{name}"
    assert {place: operation["operationId"] for place, operation in every.items()} == {
        (everywhere, "get"): "listExampleComV1WidgetForAllNamespaces",
        (many, "get"): "listExampleComV1NamespacedWidget",
        (many, "post"): "createExampleComV1NamespacedWidget",
        (many, "delete"): "deleteExampleComV1CollectionNamespacedWidget",
        (many + one, "get"): "readExampleComV1NamespacedWidget",
        (many + one, "put"): "replaceExampleComV1NamespacedWidget",
        (many + one, "delete"): "deleteExampleComV1NamespacedWidget",
        (many + one, "patch"): "patchExampleComV1NamespacedWidget",
        (many + one + "/scale", "get"): "readExampleComV1NamespacedWidgetScale",
        (many + one + "/scale", "patch"): "patchExampleComV1NamespacedWidgetScale",
    }
    assert [operation["x-kubernetes-action"] for operation in every.values()] == [
        "list", "post", "deletecollection", "get", "put", "delete", "patch", "get", "patch", "list",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "verbs", "places"),
    [
        ("Cluster", ("create",), {("/widgets", "post")}),
        ("Cluster", ("get", "list"), {("/widgets", "get"), ("/widgets/{name}", "get")}),
        ("Namespaced", ("create",), {("/namespaces/{namespace}/widgets", "post")}),
        ("Namespaced", ("watch", "proxy"), NONE),
        ("Cluster", None, NONE),
    ],
)
def test_there_is_no_operation_without_a_verb(
    scope: str, verbs: tuple[str, ...] | None, places: set[tuple[str, str]]
) -> None:
    assert set(operations(made(widget(scope=scope, verbs=verbs)))) == places


def test_clients_find_kinds_by_operation_and_by_schema() -> None:
    document = made(widget())
    for operation in operations(document).values():
        assert operation["x-kubernetes-group-version-kind"] == {
            "group": "example.com",
            "version": "v1",
            "kind": "Widget",
        }
        assert operation["tags"] == ["exampleCom_v1"]
    schemas = document["components"]["schemas"]
    assert schemas["com.example.v1.Widget"]["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "kind": "Widget", "version": "v1"}
    ]
    assert schemas["com.example.v1.Widget"]["x-kubernetes-preserve-unknown-fields"] is True
    assert sorted(schemas["com.example.v1.Widget"]["properties"]) == [
        "apiVersion",
        "kind",
        "metadata",
    ]
    of_list = schemas["com.example.v1.WidgetList"]
    assert of_list["properties"]["items"]["items"] == {
        "$ref": "#/components/schemas/com.example.v1.Widget"
    }


def test_kubectl_finds_that_fields_can_be_validated() -> None:
    every = operations(made(widget(verbs=("patch",))))
    patch = every["/namespaces/{namespace}/widgets/{name}", "patch"]
    names = [parameter["name"] for parameter in patch["parameters"]]
    assert names == ["dryRun", "fieldManager", "fieldValidation", "force"]
    assert list(patch["requestBody"]["content"]) == [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]


def test_parameters_of_paths_are_those_of_all_operations() -> None:
    document = made(widget())
    item = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]
    assert [parameter["name"] for parameter in item["parameters"]] == [
        "name",
        "namespace",
        "pretty",
    ]
    assert item["parameters"][0]["description"] == "name of the Widget"


def test_a_generated_document_is_marked_with_the_reason() -> None:
    document = made(why="for reasons")
    assert document[MARK] == "for reasons"
    assert list(document) == ["openapi", "info", "paths", "components", MARK]
    assert list(document["paths"]) == ["/apis/example.com/v1/"]


def test_the_core_group_has_its_own_root() -> None:
    document = made(widget(scope="Cluster"), group="")
    assert document["paths"]["/api/v1/"]["get"]["operationId"] == "getCoreV1APIResources"
    assert document["paths"]["/api/v1/widgets"]["get"]["operationId"] == "listCoreV1Widget"
    assert "io.k8s.api.core.v1.Widget" in document["components"]["schemas"]


def test_a_resource_of_no_known_kind_has_open_schemas() -> None:
    document = made(widget(response_kind=None))
    get = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["get"]
    assert "x-kubernetes-group-version-kind" not in get
    assert get["responses"]["200"]["content"]["application/json"]["schema"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def test_subresources_of_other_groups_have_their_schemas() -> None:
    scale = Subresource("scale", GroupVersionKind("autoscaling", "v1", "Scale"), ("get",))
    evict = Subresource("eviction", GroupVersionKind("policy", "v1", "Eviction"), ("create",))
    document = made(widget(subresources=(scale, evict)))
    schemas = document["components"]["schemas"]
    assert "spec" in schemas["io.k8s.api.autoscaling.v1.Scale"]["properties"]
    one = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"
    body = document["paths"][f"{one}/eviction"]["post"]["requestBody"]["content"]
    assert body["application/json"]["schema"] == {
        "$ref": "#/components/schemas/io.k8s.api.policy.v1.Eviction"
    }


def test_resources_that_share_a_kind_share_its_schema() -> None:
    kind = GroupVersionKind("example.com", "v1", "Thing")
    document = made(
        *(Resource(name, kind, "Cluster", name, ("get",)) for name in ("things", "stuff"))
    )
    ids = {o["operationId"] for o in operations(document).values()}
    assert ids == {"readExampleComV1Thing", "readExampleComV1Thing_2"}


def test_names_that_cannot_stand_in_a_path_are_left_out() -> None:
    kind = GroupVersionKind("example.com", "v1", "Thing")
    names = ("a/b", "{name}", "", "a?b", "a#b", "fine")
    document = made(*(Resource(name, kind, "Cluster", "x", ("get",)) for name in names))
    assert set(operations(document)) == {("/fine/{name}", "get")}


def test_resources_that_have_one_name_take_linear_time() -> None:
    kinds = [GroupVersionKind("example.com", "v1", chr(number)) for number in range(0x4E00, 0x5E00)]
    version = Version(
        "v1",
        tuple(Resource(f"r{n}", kind, "Cluster", "", ("get",)) for n, kind in enumerate(kinds)),
    )
    start = process_time()
    document = orjson.loads(generated_document("example.com", version, ""))
    assert process_time() - start < 5  # a tenth of it is usual; each against each takes a minute
    assert "com.example.v1.__4096" in document["components"]["schemas"]


TEXT = st.text(max_size=8)
KIND = st.none() | st.builds(GroupVersionKind, TEXT, TEXT, TEXT)
VERBS = st.none() | st.lists(st.sampled_from(ALL) | TEXT, max_size=8).map(tuple)
SUBRESOURCE = st.builds(Subresource, TEXT, KIND, VERBS)
REAL = [resource for offer in CATALOGUE for resource in offer.version.resources]
RESOURCE = st.sampled_from(REAL) | st.builds(
    Resource,
    TEXT,
    KIND,
    st.sampled_from(["Cluster", "Namespaced", ""]),
    TEXT,
    VERBS,
    subresources=st.lists(SUBRESOURCE, max_size=2).map(tuple),
)


@settings(max_examples=settings().max_examples // 3)  # each takes a tenth of a second
@given(st.lists(RESOURCE, max_size=3).map(tuple), st.sampled_from(["", "apps", "a.example"]))
def test_any_discovery_makes_a_valid_document(resources: tuple[Resource, ...], group: str) -> None:
    read_sound(generated_document(group, Version("v1", resources), "why"))


def test_the_checks_find_what_is_wrong() -> None:
    document = made(widget())
    del document["components"]["schemas"]["com.example.v1.Widget"]
    assert set(dangling(document)) == {"#/components/schemas/com.example.v1.Widget"}
    assert errors({"openapi": "3.0.0"})


def test_the_list_of_resources_is_described_as_by_kubernetes() -> None:
    ours = read_sound(generated_document("apps", Version("v1"), ""))
    theirs: Any = without_empty_defaults(orjson.loads(newest().openapi_v3("apis/apps/v1")))
    assert ours["paths"] == {"/apis/apps/v1/": theirs["paths"]["/apis/apps/v1/"]}
    for name in ("APIResourceList", "APIResource"):
        schema = f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
        assert (
            without_empty_defaults(ours["components"]["schemas"][schema])
            == (theirs["components"]["schemas"][schema])
        )
    for part in ("openapi", "info"):
        assert ours[part] == theirs[part]
