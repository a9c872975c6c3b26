"""Versions, names and subresources of two states of a CustomResourceDefinition."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from apidiscovery_client.schema_diff import changes_json, compare_definitions
from real_cluster import definition

_Edit = Callable[[dict[str, Any]], Any]


def _old() -> dict[str, Any]:
    crd = definition("widgets", "Widget", "v1", "v2")
    crd["status"] = {"storedVersions": ["v1"]}
    for version in crd["spec"]["versions"]:
        version["schema"] = copy.deepcopy(version["schema"])
    return crd


def _flip_storage(crd: dict[str, Any]) -> None:
    for version in crd["spec"]["versions"]:
        version["storage"] = not version["storage"]


_ROWS: list[tuple[_Edit, dict[str, tuple[str, ...]], str]] = [
    (
        lambda crd: crd["spec"].update(scope="Cluster"),
        {"scope-changed": ("rejected", "absent", "rejected")},
        "scope",
    ),
    (
        lambda crd: crd["spec"]["names"].update(shortNames=["w"]),
        {"names-changed": ("fine", "fine", "fine")},
        "short names",
    ),
    (
        lambda crd: crd["spec"]["names"].update(plural="others"),
        {"names-changed": ("rejected", "absent", "rejected")},
        "plural",
    ),
    (
        lambda crd: crd["spec"]["versions"][1].update(served=False),
        {"served-changed": ("rejected", "absent", "fine")},
        "served",
    ),
    (
        lambda crd: crd["spec"]["versions"].pop(1),
        {"version-removed": ("rejected", "absent", "fine")},
        "version",
    ),
    (
        lambda crd: crd["spec"]["versions"].append(dict(crd["spec"]["versions"][1], name="v3")),
        {"version-added": ("fine", "fine", "fine")},
        "new version",
    ),
    (_flip_storage, {"storage-version-changed": ("fine", "fine", "fine")}, "storage"),
    (
        lambda crd: crd["spec"].update(conversion={"strategy": "Webhook"}),
        {"conversion-changed": ("unknown", "unknown", "unknown")},
        "conversion",
    ),
    (
        lambda crd: crd["spec"]["versions"][0].pop("subresources"),
        {"status-subresource-changed": ("rejected", "fine", "fine")},
        "status",
    ),
    (
        lambda crd: crd["spec"]["versions"][0].update(additionalPrinterColumns=[{"name": "A"}]),
        {"printer-columns-changed": ("fine", "fine", "fine")},
        "columns",
    ),
    (
        lambda crd: crd["spec"]["versions"][0].update(deprecated=True),
        {"deprecated-changed": ("fine", "fine", "fine")},
        "deprecated",
    ),
    (
        lambda crd: crd["spec"].update(group="other.example.com"),
        {"group-changed": ("rejected", "absent", "rejected")},
        "group",
    ),
    (
        lambda crd: crd["spec"]["names"].update(kind="Gadget"),
        {"names-changed": ("rejected", "different", "rejected")},
        "kind",
    ),
    (
        lambda crd: crd["spec"]["names"].update(listKind="Gadgets"),
        {"names-changed": ("fine", "different", "fine")},
        "kind of lists",
    ),
    (
        lambda crd: crd["spec"]["names"].update(singular="gadget", categories=["all"]),
        {"names-changed": ("fine", "fine", "fine")},
        "singular and categories",
    ),
    (
        lambda crd: crd["spec"]["versions"][0]["subresources"].update(scale={"a": ".spec.a"}),
        {"scale-subresource-changed": ("fine", "fine", "fine")},
        "scale added",
    ),
    (
        lambda crd: crd["spec"]["versions"][0].update(selectableFields=[{"jsonPath": ".size"}]),
        {"selectable-fields-changed": ("fine", "fine", "fine")},
        "selectable fields",
    ),
]


@pytest.mark.parametrize(("edit", "told", "_name"), _ROWS, ids=[row[2] for row in _ROWS])
def test_a_change_of_a_definition_has_its_verdicts(
    edit: _Edit, told: dict[str, tuple[str, ...]], _name: str
) -> None:
    new = _old()
    edit(new)

    changes = compare_definitions(_old(), new)

    verdicts = [(one.change, one.verdicts) for one in changes]
    assert {rule: (one.writer, one.reader, one.stored) for rule, one in verdicts} == told


def _backward(edit: _Edit) -> dict[str, tuple[str, ...]]:
    """Return what the opposite of a change is told to do."""
    old = _old()
    edit(old)
    changes = compare_definitions(old, _old())
    return {one.change: (one.verdicts.writer, one.verdicts.reader) for one in changes}


def test_the_opposite_of_a_change_has_verdicts_of_its_own() -> None:
    first = _old()["spec"]["versions"][0]

    assert _backward(_ROWS[3][0]) == {"served-changed": ("fine", "fine")}
    assert _backward(_ROWS[5][0]) == {"version-removed": ("rejected", "absent")}
    assert first["subresources"] == {"status": {}}
    told = _backward(lambda crd: crd["spec"]["versions"][0].pop("subresources"))
    assert told == {"status-subresource-changed": ("fine", "fine")}  # the schema has no status
    told = _backward(_add_scale)
    assert told == {"scale-subresource-changed": ("rejected", "absent")}
    told = _backward(lambda crd: crd["spec"]["versions"][0].update(selectableFields=[{"a": "b"}]))
    assert told == {"selectable-fields-changed": ("fine", "different")}


def _add_scale(crd: dict[str, Any]) -> None:
    crd["spec"]["versions"][0]["subresources"]["scale"] = {"specReplicasPath": ".size"}


def test_status_in_manifests_is_lost_when_status_becomes_a_subresource() -> None:
    def with_status(crd: dict[str, Any]) -> dict[str, Any]:
        fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        fields["status"] = {"type": "object"}
        return crd

    old = with_status(_old())
    del old["spec"]["versions"][0]["subresources"]

    (change,) = compare_definitions(old, with_status(_old()))

    assert (change.change, change.verdicts.writer) == ("status-subresource-changed", "pruned")


def test_a_storage_version_of_another_schema_or_with_a_webhook_is_not_decided() -> None:
    new = _old()
    _flip_storage(new)
    fields = new["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]
    fields["more"] = {"type": "string"}

    told = {one.change: one.verdicts for one in compare_definitions(_old(), new)}

    assert told["storage-version-changed"].stored == "unknown"
    webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    old, new = _old(), _old()
    old["spec"]["conversion"] = new["spec"]["conversion"] = webhook
    assert not compare_definitions(old, new)
    new["spec"]["conversion"] = {**webhook, "webhook": {"conversionReviewVersions": ["v2"]}}
    (change,) = compare_definitions(old, new)
    assert (change.change, change.verdicts.stored) == ("conversion-changed", "unknown")
    assert change.verdicts.reason


def test_unknown_fields_are_lost_when_a_definition_begins_to_prune() -> None:
    old = _old()
    old["spec"]["preserveUnknownFields"] = True

    (change,) = compare_definitions(old, _old())

    assert (change.verdicts.writer, change.verdicts.stored) == ("pruned", "pruned")


def test_a_version_that_was_not_served_goes_unnoticed() -> None:
    old, new = _old(), _old()
    old["spec"]["versions"][1]["served"] = False
    del new["spec"]["versions"][1]

    (change,) = compare_definitions(old, new)

    assert (change.change, change.verdicts.writer) == ("version-removed", "fine")


def test_a_version_that_may_be_stored_cannot_be_removed() -> None:
    new = _old()
    _flip_storage(new)
    del new["spec"]["versions"][0]

    changes = compare_definitions(_old(), new)

    told = {one.change: one.verdicts.stored for one in changes}
    assert told["stored-version-removed"] == "rejected"


def test_a_change_of_a_schema_is_told_in_the_fixed_form() -> None:
    new = _old()
    fields = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    fields["size"] = {**fields["size"], "maximum": 3}

    assert changes_json(compare_definitions(_old(), new)) == {
        "changes": [
            {
                "group": "example.com",
                "version": "v1",
                "kind": "Widget",
                "path": "size",
                "change": "maximum-added",
                "before": None,
                "after": 3,
                "writer": "rejected",
                "reader": "fine",
                "stored": "fine",
                "applier": "fine",
            }
        ]
    }
