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
