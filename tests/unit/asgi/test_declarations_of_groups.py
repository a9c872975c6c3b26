"""Errors in declared groups, each with its field."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from apidiscovery_service.extension_server import (
    ApiGroup,
    ApiResource,
    ApiSubresource,
    ApiVersion,
    InvalidFields,
    discovery_app,
)

NOTHING: Mapping[str, Any] = {}


def problems(*groups: object, openapi: Mapping[str, Any] = NOTHING) -> dict[str, str]:
    """Return the message for each field."""
    with pytest.raises(InvalidFields) as caught:
        discovery_app(cast("list[ApiGroup]", list(groups)), openapi=openapi)
    return {violation.field: violation.message for violation in caught.value.violations}


def group(*resources: object, version: str = "v1") -> ApiGroup:
    return ApiGroup("example.dev", [ApiVersion(version, cast("list[ApiResource]", resources))])


def resource(**fields: object) -> ApiResource:
    return replace(ApiResource("widgets", "Widget"), **cast("dict[str, Any]", fields))


FIRST = "groups[0].versions[0].resources[0]"
SIZE = {"type": "string", "nullable": True, "default": None, "enum": ["S", None]}
NULLABLE = {"type": "object", "properties": {"size": SIZE}}


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"plural": "Widgets"}, "plural", "'Widgets': a DNS-1035 label"),
        ({"plural": 1}, "plural", "want text, not 1"),
        ({"kind": "widget"}, "kind", "begins with a capital"),
        ({"kind": ""}, "kind", "begins with a capital"),
        ({"singular": "A"}, "singular", "a DNS-1035 label"),
        ({"list_kind": "list"}, "list_kind", "begins with a capital"),
        ({"namespaced": "yes"}, "namespaced", "want True or False, not 'yes'"),
        ({"verbs": "get"}, "verbs", "want a list of texts, not 'get'"),
        ({"verbs": ["get", "GET"]}, "verbs[1]", "want a verb in lower case"),
        (
            {"verbs": ["get", "lits"]},
            "verbs[1]",
            "'lits': no verb of Kubernetes; did you mean 'list'?",
        ),
        ({"verbs": ["gte"]}, "verbs[0]", "did you mean 'get'?"),
        ({"verbs": ["get", "get"]}, "verbs[1]", "'get' is there already"),
        ({"short_names": ["w d"]}, "short_names[0]", "a DNS-1035 label"),
        ({"categories": [None]}, "categories[0]", "want text, not None"),
        ({"storage_version": "V1"}, "storage_version", "a DNS-1035 label"),
        ({"subresources": "status"}, "subresources", "want a list, not 'status'"),
        ({"subresources": ["Status"]}, "subresources[0]", "want a name in lower case"),
        ({"subresources": [3]}, "subresources[0]", "want text, not 3"),
        ({"subresources": ["proxy//path"]}, "subresources[0]", "want a name"),
        ({"subresources": ["proxy/"]}, "subresources[0]", "want a name"),
        ({"subresources": ["/proxy"]}, "subresources[0]", "want a name"),
        (
            {"subresources": ["spin", ApiSubresource("spin")]},
            "subresources[1]",
            "'spin' is there already",
        ),
        (
            {"subresources": [ApiSubresource("spin", "options")]},
            "subresources[0].kind",
            "begins with a capital",
        ),
        (
            {"subresources": [ApiSubresource("spin", "Options", group="other.dev")]},
            "subresources[0].version",
            "want the version of group 'other.dev' too",
        ),
        ({"schema": ["object"]}, "schema", "want a JSON schema as a mapping"),
        ({"schema": {"type": object()}}, "schema", "is not JSON"),
        ({"schema": {}}, "schema.type", "Required value"),
        (
            {"schema": {"type": "object", "properties": {"size": {"type": "int"}}}},
            "schema.properties[size].type",
            "Unsupported value",
        ),
        (
            {"schema": {"type": "object", "propertys": {}}},
            "schema.propertys",
            "unknown field",
        ),
        (
            {"schema": {"type": "object", "properties": None}},
            "schema.properties",
            "Invalid value: null: must not be null: leave the field out",
        ),
        (
            {
                "schema": {
                    "type": "object",
                    "properties": {"size": {"type": "string", "enum": None}},
                }
            },
            "schema.properties[size].enum",
            "Invalid value: null",
        ),
        (
            {"schema": {"type": "object", "x-kubernetes-validations": [{"rule": None}]}},
            "schema.x-kubernetes-validations[0].rule",
            "Invalid value: null",
        ),
    ],
)
def test_a_resource_is_refused_by_its_field(
    fields: dict[str, Any], field: str, message: str
) -> None:
    found = problems(group(resource(**fields)))
    assert message in found[f"{FIRST}.{field}"]
    assert len(found) == 1


def test_groups_and_versions_are_refused_by_their_fields() -> None:
    found = problems(
        ApiGroup(""),
        ApiGroup("Example.dev", [ApiVersion("1")], priority=0),
        cast("ApiGroup", {"name": "a"}),
        ApiGroup("a.dev", [ApiVersion("v1"), ApiVersion("v1", priority=cast("int", "1"))]),
        ApiGroup("a.dev", cast("list[ApiVersion]", "v1")),
        group(resource(), resource(kind="Other")),
    )
    assert [(field, message.split(";")[0][:40]) for field, message in found.items()] == [
        ("groups[0].name", "is empty"),
        ("groups[0].versions", "want at least one version"),
        ("groups[1].name", "'Example.dev': a lowercase RFC 1123 subd"),
        ("groups[1].priority", "want a number from 1 to 2147483647, not "),
        ("groups[1].versions[0].name", "'1': a DNS-1035 label must consist of lo"),
        ("groups[2]", "want ApiGroup, not {'name': 'a'}"),
        ("groups[3].versions[1].priority", "want a number from 1 to 2147483647, not "),
        ("groups[3].versions[1]", "'v1' is there already"),
        ("groups[4].versions", "want a list of ApiVersion, not 'v1'"),
        ("groups[4]", "'a.dev' is there already"),
        ("groups[5].versions[0].resources[1]", "'widgets' is there already"),
    ]


def document(**fields: object) -> dict[str, object]:
    sound = {"openapi": "3.0.0", "info": {"title": "a", "version": "1"}, "paths": {}}
    return {**sound, **fields}


@pytest.mark.parametrize(
    ("openapi", "message"),
    [
        ({"other.dev/v1": document()}, "want one of the group-versions that are declared"),
        ({"example.dev/v1": b"{"}, "JSON"),
        ({"example.dev/v1": {"a": object()}}, "is not JSON"),
        ({"example.dev/v1": document(openapi="2.0")}, "openapi"),
        ({"example.dev/v1": document(paths={"/apis/other.dev/v1/a": {}})}, "want a path below"),
    ],
)
def test_documents_are_checked(openapi: dict[str, Any], message: str) -> None:
    found = problems(group(resource()), openapi=openapi)
    (name,) = openapi
    assert message in found[f"openapi[{name!r}]"]


@pytest.mark.parametrize(
    ("argument", "value", "told"),
    [
        ("groups", None, "want a list of ApiGroup"),
        ("groups", 1, "want a list of ApiGroup"),
        ("openapi", None, "want a mapping"),
        ("openapi", [], "want a mapping"),
        ("server_address", None, "want text"),
        ("server_address", "host:1\r\n", "white space"),
        ("version", 1, "want text"),
        ("checks", None, "want a mapping"),
        ("checks", {"store": 1}, "a callable"),
        ("checks", {"ping": lambda: None}, "except ping"),
        ("checks", {"": lambda: None}, "want a name"),
    ],
)
def test_a_wrong_argument_is_named(argument: str, value: object, told: str) -> None:
    arguments: dict[str, Any] = {"groups": [group()], argument: value}
    with pytest.raises(InvalidFields, match=rf"(?s){argument}.*{told}"):
        discovery_app(**arguments)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"subresources": ["proxy/path"]}, id="path of subresources"),
        # Only verbs that look misspelt are refused.
        pytest.param({"verbs": ("get", "approve", "bind", "sign", "use", "set")}, id="own verbs"),
        pytest.param({"schema": NULLABLE}, id="null in a default and an enum"),
    ],
)
def test_a_resource_is_accepted(fields: dict[str, Any]) -> None:
    app = discovery_app([group(resource(**fields))])
    assert app.etag
