"""Differences between two sources of schemas, and kinds that only one of them covers."""

import pytest
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.schema_diff import Change
from apidiscovery_client.schemas import (
    Components,
    FieldChanges,
    GivenSchemas,
    ReleasedSchemas,
    SchemaSource,
    compare_sources,
)
from schema_samples import components, documents, files, widget

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
SHORT = {"type": "string", "maxLength": 3}


def told(old: SchemaSource, new: SchemaSource) -> list[tuple[str, str, str, str]]:
    """Return version, kind, path and rule of each change."""
    return [line(one) for one in compare_sources(old, new).changes]


def line(change: Change) -> tuple[str, str, str, str]:
    return change.version, change.kind, change.path, change.change


# --------------------------------------------------------------------------------------------------
# Definitions.


def test_definitions_of_one_name_are_compared_with_all_that_they_say() -> None:
    old = widget({"a": TEXT}, versions=("v1",), subresources={"status": {}})
    new = widget({"a": SHORT}, versions=("v1", "v2"))
    assert told(files(old), files(new)) == [
        ("v1", "Widget", "spec.versions[v1].subresources.status", "status-subresource-changed"),
        ("v1", "Widget", "spec.a", "length-added"),
        ("v2", "Widget", "spec.versions[v2]", "version-added"),
    ]


def test_kinds_in_only_one_of_two_files_are_added_or_removed() -> None:
    old, new = files(widget({}, kind="Old")), files(widget({}, kind="New"))
    assert told(old, new) == [
        ("v1", "New", "", "version-added"),
        ("v1", "Old", "", "version-removed"),
    ]


def test_a_file_says_nothing_of_other_kinds_of_a_server() -> None:
    server = documents("server", v1=components("example.com", "v1", Widget={}, Other={}))
    file = files(widget({}))
    assert told(file, server) == []
    assert told(server, file) == []


def test_a_kind_of_a_file_that_a_server_lacks_is_told() -> None:
    server = documents("server", v1=components("example.com", "v1", Other={}))
    assert told(files(widget({})), server) == [("v1", "Widget", "", "version-removed")]
    assert told(server, files(widget({}, versions=("v3",)))) == [
        ("v3", "Widget", "", "version-added")
    ]


def test_a_definition_and_a_document_of_its_kind_are_compared_by_version() -> None:
    file = files(widget({"a": TEXT, "b": TEXT}, versions=("v1", "v2")))
    server = documents(
        "server",
        v1=components("example.com", "v1", Widget={"a": NUMBER, "b": TEXT}),
        v2=components("example.com", "v2", Widget={"a": TEXT, "b": TEXT}),
    )
    assert told(file, server) == [("v1", "Widget", "spec.a", "type-changed")]


def test_versions_that_are_not_served_are_not_there() -> None:
    file = files(widget({}, versions=("v1",), served=False))
    server = documents("server", v1=components("example.com", "v1"))
    assert told(file, server) == []


# --------------------------------------------------------------------------------------------------
# Documents.


def test_kinds_of_documents_are_compared_through_their_references() -> None:
    old = documents("a", v1=components("example.com", "v1", Widget={"a": TEXT}))
    new = documents("b", v1=components("example.com", "v1", Widget={"a": SHORT}, More={}))
    assert told(old, new) == [
        ("v1", "More", "", "version-added"),
        ("v1", "Widget", "spec.a", "length-added"),
    ]


def test_answers_are_shared_within_a_document_alone() -> None:
    """Another document may have another schema of the same name."""
    limited = {"type": "string", "anyOf": [{"$ref": "#/components/schemas/Part"}]}
    olds, news = (
        {v: components("example.com", v, Widget={"a": field}) for v in ("v1", "v2")}
        for field in (TEXT, limited)
    )
    for version, part in (("v1", SHORT), ("v2", TEXT)):
        news[version]["components"]["schemas"]["Part"] = part
    found = compare_sources(documents("a", **olds), documents("b", **news)).changes
    assert [(one.version, one.change, one.verdicts.writer) for one in found] == [
        ("v1", "any-of-added", "rejected"),
        ("v2", "any-of-added", "unknown"),
    ]


def test_metadata_is_told_once_for_all_kinds() -> None:
    old, new = (components("example.com", "v1", Widget={}, Gadget={}) for _ in range(2))
    meta = next(one for name, one in new["components"]["schemas"].items() if "ObjectMeta" in name)
    meta["properties"]["clusterName"] = {"type": "string"}
    found = compare_sources(documents("a", v1=new), documents("b", v1=old)).changes
    assert [(one.group, *line(one)) for one in found] == [
        ("meta", "v1", "ObjectMeta", "metadata.clusterName", "property-removed")
    ]


def test_a_group_version_in_only_one_server_is_one_change() -> None:
    old = documents(
        "a", v1=components("example.com", "v1"), v2=components("example.com", "v2", A={})
    )
    new = documents("b", v1=components("example.com", "v1"))
    assert told(old, new) == [("v2", "", "", "version-removed")]
    assert told(new, old) == [("v2", "", "", "version-added")]


def test_a_document_that_cannot_be_read_is_a_failure_and_no_removal() -> None:
    old = documents("a", v1=components("example.com", "v1", Widget={}))
    new = documents("b", failures={"v1": "it is down"})
    found = compare_sources(old, new)
    assert found.changes == ()
    assert found.failures == {"example.com/v1": "it is down"}


def test_a_reference_to_nothing_is_told_with_its_kind() -> None:
    old, new = (components("example.com", "v1", Widget={"a": TEXT}) for _ in range(2))
    del new["components"]["schemas"]["com.example.v1.WidgetSpec"]
    found = compare_sources(documents("a", v1=old), documents("b", v1=new))
    assert list(found.failures) == ["example.com/v1 Widget"]


# --------------------------------------------------------------------------------------------------
# Releases.


@pytest.fixture(scope="module")
def between_releases() -> FieldChanges:
    return compare_sources(ReleasedSchemas("1.31"), ReleasedSchemas("1.36"))


def test_new_validation_and_fields_of_releases_are_changes(between_releases: FieldChanges) -> None:
    changes = between_releases.changes
    lines = {(one.group, *line(one), str(one.verdicts.writer)) for one in changes}
    scope = "webhooks[].rules[].scope"
    group = "admissionregistration.k8s.io"
    assert (group, "v1", "ValidatingWebhookConfiguration", scope, "enum-added", "unknown") in lines
    hostname = "spec.template.spec.hostnameOverride"
    assert ("apps", "v1", "Deployment", hostname, "property-added", "fine") in lines
    flows = "flowcontrol.apiserver.k8s.io"
    assert (flows, "v1beta3", "", "", "version-removed", "rejected") in lines
    assert not between_releases.failures


def test_a_release_says_nothing_of_groups_that_are_not_of_kubernetes() -> None:
    cluster = documents("cluster", v1=components("example.com", "v1", Widget={}))
    found = compare_sources(cluster, ReleasedSchemas("1.36"))
    assert found.uncovered == ("example.com",)
    assert "example.com" not in {one.group for one in found.changes}


# --------------------------------------------------------------------------------------------------
# Built-in kinds.


def test_a_group_of_kubernetes_has_built_in_kinds_and_others_have_not() -> None:
    for group, writer in (("apps", "unknown"), ("example.com", "rejected")):
        gv = GroupVersion(group, "v1")
        old, new = (
            GivenSchemas("a", {}, {gv: Components.of(components(group, "v1", Widget={"a": field}))})
            for field in (TEXT, TEXT | {"enum": ["x"]})
        )
        (change,) = compare_sources(old, new).changes
        assert (change.change, change.verdicts.writer) == ("enum-added", writer)


def test_less_than_half_of_the_changes_of_releases_break(between_releases: FieldChanges) -> None:
    found = between_releases.changes
    breaking = [one for one in found if one.verdicts.breaks]
    assert {one.change for one in breaking} <= {
        "enum-changed",
        "map-type-changed",
        "property-removed",
        "required-removed",
        "type-changed",
        "version-removed",
    }
    assert 0 < len(breaking) < len(found) / 2
