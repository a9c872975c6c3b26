"""Tables as kube-apiserver makes them for `kubectl get`."""

from datetime import UTC, datetime

import pytest
from apidiscovery_formats.negotiation import JSON
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.encoding import ListMeta, encode_value
from apidiscovery_service.kube.objects.json_fields import mappings
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION, Object
from apidiscovery_service.kube.objects.tables import IncludeObject, table
from apidiscovery_service.kube.objects.watch_events import bookmark
from kube_samples import made

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CREATED = "2026-01-02T03:00:00Z"


def cells(*entries: tuple[str, str], common: str | None = None) -> JSONValue:
    """Return the cells of a StorageVersion with such entries of servers."""
    status: dict[str, JSONValue] = {
        "storageVersions": [
            {"apiServerID": server, "encodingVersion": version} for server, version in entries
        ]
    }
    if common is not None:
        status["commonEncodingVersion"] = common
    metadata: JSONValue = {"name": "apps.deployments", "creationTimestamp": CREATED}
    item = made(STORAGE_VERSION, metadata=metadata, status=status)
    return mappings(table(STORAGE_VERSION, [item], ListMeta(), now=NOW), "rows")[0]["cells"]


def columns(shown: Object) -> list[tuple[JSONValue, ...]]:
    found = mappings(shown, "columnDefinitions")
    assert all(list(column)[3] == "description" for column in found)
    assert all(column["description"] for column in found)
    names = ("name", "type", "format", "priority")
    return [tuple(column[name] for name in names) for column in found]


def test_servers_that_agree_are_shown_with_their_version() -> None:
    assert cells(("a", "v1"), ("b", "v1"), common="v1") == [
        "apps.deployments",
        "v1",
        "a=v1,b=v1",
        "4m5s",
    ]


def test_at_most_three_servers_are_shown() -> None:
    servers = [(name, "v1") for name in "abcde"]

    assert cells(*servers[:3]) == ["apps.deployments", "<unset>", "a=v1,b=v1,c=v1", "4m5s"]
    assert cells(*servers) == ["apps.deployments", "<unset>", "a=v1,b=v1,c=v1 + 2 more...", "4m5s"]


def test_versions_without_a_report_are_unset() -> None:
    assert cells() == ["apps.deployments", "<unset>", "<unset>", "4m5s"]
    assert cells(("", "")) == ["apps.deployments", "<unset>", "=", "4m5s"]


def test_columns_are_those_of_kubernetes() -> None:
    storage_versions = table(STORAGE_VERSION, [], ListMeta(), now=NOW)
    leases = table(LEASE, [], ListMeta(), now=NOW)

    assert columns(storage_versions) == [
        ("Name", "string", "name", 0),
        ("CommonEncodingVersion", "string", "", 0),
        ("StorageVersions", "string", "", 0),
        ("Age", "string", "", 0),
    ]
    assert columns(leases) == [
        ("Name", "string", "name", 0),
        ("Holder", "string", "", 0),
        ("Age", "string", "", 0),
    ]


def test_a_table_has_the_keys_of_go_in_order_and_the_metadata_of_its_list() -> None:
    item = made(LEASE, metadata={"name": "a"}, spec={"holderIdentity": "h"})

    shown = table(LEASE, [item], ListMeta("7", "next", 2), now=NOW, headers=False)

    assert encode_value(shown, JSON) == (
        b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7",'
        b'"continue":"next","remainingItemCount":2},"columnDefinitions":null,"rows":['
        b'{"cells":["a","h","\\u003cunknown\\u003e"],"object":{"kind":"PartialObjectMetadata",'
        b'"apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}}]}\n'
    )


def test_a_table_without_rows_has_an_empty_list_of_them() -> None:
    assert table(LEASE, [], ListMeta("7"), now=NOW)["rows"] == []


def included(item: Object, include: IncludeObject, version: str = "v1") -> JSONValue:
    shown = table(LEASE, [item], ListMeta(), now=NOW, include=include, version=version)
    assert shown["apiVersion"] == f"meta.k8s.io/{version}"
    return mappings(shown, "rows")[0]["object"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_row_has_as_much_of_its_object_as_is_asked_for(version: str) -> None:
    item = made(LEASE, metadata={"name": "a"}, spec={"holderIdentity": "h"})

    assert included(item, IncludeObject.OBJECT, version) == item
    assert included(item, IncludeObject.NONE, version) is None
    assert included(item, IncludeObject.METADATA, version) == {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {"name": "a"},
    }


def test_only_the_bookmark_after_the_initial_events_always_has_its_object() -> None:
    marked = included(bookmark(LEASE, "7", initial_events_end=True), IncludeObject.NONE)

    assert isinstance(marked, dict)
    assert marked["kind"] == "PartialObjectMetadata"
    assert included(bookmark(LEASE, "7"), IncludeObject.NONE) is None
