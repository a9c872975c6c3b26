"""Reading and validation of discovery lists."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from apidiscovery_formats.negotiation import JSON, Representation
from apidiscovery_service.core.model import (
    Freshness,
    Group,
    GroupVersionKind,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_service.encoding import aggregated
from apidiscovery_service.sources.discovery_list import read_list
from apidiscovery_service.sources.fields import InvalidField, Node, path_text
from crd_manifests import edited
from decoded import json_object
from groups import document_of, widget_group

SUBRESOURCE: dict[str, Any] = {
    "subresource": "scale",
    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    "acceptedTypes": [{"kind": "Binding"}],
    "verbs": ["get"],
}
RESOURCE: dict[str, Any] = {
    "resource": "widgets",
    "responseKind": {"group": "", "version": "", "kind": "Widget"},
    "scope": "Namespaced",
    "singularResource": "widget",
    "verbs": ["get", "list"],
    "shortNames": ["wd"],
    "categories": ["all"],
    "subresources": [SUBRESOURCE],
}
VERSION: dict[str, Any] = {"version": "v1", "resources": [RESOURCE], "freshness": "Current"}
ITEM: dict[str, Any] = {"metadata": {"name": "a.example"}, "versions": [VERSION]}
CORE_ITEM: dict[str, Any] = {"versions": [VERSION]}
NUMBERED: dict[object, object] = {"kind": "APIGroupDiscoveryList", 1: 2}
LIST: dict[str, Any] = {
    "kind": "APIGroupDiscoveryList",
    "apiVersion": "apidiscovery.k8s.io/v2",
    "metadata": {},
    "items": [ITEM],
}

IN_VERSION = "items[0].versions[0]"
IN_RESOURCE = f"{IN_VERSION}.resources[0]"
IN_SUBRESOURCE = f"{IN_RESOURCE}.subresources[0]"


changed = partial(edited, LIST)


def read(document: object) -> list[Group]:
    return [Group(name, versions) for name, versions in read_list(Node(document))]


def first_resource(document: object) -> Resource:
    return read(document)[0].versions[0].resources[0]


def test_every_field_is_read() -> None:
    scale = Subresource(
        "scale",
        GroupVersionKind("autoscaling", "v1", "Scale"),
        ("get",),
        (GroupVersionKind("", "", "Binding"),),
    )
    widgets = Resource(
        "widgets",
        GroupVersionKind("", "", "Widget"),
        "Namespaced",
        "widget",
        ("get", "list"),
        ("wd",),
        ("all",),
        (scale,),
    )
    assert read(LIST) == [Group("a.example", (Version("v1", (widgets,), Freshness.CURRENT),))]


@pytest.mark.parametrize("absent", [..., None], ids=["absent", "null"])
def test_null_is_the_same_as_absent(absent: object) -> None:
    made = first_resource(changed(f"{IN_RESOURCE}.responseKind", absent))
    assert made.response_kind is None
    assert first_resource(changed(f"{IN_RESOURCE}.verbs", absent)).verbs is None
    assert first_resource(changed(f"{IN_RESOURCE}.verbs", [])).verbs == ()
    assert first_resource(changed(f"{IN_RESOURCE}.shortNames", absent)).short_names == ()
    assert (
        first_resource(changed(f"{IN_RESOURCE}.singularResource", absent)).singular_resource == ""
    )
    assert first_resource(changed(f"{IN_RESOURCE}.subresources", absent)).subresources == ()
    assert read(changed(f"{IN_VERSION}.resources", absent))[0].versions[0].resources == ()
    assert read(changed(f"{IN_VERSION}.freshness", absent))[0].versions[0].freshness == ""
    assert read(changed("metadata", absent)) == read(LIST)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="empty"),
        pytest.param({"name": ""}, id="empty-name"),
        pytest.param({"name": None}, id="null-name"),
        pytest.param({"creationTimestamp": None, "labels": {"a": 1}}, id="other-fields"),
        pytest.param(None, id="null"),
    ],
)
def test_a_group_without_a_name_is_the_core_group(metadata: object) -> None:
    assert read(changed("items[0].metadata", metadata))[0].name == ""


def test_the_order_of_the_document_is_kept() -> None:
    names = ["z.example", "a.example", "", "m.example"]
    items = [
        {"metadata": {"name": name}, "versions": [{"version": v} for v in ("v1alpha1", "v2", "v1")]}
        for name in names
    ]
    made = read({**LIST, "items": items})
    assert [group.name for group in made] == names
    assert [v.version for v in made[0].versions] == ["v1alpha1", "v2", "v1"]
    assert read({**LIST, "items": []}) == []


WRONG = [
    pytest.param("items", ..., "required", id="no-items"),
    pytest.param("items", None, "required", id="null-items"),
    pytest.param("items", {}, "want a list, got an object", id="items-object"),
    pytest.param("items[0]", "x", "want an object, got a string", id="item-string"),
    pytest.param("items[0]", None, "want an object, got null", id="item-null"),
    pytest.param("item", [], "unknown field; known here are kind, apiVersion", id="unknown-field"),
    pytest.param("items[0].spec", {}, "unknown field; known here are kind", id="unknown-in-item"),
    pytest.param("items[0].metadata", [], "want an object, got a list", id="metadata-list"),
    pytest.param("items[0].metadata.name", 1, "want a string, got int 1", id="name-int"),
    pytest.param("items[0].metadata.name", "A.example", "want a DNS name", id="name-capital"),
    pytest.param("items[0].metadata.name", "a..b", "want a DNS name", id="name-empty-label"),
    pytest.param("items[0].metadata.name", "a.example\n", "want a DNS name", id="name-line-feed"),
    pytest.param("items[0].metadata.name", "../etc", "want a DNS name", id="name-slash"),
    pytest.param("items[0].versions", ..., "required", id="no-versions"),
    pytest.param("items[0].versions", [], "want at least one version", id="empty-versions"),
    pytest.param(f"{IN_VERSION}.version", ..., "required", id="no-version"),
    pytest.param(f"{IN_VERSION}.version", "", "want a name such as v1", id="empty-version"),
    pytest.param(f"{IN_VERSION}.version", "V1", "want a name such as v1", id="version-capital"),
    pytest.param(f"{IN_VERSION}.version", "v1/x", "want a name such as v1", id="version-slash"),
    pytest.param(f"{IN_VERSION}.version", 1.5, "want a string, got float 1.5", id="version-float"),
    pytest.param(f"{IN_VERSION}.freshness", "Old", "want Current or Stale", id="freshness"),
    pytest.param(
        f"{IN_VERSION}.resource", [], "unknown field; known here", id="unknown-in-version"
    ),
    pytest.param(
        f"{IN_VERSION}.resources", "x", "want a list, got a string", id="resources-string"
    ),
    pytest.param(f"{IN_RESOURCE}.resource", ..., "required", id="no-resource"),
    pytest.param(f"{IN_RESOURCE}.resource", "", "want a plural name", id="empty-resource"),
    pytest.param(f"{IN_RESOURCE}.resource", "a/b", "want a plural name", id="resource-slash"),
    pytest.param(f"{IN_RESOURCE}.scope", ..., "required", id="no-scope"),
    pytest.param(f"{IN_RESOURCE}.scope", "cluster", "want Cluster or Namespaced", id="scope"),
    pytest.param(f"{IN_RESOURCE}.verbs", "get", "want a list, got a string", id="verbs-string"),
    pytest.param(f"{IN_RESOURCE}.verbs[1]", True, "want a string, got bool True", id="verb-bool"),
    pytest.param(f"{IN_RESOURCE}.shortNames[0]", None, "want a string, got null", id="short-null"),
    pytest.param(f"{IN_RESOURCE}.shortnames", [], "unknown field", id="misspelt"),
    pytest.param(f"{IN_RESOURCE}.responseKind", "x", "want an object", id="kind-string"),
    pytest.param(f"{IN_RESOURCE}.responseKind.Kind", "x", "unknown field", id="kind-misspelt"),
    pytest.param(f"{IN_SUBRESOURCE}.subresource", ..., "required", id="no-subresource"),
    pytest.param(f"{IN_SUBRESOURCE}.subresource", "", "want a name", id="empty-subresource"),
    pytest.param(f"{IN_SUBRESOURCE}.scope", "Cluster", "unknown field", id="scope-of-subresource"),
    pytest.param(f"{IN_SUBRESOURCE}.acceptedTypes[0]", "x", "want an object", id="accepted-string"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG)
def test_an_invalid_field_is_reported(field: str, value: object, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read(changed(field, value))
    assert path_text(caught.value.path) == field
    assert str(caught.value).startswith(message)


def test_all_invalid_fields_are_reported() -> None:
    wrong = {"version": "V1", "resources": [{"resource": "", "verbs": "get"}, "x"]}
    with pytest.raises(InvalidField) as caught:
        read({**LIST, "items": [{**ITEM, "versions": [wrong, 1]}, {"metadata": {"name": "A"}}]})
    error = caught.value
    assert {path_text(one.path) for one in (error, *error.others)} == {
        f"{IN_VERSION}.version",
        f"{IN_VERSION}.resources[0].resource",
        f"{IN_VERSION}.resources[0].scope",
        f"{IN_VERSION}.resources[0].verbs",
        f"{IN_VERSION}.resources[1]",
        "items[0].versions[1]",
        "items[1].metadata.name",
        "items[1].versions",
    }


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        pytest.param(
            {**LIST, "items": [ITEM, CORE_ITEM, ITEM]},
            "items[2].metadata.name",
            "group 'a.example' is there twice",
            id="group",
        ),
        pytest.param(
            {**LIST, "items": [{**ITEM, "versions": [VERSION, {"version": "v1"}]}]},
            "items[0].versions[1].version",
            "version 'v1' is there twice",
            id="version",
        ),
        pytest.param(
            changed(f"{IN_VERSION}.resources", [RESOURCE, RESOURCE]),
            f"{IN_VERSION}.resources[1].resource",
            "resource 'widgets' is there twice",
            id="resource",
        ),
        pytest.param(
            changed(f"{IN_RESOURCE}.subresources", [SUBRESOURCE, SUBRESOURCE]),
            f"{IN_RESOURCE}.subresources[1].subresource",
            "subresource 'scale' is there twice",
            id="subresource",
        ),
        pytest.param(NUMBERED, "", "want field names, got 1", id="name-that-is-no-string"),
        pytest.param([], "", "want an object, got a list", id="list"),
    ],
)
def test_an_invalid_document_is_refused(
    document: Mapping[object, object] | list[object], field: str, message: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        read(document)
    assert path_text(caught.value.path) == field
    assert str(caught.value) == message


def test_a_value_of_any_size_can_be_reported() -> None:
    with pytest.raises(InvalidField, match="want a string, got int"):
        read(changed(f"{IN_VERSION}.version", 16**5000))


def test_a_path_begins_with_the_path_of_the_list() -> None:
    with pytest.raises(InvalidField) as caught:
        read_list(Node(changed(f"{IN_RESOURCE}.scope", 1), ("items", 3)))
    assert path_text(caught.value.path) == f"items[3].{IN_RESOURCE}.scope"


def test_documents_of_the_service_can_be_read() -> None:
    group = widget_group()
    body = aggregated.encode(document_of(group), Representation(JSON, "v2"))
    assert read(json_object(body)) == [group]
